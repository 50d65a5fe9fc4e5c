"""Rows of the ledger, made from facts and decisions; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliostat.gaps.choices import CAUSE_OF_CODE, OF_WHOLE_TOPICS, Cause, Effect, Facts, GapChoice
from heliostat.gaps.facts import Ask, asks_of
from heliostat.gaps.ledger import GapRow
from heliostat.gaps.source_truncation import LostRange
from heliostat.names import Offset, PartitionId, TopicName, id_text
from heliostat.records.copier.lane import PartitionReport
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopic

NO_STARTS = Starts(None)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the link knows, as far as gaps need it."""

    mirrors: Mapping[TopicName, MirrorRecord]
    starts: Mapping[TopicName, Starts]
    topics: Mapping[TopicName, SourceTopic]
    """The source's selected topics, as seen in this reconciliation."""

    def is_of_mirror(self, row: GapRow) -> bool:
        """Return whether a row of the ledger is about a partition that only the link writes."""
        record = self.mirrors.get(row.topic)
        if record is None or record.is_merged:
            return False
        return row.target == record.mirror_of(row.partition)

    def asks(self, record: MirrorRecord, partitions: Iterable[PartitionId]) -> list[Ask]:
        """Return what to ask of partitions of a mirror."""
        begins = self.starts.get(record.source, NO_STARTS).offsets
        topic = self.topics.get(record.source)
        return asks_of(record, partitions, begins, None if topic is None else topic.configs)

    def all_of(self, record: MirrorRecord) -> list[Ask]:
        """Return what to ask of a whole mirror."""
        return self.asks(record, self.starts.get(record.source, NO_STARTS).offsets)


def whole_topics(
    plan: TopicPlan, stopped: Iterable[PartitionReport]
) -> list[tuple[TopicName, str]]:
    """Return topics that need a decision about all of their partitions, and why."""
    refused = [(n, r.code) for n, r in plan.refuse.items() if r.code in CAUSE_OF_CODE]
    diverged = [
        (report.source.topic, report.code)
        for report in stopped
        if CAUSE_OF_CODE.get(report.code) in OF_WHOLE_TOPICS
    ]
    return refused + diverged


def decided_row(
    facts: Facts, effect: Effect, decided_by: str, record: MirrorRecord, at_ms: int
) -> GapRow:
    """Return the row of a decision; not done while the target must be emptied or recreated."""
    return GapRow(
        topic=facts.source.topic,
        partition=facts.source.partition,
        first=effect.first,
        last=effect.last,
        count=effect.count,
        cause=facts.cause,
        at_ms=at_ms,
        choice=effect.choice,
        decided_by=decided_by,
        mirror=facts.target.topic,
        mirror_partition=facts.target.partition,
        source_id=id_text(record.source_id),
        target_id=id_text(record.target_id),
        jump=effect.jump,
        is_done=not (effect.empties or effect.recreates),
        text=effect.records,
    )


def lost_row(item: LostRange, record: MirrorRecord, at_ms: int) -> GapRow:
    """Return the row of acknowledged records that the target lost: they are copied again (I2)."""
    return GapRow(
        topic=item.partition.topic,
        partition=item.partition.partition,
        first=Offset(item.position),
        last=Offset(item.was - 1),
        count=0,
        cause=Cause.TARGET_TRUNCATED,
        at_ms=at_ms,
        choice=GapChoice.CONTINUE,
        decided_by="the link",
        mirror=item.target.topic,
        mirror_partition=item.target.partition,
        source_id=id_text(record.source_id),
        target_id=id_text(record.target_id),
        text=f"the target lost offsets that it had acknowledged: source offsets {item.position} "
        f"to {item.was - 1} are copied again",
    )


def gone_rows(
    record: MirrorRecord, was: Starts, now: Mapping[PartitionId, Offset], at_ms: int
) -> list[GapRow]:
    """Return rows of what a deleted mirror may have had and the source no longer has."""
    return [
        GapRow(
            topic=record.source,
            partition=number,
            first=begin,
            last=Offset(now[number] - 1),
            count=None,
            cause=Cause.TARGET_DELETED,
            at_ms=at_ms,
            choice=GapChoice.RESTART,
            decided_by="whoever deleted the target topic",
            mirror=record.target,
            mirror_partition=record.mirror_of(number).partition,
            source_id=id_text(record.source_id),
            target_id=id_text(was.target_id),
            text=f"source offsets {begin} to {now[number] - 1} are no longer at the source; the "
            "mirror may have had them",
        )
        for number, begin in sorted(was.offsets.items())
        if now.get(number, begin) > begin
    ]
