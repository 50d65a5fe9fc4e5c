"""Which settings a mirror should have at the target, and what must change; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliostat.clusters.admin import ConfigEntry
from heliostat.config import FORCED_CONFIGS, FOREVER_MS, TopicsConfig, compile_pattern
from heliostat.topics.values import MirrorRecord, SourceTopic, TargetTopic

OLD_TIME_LIMIT = "message.timestamp.difference.max.ms"
MESSAGE_BYTES = "max.message.bytes"
SEGMENT_BYTES = "segment.bytes"
MESSAGE_BYTES_DEFAULT = 1_048_588  # Kafka's own default, for clusters that do not report it
SEGMENT_BYTES_DEFAULT = 1 << 30
NEEDED_TO_APPEND = frozenset({*FORCED_CONFIGS, OLD_TIME_LIMIT, MESSAGE_BYTES, SEGMENT_BYTES})
# A size limit is never lowered again: batches of the old size may follow.
SIZES = (MESSAGE_BYTES, SEGMENT_BYTES)
_NOT_FOLLOWED = frozenset({*FORCED_CONFIGS, MESSAGE_BYTES})


@dataclass(frozen=True, slots=True)
class WantedConfigs:
    """Settings of one mirror, by where they come from; a later group overrides an earlier one.

    `synced` follow the source, `pinned` are the link's own, `forced` make it accept raw batches.
    `unknown` are those of the source that the target's brokers do not have. `is_complete` is false
    if the target did not report enough to know what is no longer wanted.
    """

    synced: Mapping[str, str]
    pinned: Mapping[str, str]
    forced: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    is_complete: bool = True

    def all(self) -> dict[str, str]:
        """What the mirror should have."""
        return {**self.synced, **self.pinned, **self.forced}

    def why(self, key: str) -> str:
        """Return why a setting is wanted as it is, or unset."""
        if key in self.forced:
            return "copied batches need it"
        if key in self.pinned:
            return "topics.config_set pins it"
        return "the source has it" if key in self.synced else "the source no longer sets it"

    def of_new_topic(self, inherited: Mapping[str, str | None]) -> dict[str, str]:
        """Settings of a new topic: a size that it inherits anyway is not set."""
        return {
            key: value
            for key, value in sorted(self.all().items())
            if key not in SIZES or inherited.get(key) != value
        }


def wanted_configs(
    config: TopicsConfig,
    source: SourceTopic,
    target: TargetTopic | None,
    inherited: Mapping[str, str | None],
) -> WantedConfigs:
    """Decide on the settings of one mirror.

    Parameters
    ----------
    target
        The mirror's topic as observed; None before it exists.
    inherited
        Settings that a new topic at the target would inherit; may be empty.
    """
    present = {k: e.value for k, e in target.configs.items()} if target else dict(inherited)
    excluded = [compile_pattern(entry) for entry in config.config_exclude]
    synced: dict[str, str] = {}
    unknown: list[str] = []
    for key, entry in sorted(source.configs.items()):
        if key in _NOT_FOLLOWED or any(pattern.fullmatch(key) for pattern in excluded):
            continue
        follows = entry.is_own or (
            config.sync_broker_values and entry.value != inherited.get(key, entry.value)
        )
        if not follows or entry.value is None or entry.is_sensitive or entry.is_read_only:
            continue
        if present and key not in present:
            unknown.append(key)
        else:
            synced[key] = entry.value
    forced = {k: v for k, v in FORCED_CONFIGS.items() if not present or k in present}
    if OLD_TIME_LIMIT in present and len(forced) < len(FORCED_CONFIGS):
        forced[OLD_TIME_LIMIT] = FOREVER_MS  # brokers before 3.6 have this one only (KIP-937)
    pinned_bytes = int(config.config_set.get(MESSAGE_BYTES, 0))
    message = max(
        pinned_bytes or int(present.get(MESSAGE_BYTES) or 0), source_message_bytes(source)
    )
    segment = config.config_set.get(SEGMENT_BYTES) or synced.get(SEGMENT_BYTES)
    if segment is not None:
        synced[SEGMENT_BYTES] = str(max(int(segment), message))
    elif _smallest_segment(present, inherited) < message:
        now = int(present.get(SEGMENT_BYTES) or SEGMENT_BYTES_DEFAULT)
        forced[SEGMENT_BYTES] = str(max(now, message))
    forced[MESSAGE_BYTES] = str(message)
    complete = bool(inherited) or not config.sync_broker_values
    return WantedConfigs(synced, dict(config.config_set), forced, tuple(unknown), complete)


def _smallest_segment(
    present: Mapping[str, str | None], inherited: Mapping[str, str | None]
) -> int:
    """The smaller of the mirror's segment size and the size once its override is unset."""
    values = (present.get(SEGMENT_BYTES), inherited.get(SEGMENT_BYTES))
    return min(int(value or SEGMENT_BYTES_DEFAULT) for value in values)


def source_message_bytes(source: SourceTopic) -> int:
    """The source's largest batch in bytes: its effective `max.message.bytes`."""
    entry = source.configs.get(MESSAGE_BYTES)
    return int(entry.value) if entry is not None and entry.value else MESSAGE_BYTES_DEFAULT


def goal_at_mirror(
    config: TopicsConfig, wanted: WantedConfigs, record: MirrorRecord | None, *, leads: bool
) -> dict[str, str]:
    """Settings that a link maintains at an existing mirror; see `config_changes`."""
    if not leads:
        return dict(wanted.forced)
    if config.follows_configs or (record is None and not config.merges):
        return wanted.all()
    return {**wanted.pinned, **wanted.forced}


def config_changes(
    config: TopicsConfig,
    wanted: WantedConfigs,
    target: TargetTopic,
    record: MirrorRecord | None,
    *,
    leads: bool = True,
) -> dict[str, str | None]:
    """Return settings that must be set, or unset (None), at an existing mirror.

    If another link leads a topic that both fill, only settings that our batches need are set.

    An override that exists only at the target stays: a setting is unset, once the source no longer
    has it, only if this link has set it.
    """
    goal = goal_at_mirror(config, wanted, record, leads=leads)
    changes: dict[str, str | None] = {
        key: value for key, value in goal.items() if _value(target.configs, key) != value
    }
    if leads and config.follows_configs and record is not None and wanted.is_complete:
        for key in record.synced_configs:
            entry = target.configs.get(key)
            if key not in goal and entry is not None and entry.is_own:
                changes[key] = None
    return dict(sorted(changes.items()))


def _value(configs: Mapping[str, ConfigEntry], key: str) -> str | None:
    entry = configs.get(key)
    return None if entry is None else entry.value
