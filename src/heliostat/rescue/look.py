"""Finds the tail of each partition of promoted mirrors: reads both clusters, changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.exporting.exported import ExportedRecord, exported
from heliostat.gaps.ledger import CopyNote
from heliostat.gaps.source_truncation import truncations
from heliostat.handover.promotion import MirrorEnds, PartitionPromotion
from heliostat.names import (
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
    is_another,
)
from heliostat.offsets.offset_map import MapReader, OffsetMap
from heliostat.rescue.crossing import CrossingFacts, Uncrossed, uncrossed
from heliostat.rescue.notes import TailNote
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_logs import rows_of
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream import ConsumedRecord, PartitionStream

SETTINGS = ("cleanup.policy", "message.timestamp.type")


@dataclass(frozen=True, slots=True)
class LostMirror:
    """A partition whose mirror was given away, with all that its tail is judged by.

    Parameters
    ----------
    wanted
        A note of its tail, of which nothing is dealt with yet.
    ended
        Where it ended.
    offsets
        The link's offset map of it.
    views
        How the rows of both sides are compared; None: a pipeline has changed them, they are not.
    compacts, has_own_times
        What the target topic does.
    truncated_from
        What the source's leader epochs say, see `CrossingFacts`.
    """

    wanted: TailNote
    ended: PartitionPromotion
    offsets: OffsetMap
    views: Views | None
    compacts: bool
    has_own_times: bool
    truncated_from: Offset | None = None

    @property
    def source(self) -> TopicPartition:
        """The source's partition."""
        return self.wanted.source

    @property
    def target(self) -> TopicPartition:
        """The target's."""
        return self.wanted.target

    def place(self, offset: int) -> int | None:
        """Return where the record at a source offset is at the target; None in a hole."""
        return place_of(self.offsets, offset)


def place_of(offsets: OffsetMap, offset: int) -> int | None:
    """Return where a map has the record at a source offset; None in a hole."""
    if offsets.is_filled or (offsets.is_identity and not offsets.known_from):
        return offset
    target = offsets.target_of(offset)
    if target < offsets.known_from:
        return target  # nothing of the log is so early any more
    return target if offsets.source_of(target) == offset else None


class LogHabits(NamedTuple):
    """What brokers do to a topic's records."""

    compacts: bool
    has_own_times: bool


def habits_of(admin: ClusterAdmin, topics: Collection[TopicName]) -> dict[TopicName, LogHabits]:
    """Return what brokers do to the records of topics.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses.
    """
    habits: dict[TopicName, LogHabits] = {}
    for name, own in admin.describe_configs(topics, SETTINGS).items():
        if isinstance(own, BrokerError):
            raise own
        policy, times = (own[key].value if key in own else None for key in SETTINGS)
        habits[name] = LogHabits("compact" in (policy or ""), times == "LogAppendTime")
    return habits


@dataclass(slots=True)
class TailCounts:
    """How much there is of a tail, and what it looks like."""

    records: int = 0
    bytes: int = 0
    first: Offset | None = None
    last: Offset | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    """The least and the greatest timestamp."""
    sample: list[ExportedRecord] = field(default_factory=list)

    def take(self, record: ExportedRecord, sample_max: int) -> None:
        """Count a record."""
        self.records += 1
        self.bytes += record.size
        self.first = record.offset if self.first is None else self.first
        self.last = record.offset
        moments = [record.timestamp_ms]
        self.first_ms = min(moments if self.first_ms is None else [*moments, self.first_ms])
        self.last_ms = max(moments if self.last_ms is None else [*moments, self.last_ms])
        if len(self.sample) < sample_max:
            self.sample.append(record)


@dataclass(frozen=True, slots=True)
class TailPartition:
    """The tail of one partition.

    Parameters
    ----------
    mirror, note
        Whose it is, and what of it is dealt with.
    uncrossed
        From where the source's records are not at the target.
    start, end
        Where the source's log begins, and where its committed records end.
    counts
        What of it is not dealt with yet.
    """

    mirror: LostMirror
    note: TailNote
    uncrossed: Uncrossed
    start: Offset
    end: Offset
    counts: TailCounts

    @property
    def first(self) -> Offset:
        """Source offset from which on its tail is not dealt with."""
        return max(self.note.next, self.uncrossed.first)

    @property
    def deleted(self) -> int:
        """Source offsets that never crossed and are gone from the source."""
        return max(0, self.start - self.first)

    @property
    def lost_at_source(self) -> int:
        """Source offsets that crossed, and that the source has lost or put others at."""
        return max(0, self.mirror.ended.source_end - self.uncrossed.first)


class TailLook:
    """Looks at partitions with readers of both sides; for one thread.

    Parameters
    ----------
    readers
        The source's committed records, and all of the target's.
    """

    def __init__(self, readers: BothReaders) -> None:
        self._readers = readers

    def partition(self, mirror: LostMirror, note: TailNote, sample_max: int = 0) -> TailPartition:
        """Return a partition's tail; all of it is read.

        Raises
        ------
        ConnectionLost, BrokerError, BatchError
            A cluster does not answer or refuses, or a batch is damaged.
        """
        source = self._readers.source.bounds([mirror.source])[mirror.source]
        target = self._readers.target.bounds([mirror.target])[mirror.target]
        is_seen = mirror.views is not None
        facts = CrossingFacts(
            source_start=Offset(source.start if is_seen else max(source.end, source.start)),
            source_end=Offset(source.end),
            target_start=Offset(target.start),
            mirror_end=mirror.ended.source_end,
            target_end=mirror.ended.target_end,
            compacts=mirror.compacts,
            has_own_times=mirror.has_own_times,
            truncated_from=mirror.truncated_from,
        )
        logs = _Logs(self._readers, mirror, mirror.views or Views(), target.end)
        since = uncrossed(facts, logs, mirror.place)
        tail = TailPartition(
            mirror, note, since, Offset(source.start), Offset(source.end), TailCounts()
        )
        for record in self.records(tail, tail.first):
            tail.counts.take(record, sample_max)
        return tail

    def records(self, tail: TailPartition, first: Offset) -> Iterator[ExportedRecord]:
        """Yield the records of a tail from a source offset on.

        Raises
        ------
        ConnectionLost, BrokerError, BatchError
            The source does not answer or refuses, or a batch is damaged.
        """
        place = tail.mirror.source
        start = max(first, tail.start, tail.uncrossed.first)
        if start >= tail.end:
            return
        stream = PartitionStream(self._readers.source, place, start, tail.end)
        for record in exported(place, stream, start, tail.end):
            if tail.uncrossed.holds(record.offset):
                yield record


@dataclass(frozen=True, slots=True)
class _Logs:
    """Both logs of a partition, as they are compared."""

    readers: BothReaders
    mirror: LostMirror
    views: Views
    target_end: int

    def source(self, start: int, stop: int) -> Iterable[ConsumedRecord]:
        place, view = self.mirror.source, self.views.of_source
        return rows_of(self.readers.source, place, start, stop, view)

    def target(self, start: int, stop: int | None) -> Iterable[ConsumedRecord]:
        place, view = self.mirror.target, self.views.of_target
        begin = self.readers.target.bounds([place])[place].start
        end = self.target_end if stop is None else min(stop, self.target_end)
        return rows_of(self.readers.target, place, max(start, begin), end, view)


@dataclass(frozen=True, slots=True)
class TopicsAtBothSides:
    """What is asked of both clusters about all topics at once, before any is read."""

    source: ClusterAdmin
    target: ClusterAdmin
    maps: MapReader
    views_of: Callable[[TopicName], Views | None]

    def mirrors(
        self,
        promoted: Mapping[TopicName, MirrorEnds],
        records: Mapping[TopicName, MirrorRecord],
        by: str,
    ) -> tuple[list[LostMirror], dict[TopicName, str]]:
        """Return the partitions of promoted mirrors, and why a topic has none.

        Parameters
        ----------
        promoted, records
            Where they ended, and what the link's state has of them, by source topic.
        by
            Who asks.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer, or refuses.
        """
        why_not = self._why_not(promoted, records)
        wanted = {topic: ends for topic, ends in promoted.items() if topic not in why_not}
        if not wanted:
            return [], why_not
        habits = habits_of(self.target, [ends.target for ends in wanted.values()])
        truncated = truncations(self.source, copy_notes(wanted))
        mirrors: list[LostMirror] = []
        for topic, ends in wanted.items():
            for number, ended in sorted(ends.partitions.items()):
                source = TopicPartition(topic, number)
                target = _mirror_of(records.get(topic), ends, number)
                divergence = truncated.get(source)
                mirrors.append(
                    LostMirror(
                        wanted=_nothing_done(source, target, ends, ended, by),
                        ended=ended,
                        offsets=self.maps.of(target, id_text(ends.target_id)),
                        views=self.views_of(topic),
                        compacts=habits[ends.target].compacts,
                        has_own_times=habits[ends.target].has_own_times,
                        truncated_from=None if divergence is None else divergence.at,
                    )
                )
        return mirrors, why_not

    def _why_not(
        self,
        promoted: Mapping[TopicName, MirrorEnds],
        records: Mapping[TopicName, MirrorRecord],
    ) -> dict[TopicName, str]:
        here = self.source.confirm_topics(promoted)
        there = self.target.confirm_topics({ends.target for ends in promoted.values()})
        reasons: dict[TopicName, str] = {}
        for topic, ends in promoted.items():
            for topics, name, was, side in (
                (here, topic, ends.source_id, "the source"),
                (there, ends.target, ends.target_id, "the target"),
            ):
                info = topics[name]
                if info.error is not None:
                    reasons[topic] = f"{name} is not at {side}, or can't be described there"
                elif is_another(was, info.topic_id):
                    reasons[topic] = f"{name} was deleted and created again at {side}"
            places = (_mirror_of(records.get(topic), ends, number) for number in ends.partitions)
            if any(self.maps.is_lost(place, id_text(ends.target_id)) for place in places):
                reasons[topic] = "its offset map is lost: see `heliostat offsets rebuild`"
        return reasons


def _mirror_of(
    record: MirrorRecord | None, ends: MirrorEnds, number: PartitionId
) -> TopicPartition:
    """Return the target's partition; a mirror in a slot has others than its source."""
    if record is None or record.target != ends.target:
        return TopicPartition(ends.target, number)
    return record.mirror_of(number)


def copy_notes(promoted: Mapping[TopicName, MirrorEnds]) -> dict[TopicPartition, CopyNote]:
    """Return up to where partitions were copied, of those whose leader epoch was noted."""
    return {
        TopicPartition(topic, number): CopyNote(ended.epoch.until, LeaderEpoch(ended.epoch.epoch))
        for topic, ends in promoted.items()
        for number, ended in ends.partitions.items()
        if ended.epoch is not None
    }


def _nothing_done(
    source: TopicPartition,
    target: TopicPartition,
    ends: MirrorEnds,
    ended: PartitionPromotion,
    by: str,
) -> TailNote:
    ids = id_text(ends.source_id), id_text(ends.target_id)
    return TailNote(source, target, *ids, ended.source_end, Offset(0), by=by)


def records_shown(records: Sequence[ExportedRecord]) -> list[dict[str, Any]]:
    """Return records as JSON, with what is no text in base64."""
    return [_shown(record) for record in records]


def _shown(record: ExportedRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[name, _base64(content)] for name, content in record.headers],
    }


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
