"""Read both logs of a partition that any tool has copied, as far back as its end is certain.

No position tells where that tool was. What the source has of the target's last records begins at
the first source record that is not older than the oldest of them: brokers find it by timestamp.
That nothing above the resume point came to the target earlier is certain if the source has nothing
there, or if all that the target has of that age was read. Otherwise more is read, in the end both
logs whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.plain_records import LogBounds, PlainReader
from heliostat.errors import BrokerError
from heliostat.mm2.adopt_look import PartitionLogs
from heliostat.mm2.copy_end import NotOfTheSource, Stretch, find_end_of_copy
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import Offset, TopicPartition

LOOKS = (2_000, 200_000, 5_000_000)
"""Offsets to read at the target's end; the next only if the last was not enough, then all."""
BEFORE = 4
"""Records before those that were read at which offsets must be equal to be taken so throughout. The
run of a copy has no gaps, so only holes of the source could make up for its duplicates."""
MAP_BACK = 200_000
"""If offsets are not equal, at least so many records are read: the offsets of groups that are
among them are translated exactly."""


@dataclass(frozen=True, slots=True)
class ContentLook:
    """Finds resume points by contents.

    Parameters
    ----------
    source, stable
        Readers of the source: all records, and committed ones only. Which of them the tool read is
        not known: the one that explains the copy.
    target
        Reader of the target.
    at_source, at_target
        Both clusters, asked for offsets by time.
    """

    source: PlainReader
    stable: PlainReader
    target: PlainReader
    at_source: ClusterAdmin
    at_target: ClusterAdmin

    def resume_point(self, logs: PartitionLogs) -> ResumePoint | NoResumePoint:
        """Find the resume point of a partition.

        Raises
        ------
        ConnectionLost, BrokerError
            A log can't be read.
        """
        bounds = logs.target_bounds
        backs = [
            back for back in LOOKS if logs.with_timestamps and bounds.end - back > bounds.start
        ]
        for start in (*(bounds.end - back for back in backs), bounds.start):
            there = self._stretch(self.target, logs.target, bounds, start, logs)
            point = self._compared(logs, there)
            if isinstance(point, NotOfTheSource) or start == bounds.start:
                break
            if isinstance(point, ResumePoint) and self._is_enough(point, there, logs):
                break
        return point

    def _compared(self, logs: PartitionLogs, there: Stretch) -> ResumePoint | NoResumePoint:
        start = self._source_from(logs, there)
        point: ResumePoint | NoResumePoint = NoResumePoint("nothing was compared")
        for reader in (self.source, self.stable):
            here = self._stretch(reader, logs.source, logs.source_bounds, start, logs)
            point = find_end_of_copy(here, there, is_equal_before=True)
            if isinstance(point, ResumePoint) and not self._is_equal_before(logs, there):
                return find_end_of_copy(here, there)
            if isinstance(point, ResumePoint | NotOfTheSource):
                return point
        return point

    def _is_equal_before(self, logs: PartitionLogs, there: Stretch) -> bool:
        """Whether records at equal offsets are equal, at some places before those compared."""
        low = max(logs.target_bounds.start, logs.source_bounds.start)
        step = max(1, (there.start - low) // BEFORE)
        return all(
            self._digest(self.source, logs.source, offset, logs)
            == self._digest(self.target, logs.target, offset, logs)
            for offset in range(low, there.start, step)
        )

    def _digest(
        self, reader: PlainReader, partition: TopicPartition, offset: int, logs: PartitionLogs
    ) -> list[int]:
        bounds = LogBounds(Offset(offset), Offset(offset + 1))
        return list(self._stretch(reader, partition, bounds, offset, logs).digests)

    def _source_from(self, logs: PartitionLogs, there: Stretch) -> int:
        """Return the source offset before which no record is equal to one of the target's."""
        bounds, time_ms = logs.source_bounds, there.first_time_ms
        if not logs.with_timestamps or time_ms is None or time_ms < 0:
            return bounds.start
        first = _at_time(self.at_source, logs.source, time_ms)
        return bounds.end if first is None else min(max(first, bounds.start), bounds.end)

    def _is_enough(self, point: ResumePoint, there: Stretch, logs: PartitionLogs) -> bool:
        """Whether no record of the source above the resume point came to the target earlier."""
        if not point.is_exact and len(there) < MAP_BACK:
            return False
        for reader in (self.source, self.stable):
            above = next(reader.read(logs.source, point.source, logs.source_bounds.end), None)
            if above is None:
                continue
            if above.timestamp_ms < 0:
                return False
            first = _at_time(self.at_target, logs.target, above.timestamp_ms)
            if first is not None and first < there.start:
                return False
        return True

    def _stretch(
        self,
        reader: PlainReader,
        partition: TopicPartition,
        bounds: LogBounds,
        start: int,
        logs: PartitionLogs,
    ) -> Stretch:
        stretch = Stretch(start, bounds.end, reaches_start=start <= bounds.start)
        records = reader.read(partition, start, bounds.end)
        stretch.extend(records, with_timestamps=logs.with_timestamps)
        return stretch


def _at_time(admin: ClusterAdmin, partition: TopicPartition, time_ms: int) -> int | None:
    """Return the offset of the first record that is not older; None if there is none."""
    listed = admin.list_offsets({partition: time_ms}, confirmed=True)[partition]
    if isinstance(listed, BrokerError):
        raise listed
    return None if listed.offset < 0 else listed.offset
