"""Where existing mirrors differ from what their sources have and the configuration wants; pure.

A reconciliation mends what Kafka lets it: settings that it follows, and partitions. The rest is
shown until somebody mends it: replicas, what only brokers' settings give, and settings that
somebody else gave a mirror. What `config_set` pins or `config_exclude` leaves out is no drift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from heliostat.clusters.admin import ConfigEntry
from heliostat.config import (
    CONFIG_EXCLUDE_DEFAULT,
    FORCED_CONFIGS,
    TopicsConfig,
    compile_pattern,
)
from heliostat.names import TopicName
from heliostat.topics.configs import OLD_TIME_LIMIT, SIZES, WantedConfigs
from heliostat.topics.values import MirrorRecord, SourceTopic, TargetTopic

MIN_INSYNC = "min.insync.replicas"
NAMED_MAX = 3
"""How many topics a line names."""
REPORTED_MAX = 20
"""How many a driver's report has."""
MENDED = "the link sets it by itself, or `heliostat apply` does"
_NEVER = frozenset({*FORCED_CONFIGS, OLD_TIME_LIMIT, *SIZES, MIN_INSYNC})


class DriftKind(StrEnum):
    """What of a mirror differs."""

    CONFIG = "config"
    """A setting."""
    PARTITIONS = "partitions"
    """It has fewer partitions."""
    REPLICATION_FACTOR = "replication_factor"
    """It has fewer replicas than wanted."""
    MIN_INSYNC_REPLICAS = "min_insync_replicas"
    """Fewer replicas must have a record before its producer is answered, by what is in effect."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is other than wanted; equal in all mirrors that have the same."""

    kind: DriftKind
    setting: str
    """Key of a setting; else empty."""
    wants: str | None
    """None: that it is not set."""
    has: str | None
    why: str
    """Why that is wanted."""
    hint: str
    """What mends it."""
    is_mended: bool = False
    """Whether the link mends it by itself."""

    def text(self) -> str:
        """Return it for people."""
        name = self.setting or str(self.kind).replace("_", " ")
        has = f"{name} is {'not set' if self.has is None else self.has}"
        wants = "wanted unset" if self.wants is None else f"wanted {self.wants}"
        return f"{has}, {wants}: {self.why}; {self.hint}"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference of one mirror."""

    source: TopicName
    target: TopicName
    difference: Difference

    def to_json(self) -> dict[str, Any]:
        """Return it for reports and answers."""
        difference = self.difference
        return {
            "source": self.source,
            "target": self.target,
            "kind": difference.kind.value,
            "setting": difference.setting,
            "wants": difference.wants,
            "has": difference.has,
            "why": difference.why,
            "hint": difference.hint,
            "is_mended": difference.is_mended,
        }


class MirrorDrift:
    """Collects where mirrors differ; computed once for those that share settings.

    Parameters
    ----------
    config
        What is wanted of topics.
    brokers
        How many the target has.
    """

    def __init__(self, config: TopicsConfig, brokers: int) -> None:
        self._config = config
        self._brokers = brokers
        self._rows: list[Drift] = []
        self._known: dict[tuple[int, ...], tuple[Difference, ...]] = {}

    def found(self) -> tuple[Drift, ...]:
        """Return all that was found."""
        return tuple(self._rows)

    def compare(
        self,
        record: MirrorRecord | None,
        source: SourceTopic,
        target: TargetTopic,
        wanted: WantedConfigs,
        changes: Mapping[str, str | None],
    ) -> None:
        """Compare a mirror with its source, if it is not new; see `differences`."""
        if record is None:
            return
        slot = record.slot
        wants = slot.target_partitions(source.partitions)
        # Their `id()` stays valid: the topics, which hold these mappings, outlive the plan.
        shared = id(source.configs), id(target.configs), id(wanted)
        key = (*shared, source.replication_factor, target.replication_factor)
        is_alone = bool(changes) or target.partitions < wants
        rows = None if is_alone else self._known.get(key)
        if rows is None:
            rows = tuple(
                differences(
                    self._config,
                    *(wanted, source, target, changes),
                    partitions=wants,
                    brokers=self._brokers,
                    leads=slot.leads,
                )
            )
        if not is_alone:
            self._known[key] = rows
        self._rows += [Drift(source.name, target.name, difference) for difference in rows]


def differences(
    config: TopicsConfig,
    wanted: WantedConfigs,
    source: SourceTopic,
    target: TargetTopic,
    changes: Mapping[str, str | None],
    *,
    partitions: int,
    brokers: int,
    leads: bool = True,
) -> Iterator[Difference]:
    """Yield what of one existing mirror differs.

    Parameters
    ----------
    wanted, changes
        Settings that it should have, and those that a reconciliation would change.
    partitions
        How many it should have at least.
    brokers
        How many the target has.
    leads
        Whether the link decides on settings of the topic, which others may fill as well.
    """
    if target.partitions < partitions:
        why = f"the source has {source.partitions}"
        has, wants = str(target.partitions), str(partitions)
        yield Difference(DriftKind.PARTITIONS, "", wants, has, why, MENDED, is_mended=True)
    for key, value in changes.items():
        now = _value(target.configs, key)
        why = wanted.why(key)
        yield Difference(DriftKind.CONFIG, key, value, now, why, MENDED, is_mended=True)
    yield from _replicas(config, source, target, brokers)
    if leads:
        yield from _min_insync(config, source, target, changes)
        yield from _overrides(config, wanted, source, target, changes)


def _replicas(
    config: TopicsConfig, source: SourceTopic, target: TargetTopic, brokers: int
) -> Iterator[Difference]:
    pinned = config.replication_factor
    wants = min(source.replication_factor, brokers) if pinned is None else pinned
    if target.replication_factor >= wants:
        return
    why = "the source has it" if pinned is None else "topics.replication_factor"
    hint = "give it more replicas with kafka-reassign-partitions" + (
        ", or pin topics.replication_factor" if pinned is None else ""
    )
    has = str(target.replication_factor)
    yield Difference(DriftKind.REPLICATION_FACTOR, "", str(wants), has, why, hint)


def _min_insync(
    config: TopicsConfig,
    source: SourceTopic,
    target: TargetTopic,
    changes: Mapping[str, str | None],
) -> Iterator[Difference]:
    """Yield that fewer replicas acknowledge, by the topics' settings or their brokers'.

    Links don't follow it unless told to: a mirror may have fewer replicas.
    """
    wants, has = _value(source.configs, MIN_INSYNC), _value(target.configs, MIN_INSYNC)
    if MIN_INSYNC in changes or MIN_INSYNC in config.config_set or wants is None or has is None:
        return
    if int(has) >= min(int(wants), target.replication_factor):
        return
    is_by_default = tuple(config.config_exclude) == tuple(CONFIG_EXCLUDE_DEFAULT)
    if not is_by_default and _is_excluded(config, MIN_INSYNC):  # as an operator decided
        return
    entry = source.configs[MIN_INSYNC]
    why = "the source has it" if entry.is_own else "the source's brokers give it"
    hint = f"pin {MIN_INSYNC} in topics.config_set"
    yield Difference(DriftKind.MIN_INSYNC_REPLICAS, MIN_INSYNC, wants, has, why, hint)


def _overrides(
    config: TopicsConfig,
    wanted: WantedConfigs,
    source: SourceTopic,
    target: TargetTopic,
    changes: Mapping[str, str | None],
) -> Iterator[Difference]:
    """Yield settings that somebody else gave the mirror, which the source has otherwise."""
    if not config.follows_configs or not wanted.is_complete:
        return
    goal = wanted.all()
    for key, entry in target.configs.items():
        if not entry.is_own or key in goal or key in changes or key in _NEVER:
            continue
        there = source.configs.get(key)
        if there is None or there.value == entry.value or there.is_sensitive:
            continue
        if _is_excluded(config, key):
            continue
        why = "the source's brokers give it, and somebody set it at the mirror"
        hint = "unset it there, or pin or exclude it (topics.config_set, topics.config_exclude)"
        yield Difference(DriftKind.CONFIG, key, there.value, entry.value, why, hint)


def _is_excluded(config: TopicsConfig, key: str) -> bool:
    return any(compile_pattern(entry).fullmatch(key) for entry in config.config_exclude)


def _value(configs: Mapping[str, ConfigEntry], key: str) -> str | None:
    entry = configs.get(key)
    return None if entry is None else entry.value


def left_over(
    drift: Iterable[Drift], done: Collection[TopicName], failed: Collection[TopicName]
) -> tuple[Drift, ...]:
    """Return what is left of it after a plan was applied.

    Parameters
    ----------
    done
        Target topics that were changed as planned.
    failed
        Source topics of which something was not.
    """
    return tuple(
        row
        for row in drift
        if not row.difference.is_mended or row.target not in done or row.source in failed
    )


def drift_lines(drift: Iterable[Drift]) -> list[str]:
    """Return a line for each difference: a thousand mirrors may have the same."""
    names: dict[Difference, list[TopicName]] = {}
    for row in drift:
        names.setdefault(row.difference, []).append(row.target)
    return [f"{_named(some)}: {difference.text()}" for difference, some in names.items()]


def _named(names: Sequence[TopicName]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if names[NAMED_MAX:] else ""
    return ", ".join(names[:NAMED_MAX]) + more


def drift_report(drift: Sequence[Drift]) -> dict[str, Any]:
    """Return it for the driver's report, which is written each second."""
    kinds = [row.difference.kind.value for row in drift]
    return {
        "count": len(drift),
        "mirrors": len({row.target for row in drift}),
        "kinds": {kind.value: kinds.count(kind.value) for kind in DriftKind},
        "items": [row.to_json() for row in drift[:REPORTED_MAX]],
    }


def fewer_copies(
    copies: Mapping[TopicName, tuple[int, int]],
) -> tuple[str, ...]:
    """Return a note on topics of which the target keeps fewer copies than the source.

    Parameters
    ----------
    copies
        Replicas there and at the source, by target topic.
    """
    names = [
        TopicName(f"{name} ({here} instead of {there})")
        for name, (here, there) in sorted(copies.items())
        if here < there
    ]
    if not names:
        return ()
    text = f"the target keeps fewer copies than the source: {_named(names)}"
    return (f"{text}; it loses records where the source would not, once brokers are lost",)


def drift_notes(drift: Sequence[Drift]) -> tuple[str, ...]:
    """Return remarks on it."""
    return tuple(f"differs from what is wanted: {line}" for line in drift_lines(drift))
