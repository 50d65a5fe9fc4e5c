"""How far each partition was copied, and from which of the source's leader epochs.

An unclean election can take records from a source that the target already has, and put others at
their offsets; ends alone don't show that once the log has grown again. Leader epochs do (KIP-101,
KIP-320): each batch carries the epoch of the leader that took it, and a broker answers where an
epoch ends in its log (OffsetsForLeaderEpoch). If that is below what was copied from it, the source
was truncated.

A note (`CopyNote`) stays true of the log it was read from, however old it is: so it may lag behind
the copy. It survives restarts in the link's ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from heliostat.clusters.admin import ClusterAdmin, EpochEnd
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition, id_text
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, PartitionState

WRITE_EVERY_S = 60.0
"""Between two writes of progress; a new epoch is written at once."""


class Divergence(NamedTuple):
    """The source lost copied records; `at` is the first such offset.

    None: not known exactly, as our epoch is unknown at the source.
    """

    at: Offset | None


class LostRange(NamedTuple):
    """Offsets `[position, was)` were acknowledged by the target and are not there any more."""

    partition: TopicPartition
    target: TopicPartition
    position: int
    was: int


def truncations(
    source: ClusterAdmin,
    known: Mapping[TopicPartition, CopyNote],
    compacted: Collection[TopicName] = (),
) -> dict[TopicPartition, Divergence | None]:
    """Ask the source's leaders what they lost; None: they still hold all that was copied.

    Partitions whose leader does not answer, or knows no epochs, are left out.

    Parameters
    ----------
    source
        The cluster.
    known
        What was copied.
    compacted
        Topics whose logs may have lost all batches of an epoch by compaction: a leader that
        does not know it proves nothing. Lanes, which meet the same answer, compare contents.

    Raises
    ------
    ConnectionLost
        The source does not answer at all.
    """
    if not known:
        return {}
    answers = dict(source.epoch_ends({partition: row.epoch for partition, row in known.items()}))
    suspects = {
        partition: known[partition].epoch
        for partition, answer in answers.items()
        if isinstance(answer, EpochEnd)
        and is_truncated(known[partition], answer, is_compacted=partition.topic in compacted)
    }
    if suspects:
        answers |= source.epoch_ends(suspects, confirmed=True)
    found: dict[TopicPartition, Divergence | None] = {}
    for partition, answer in answers.items():
        if not isinstance(answer, EpochEnd) or answer.end < 0:
            continue
        found[partition] = None
        is_compacted = partition.topic in compacted
        if is_truncated(known[partition], answer, is_compacted=is_compacted):
            is_exact = answer.epoch == known[partition].epoch
            found[partition] = Divergence(answer.end if is_exact else None)
    return found


def is_truncated(was: CopyNote, answer: EpochEnd, *, is_compacted: bool = False) -> bool:
    """Return whether the source's log no longer holds what was copied of it.

    An end of -1 means that the leader knows no epoch so old or so new: then nothing is known.
    """
    if answer.end < 0 or answer.epoch < 0:
        return False
    return answer.end < was.offset or (answer.epoch < was.epoch and not is_compacted)


class EpochBook:
    """How far source partitions were copied, by topic; no I/O.

    Parameters
    ----------
    stored
        How far topics were copied, as read from the ledger.
    """

    def __init__(self, stored: Mapping[TopicName, CopiedTopic]) -> None:
        self._topics = {
            name: CopiedTopic(topic.source_id, dict(topic.partitions))
            for name, topic in stored.items()
        }
        self._lock = threading.Lock()
        self._next: dict[TopicPartition, CopyNote] = {}
        """Notes of another epoch than the known one; the source is asked before they replace it."""
        self._noted: dict[TopicPartition, tuple[str, CopyNote]] = {}
        """Progress at the end of rounds, with the source topic's id; reports may lag behind it."""
        self._seen_lost: dict[TopicPartition, tuple[int, int]] = {}
        """Losses that positions in reports have shown: source offsets `[first, end)`."""
        self._noted_lost: list[tuple[str, LostRange]] = []
        """Losses that lanes have reported, with the source topic's id."""
        self._target_ends: dict[TopicPartition, tuple[str, int]] = {}
        """Log ends of mirrors by the reports so far, with the source topic's id."""
        self._begun: dict[TopicPartition, str] = {}
        """Partitions that this driver's lanes reported as COPYING, with the source topic's id."""
        self._moved: set[TopicName] = set()
        self._has_new_epoch: set[TopicName] = set()
        self._stopped: set[TopicPartition] = set()

    def topics(self) -> Mapping[TopicName, CopiedTopic]:
        """Return all that is known."""
        return self._topics

    def take(
        self, reports: Iterable[PartitionReport], source_ids: Mapping[TopicName, TopicId | None]
    ) -> list[LostRange]:
        """Take the lanes' reports; return acknowledged records that the target has lost meanwhile.

        A stopped partition reports what it has copied, but no position. Reports of unknown topics
        are ignored.
        """
        lost: list[LostRange] = []
        for report in reports:
            name, partition = report.source.topic, report.source.partition
            if report.position < 0 or name not in source_ids:
                continue
            source_id = id_text(source_ids[name])
            topic = self._topics.get(name)
            if topic is None or topic.source_id != source_id:
                topic = self._topics[name] = CopiedTopic(source_id, {})
            if report.state is PartitionState.COPYING:
                with self._lock:
                    self._begun[report.source] = source_id
            was = topic.partitions.get(partition)
            is_stopped = self._is_stopped(report)
            is_shorter = self._is_shorter(report, source_id, was)
            fresh = CopyNote(report.copied_to, report.copied_epoch, _end_of(report))
            if was is not None and report.position < was.offset and not is_stopped:
                if not is_shorter and not was.is_rewritten(fresh):
                    continue  # it reads holes again: markers, aborted transactions
                if is_shorter:
                    lost.append(self._lose(report, was))
                    was = None
            if report.copied_epoch < 0 or report.copied_to > report.position:
                continue
            if was is not None and not was.is_older(fresh):
                continue
            if was is not None and was.epoch != fresh.epoch and not was.is_rewritten(fresh):
                self._next[report.source] = fresh
                continue
            self._put(report.source, fresh)
            if was is None or is_stopped or was.epoch != fresh.epoch:
                self._next.pop(report.source, None)
                self._has_new_epoch.add(name)
        return lost + self._take_noted_lost(source_ids)

    def _is_stopped(self, report: PartitionReport) -> bool:
        """Return whether a partition has stopped; as it does, all that is noted is to be written.

        Who decides goes by what is written.
        """
        is_stopped, source = report.state.is_stopped, report.source
        if is_stopped and source not in self._stopped and source.topic in self._moved:
            self._has_new_epoch.add(source.topic)
        (self._stopped.add if is_stopped else self._stopped.discard)(source)
        return is_stopped

    def _lose(self, report: PartitionReport, was: CopyNote) -> LostRange:
        """Note, by a report, that the target has lost acknowledged records."""
        with self._lock:
            seen = self._seen_lost.get(report.source, (report.position, was.offset))
            first, end = min(seen[0], report.position), max(seen[1], was.offset)
            self._seen_lost[report.source] = first, end
        del self._topics[report.source.topic].partitions[report.source.partition]
        self._has_new_epoch.add(report.source.topic)
        return LostRange(report.source, report.target, report.position, was.offset)

    def _take_noted_lost(self, source_ids: Mapping[TopicName, TopicId | None]) -> list[LostRange]:
        """Take losses by rounds that have ended, of known topics."""
        with self._lock:
            noted, self._noted_lost = self._noted_lost, []
        return [
            item
            for source_id, item in noted
            if item.partition.topic in source_ids
            and id_text(source_ids[item.partition.topic]) == source_id
        ]

    def _is_shorter(self, report: PartitionReport, source_id: str, was: CopyNote | None) -> bool:
        """Return whether the mirror ends earlier than reported before; True if not known.

        Another driver has reported to the note only.
        """
        known_id, before = self._target_ends.get(report.source, ("", -1))
        if known_id != source_id:
            before = -1 if was is None else was.end
        is_shorter = before < 0 or report.target_end < before
        if report.target_end >= 0:
            self._target_ends[report.source] = source_id, report.target_end
        return is_shorter

    def confirm(self, partitions: Iterable[TopicPartition]) -> None:
        """Take newer notes of these partitions: the source still holds what was copied of them."""
        for partition in partitions:
            fresh = self._next.pop(partition, None)
            if fresh is not None:
                self._put(partition, fresh)
                self._has_new_epoch.add(partition.topic)

    def note_lost(self, loss: LostRange, source_id: TopicId | None) -> None:
        """Take a loss that a lane reports, less what positions have shown already.

        Positions may lag behind what the lane knows: they show less of it, at either end.
        """
        position, was = loss.position, loss.was
        with self._lock:
            seen = self._seen_lost.pop(loss.partition, (was, was))
            for first, end in ((position, min(was, seen[0])), (max(position, seen[1]), was)):
                if first < end:
                    item = loss._replace(position=first, was=end)
                    self._noted_lost.append((id_text(source_id), item))

    def note(self, spec: PartitionSpec, row: CopyNote) -> None:
        """Note where a round has ended; from any thread."""
        with self._lock:
            self._seen_lost.pop(spec.source, None)
        if row.epoch >= 0:
            with self._lock:
                self._noted[spec.source] = (id_text(spec.source_topic_id), row)

    def settle_noted(self, *, is_over: bool) -> None:
        """Take rounds' notes that equal the reports; with `is_over` also those that are further.

        While lanes run, a report may be older than a round's end and seem to contradict it.
        """
        with self._lock:
            noted = dict(self._noted)
        for partition, (source_id, row) in noted.items():
            if is_over:
                self._topics.setdefault(partition.topic, CopiedTopic(source_id, {}))
            topic = self._topics.get(partition.topic)
            if topic is None or topic.source_id != source_id:
                continue
            was = topic.partitions.get(partition.partition)
            is_further = was is None or was.is_older(row)
            if (is_further and is_over) or (was is not None and was == row._replace(end=was.end)):
                self._put(partition, row)
                with self._lock:
                    if self._noted.get(partition) == (source_id, row):
                        del self._noted[partition]

    def row_of(self, spec: PartitionSpec) -> CopyNote | None:
        """Return the newest note of this partition, of the same topic id; from any thread."""
        with self._lock:
            source_id, noted = self._noted.get(spec.source, ("", None))
            topic = self._topics.get(spec.source.topic)
            if topic is None or topic.source_id != id_text(spec.source_topic_id):
                return noted if source_id == id_text(spec.source_topic_id) else None
            row = topic.partitions.get(spec.source.partition)
            if noted is None or source_id != topic.source_id:
                return row
            return noted if row is None or row.is_older(noted) else row

    def has_begun(self, spec: PartitionSpec) -> bool:
        """Return whether a lane of this driver has reported it as COPYING; from any thread."""
        with self._lock:
            return self._begun.get(spec.source) == id_text(spec.source_topic_id)

    def _put(self, partition: TopicPartition, row: CopyNote) -> None:
        with self._lock:
            self._topics[partition.topic].partitions[partition.partition] = row
        self._moved.add(partition.topic)

    def forget(self, partition: TopicPartition) -> None:
        """Drop its notes: a gap was recorded, or its mirror was deleted."""
        self._next.pop(partition, None)
        with self._lock:
            self._noted.pop(partition, None)
            self._begun.pop(partition, None)
        topic = self._topics.get(partition.topic)
        if topic is not None and topic.partitions.pop(partition.partition, None) is not None:
            self._has_new_epoch.add(partition.topic)

    def begin_with(self, partition: TopicPartition, row: CopyNote) -> None:
        """Note how far a partition of a known topic was copied, in place of what was forgotten."""
        self._put(partition, row)
        self._has_new_epoch.add(partition.topic)

    def due(self, *, all_moved: bool) -> dict[TopicName, CopiedTopic]:
        """Return topics to write now, with a new epoch or `all_moved`; they count as written."""
        names = self._has_new_epoch | (self._moved if all_moved else set())
        self._has_new_epoch, self._moved = set(), self._moved - names
        return {
            name: CopiedTopic(self._topics[name].source_id, dict(self._topics[name].partitions))
            for name in sorted(names)
        }

    def to_ask(
        self, leader_epochs: Mapping[TopicPartition, int] | None, names: Iterable[TopicName]
    ) -> dict[TopicPartition, CopyNote]:
        """Return partitions of these topics whose leader epoch differs from the last copied one.

        If `leader_epochs` is None, all of them: what happened meanwhile is not known.
        """
        found: dict[TopicPartition, CopyNote] = {}
        for name in names:
            topic = self._topics.get(name)
            for number, row in (topic.partitions if topic else {}).items():
                partition = TopicPartition(name, PartitionId(number))
                has_new_leader = (
                    leader_epochs is None or leader_epochs.get(partition, -1) != row.epoch
                )
                if has_new_leader or partition in self._next:
                    found[partition] = row
        return found


def _end_of(report: PartitionReport) -> int:
    """Return the mirror's log end when it was copied this far; -1: not known.

    If a round begins at a lower end, the target has lost the rest (I2), and the round says so when
    it ends: no report shows what was copied again before its first report.
    """
    is_level = report.copied_to == report.position and report.state is PartitionState.COPYING
    return report.target_end if is_level else -1
