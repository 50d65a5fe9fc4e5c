"""`heliostat resolve`: what each choice means for a stopped partition or topic, and deciding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin, ConfigEntry
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.gaps.choices import (
    AT_THE_LANES_POSITION,
    CAUSE_OF_CODE,
    OF_WHOLE_TOPICS,
    Cause,
    Effect,
    Facts,
    GapChoice,
    effect_of,
    why_not,
)
from heliostat.gaps.facts import Ask, OwnRecords, asks_of, gather, with_jumps
from heliostat.gaps.ledger import GapDecision
from heliostat.gaps.originals import look
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.store import read_maps
from heliostat.operate.gaps import PendingDecision, ledger_of, pending_decisions
from heliostat.operate.reach import require_answer
from heliostat.state.link_state import LinkState, Starts, Stored
from heliostat.topics.values import MirrorRecord

MERGED_HINT = (
    "; where rows of producer ids (PRODUCERS_LOST) or of an offset map (OFFSET_MAP_LOST) are gone, "
    "nothing shows where to go on: docs/merge.md says how to begin anew"
)


@dataclass(frozen=True, slots=True)
class Option:
    """Effect of one choice on one partition; `why_not` is empty if the choice is possible."""

    choice: GapChoice
    effect: Effect | None
    why_not: str


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """One partition that waits for a decision, its facts from both clusters, and its choices."""

    stopped: PendingDecision
    facts: Facts
    options: tuple[Option, ...]
    source_id: str = ""
    """Id of the source's topic as its mirror knows it."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        facts = asdict(self.facts)
        facts["cause"] = self.facts.cause.value
        return {
            "stopped": self.stopped.to_json(),
            "facts": facts,
            "choices": {option.choice.value: _option_json(option) for option in self.options},
        }


def _option_json(option: Option) -> dict[str, Any]:
    if option.effect is None:
        return {"possible": False, "why_not": option.why_not}
    fields = asdict(option.effect)
    del fields["choice"]
    return {"possible": True, **fields}


def explain(
    config: Config, link: LinkConfig, topic: TopicName, partition: PartitionId | None = None
) -> list[DecisionOptions]:
    """Return what each choice means for a stopped topic or its stopped partitions, as of now.

    Raises
    ------
    Refused
        Nothing in the topic waits for a decision.
    ConnectionLost
        A cluster does not answer.
    """
    require_answer(config.clusters[link.source], config.clusters[link.target])
    with closing(ledger_of(config, link)) as ledger:
        ledger.read()
        stopped = [
            item
            for item in pending_decisions(config, link, ledger)
            if item.topic == topic and partition in {None, item.partition, _whole(item)}
        ]
        if not stopped:
            which = topic if partition is None else str(TopicPartition(topic, partition))
            raise Refused(
                f"nothing in {which} waits for a decision",
                hint="see `heliostat gaps` and `heliostat status` for what is stopped"
                + MERGED_HINT * link.topics.merges,
            )
        with closing(LinkState(link, config.clusters[link.target])) as state:
            stored = state.read()
        record = stored.mirrors[topic]
        access = config.clusters[link.target].access()
        source_access = config.clusters[link.source].access()
        with (
            _own_records(link, source_access, access) as own,
            ClusterAdmin(source_access) as source,
            ClusterAdmin(access) as target,
        ):
            configs = source.describe_configs([topic], ["cleanup.policy"])[topic]
            return [
                DecisionOptions(item, facts, _options(facts), id_text(record.source_id))
                for item in stopped
                for facts in _at_position(
                    item,
                    gather(
                        source,
                        target,
                        with_jumps(_asks(item, record, stored, configs), ledger, record),
                        record=record,
                        code=item.code,
                        maps=lambda: read_maps(access, LinkName(link.name)),
                        copied=ledger.copied.get(topic),
                        fills=link.topics.offsets == "exact",
                        own=own,
                    ),
                    source_access,
                )
            ]


@contextmanager
def _own_records(
    link: LinkConfig, source: ClusterAccess, target: ClusterAccess
) -> Iterator[OwnRecords | None]:
    """Yield what asks both sites of a link of merged topics; None: it merges none."""
    if not link.topics.merges:
        yield None
        return
    from heliostat.link.own_records import OwnRecordsLook  # its readers take long to load

    with closing(OwnRecordsLook(link, source, target, look_bytes=None)) as own:
        yield own


def _at_position(
    item: PendingDecision, all_facts: Iterable[Facts], access: ClusterAccess
) -> Iterable[Facts]:
    """Yield facts, with the lane's position if the cause depends on it."""
    for facts in all_facts:
        if facts.cause in AT_THE_LANES_POSITION and item.position is not None:
            lane_facts = replace(facts, position=max(facts.position, item.position))
            is_corrupt = lane_facts.cause is Cause.RECORD_CORRUPT
            failing = (
                look(access, lane_facts.source, lane_facts.position, lane_facts.cause)
                if is_corrupt
                else None
            )
            yield lane_facts if failing is None else replace(lane_facts, failing=failing.range)
        else:
            yield facts


def _whole(item: PendingDecision) -> PartitionId | None:
    """Return the partition; None if the decision concerns the whole topic."""
    return item.partition if CAUSE_OF_CODE[item.code] not in OF_WHOLE_TOPICS else None


def _asks(
    item: PendingDecision,
    record: MirrorRecord,
    stored: Stored,
    configs: Mapping[str, ConfigEntry] | BrokerError,
) -> list[Ask]:
    begins = stored.starts.get(record.source, Starts(None)).offsets
    partition = _whole(item)
    partitions = begins if partition is None else (partition,)
    return asks_of(record, partitions, begins, configs)


def _options(facts: Facts) -> tuple[Option, ...]:
    return tuple(
        Option(choice, effect_of(facts, choice), why_not(facts, choice)) for choice in GapChoice
    )


def decide(
    config: Config,
    link: LinkConfig,
    explained: Iterable[DecisionOptions],
    choice: GapChoice,
    user: str,
) -> list[GapDecision]:
    """Write a decision; the running link carries it out within a refresh.

    Parameters
    ----------
    config
        The configuration.
    link
        The link.
    explained
        Partitions to decide on.
    choice
        The choice for all of them.
    user
        Name of the person who decides.

    Raises
    ------
    Refused
        The choice is not possible for one of them; nothing is written.
    """
    decisions: dict[str, GapDecision] = {}
    for item in explained:
        why = why_not(item.facts, choice)
        if why:
            raise Refused(f"{item.facts.source}: {choice.value} is not possible: {why}")
        effect = effect_of(item.facts, choice)
        recreates = effect is not None and effect.recreates
        is_whole = CAUSE_OF_CODE[item.stopped.code] in OF_WHOLE_TOPICS or recreates
        decision = GapDecision(
            item.stopped.topic,
            None if is_whole else item.facts.source.partition,
            item.stopped.code,
            choice,
            user,
            SystemClock().wall_ms(),
            item.source_id,
        )
        decisions[decision.key] = decision
    with closing(ledger_of(config, link)) as ledger:
        ledger.ensure(link.state.replication_factor)
        for decision in decisions.values():
            ledger.decide(decision)
    return list(decisions.values())
