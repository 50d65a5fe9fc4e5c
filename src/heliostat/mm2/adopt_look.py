"""Read both logs of a partition that MirrorMaker 2 has copied, as far back as needed.

For most partitions a few hundred records show the resume point. More are read only where they do
not, so that thousands of sparse partitions take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clusters.plain_records import LogBounds, PlainReader
from heliostat.clusters.record_digest import digest_of
from heliostat.mm2.resume_point import Mark, NoResumePoint, ResumePoint, Window, find_resume_point
from heliostat.names import Offset, TopicPartition

LOOKS = (500, 20_000, 1_000_000)
"""Offsets to read on each side of the committed one; the next only if the last was not enough.
The largest takes some 250 MB of memory and a minute: MirrorMaker 2 rarely copies more in its flush
interval of a minute."""
MAP_BACK = 200_000
"""If offsets are not equal, at least so many records are read: the offsets of groups that are
among them are translated exactly."""
COMMIT_STEP_GUESS = 10_000
"""Offsets in one flush interval, if the offsets topic no longer has two commits to compare."""
FORMER_RUNS = 3
"""A run that ended without committing may have left records above those of the next run. It copied
about as much as lies between two commits; this multiple of that is searched for such records."""
FORMER_RUNS_MIN = 100


@dataclass(frozen=True, slots=True)
class PartitionLogs:
    """One partition at both sides.

    Parameters
    ----------
    source_bounds, target_bounds
        Readable offsets; the target's end is its log end, which does not move.
    committed
        The last source offset that MirrorMaker 2 has committed; None before its first commit.
    commit_step
        Largest number of offsets between two commits; None if that is not known.
    with_timestamps
        Whether the target keeps the records' own timestamps.
    """

    source: TopicPartition
    target: TopicPartition
    source_bounds: LogBounds
    target_bounds: LogBounds
    committed: int | None
    commit_step: int | None
    with_timestamps: bool


def look_for_resume_point(
    source: PlainReader, stable: PlainReader, target: PlainReader, logs: PartitionLogs
) -> ResumePoint | NoResumePoint:
    """Find the resume point of a partition.

    Parameters
    ----------
    source, stable
        Readers of the source: all records, and committed ones only. By default MirrorMaker 2 also
        copies records of aborted transactions; if it does not, the second shows what it has read.
    target
        Reader of the target.
    logs
        The partition at both sides.

    Raises
    ------
    ConnectionLost, BrokerError
        A log can't be read.
    """
    point: ResumePoint | NoResumePoint = NoResumePoint("nothing was compared")
    for back in LOOKS:
        there = _window(target, logs, _target_from(logs, back), is_source=False)
        for reader in (source, stable):
            here = _source_window(reader, logs, back)
            point = find_resume_point(here, there, logs.committed)
            if isinstance(point, ResumePoint):
                break
        is_all = here.reaches_start and here.end >= logs.source_bounds.end and there.reaches_start
        if is_all or _is_enough(point, here, back, logs):
            return point
    return point


def _is_enough(
    point: ResumePoint | NoResumePoint, here: Window, back: int, logs: PartitionLogs
) -> bool:
    if isinstance(point, NoResumePoint):
        return False
    if not point.is_exact and back < MAP_BACK:
        return False
    has_all = here.end >= logs.source_bounds.end
    if has_all and not any(mark.offset >= point.source for mark in here.marks):
        return True  # the target has all of the source's records: none can be higher
    if here.marks and point.source > here.marks[-1].offset:
        return False  # all of the source window is there: later records may have landed, too
    above = point.source - 1 - (0 if logs.committed is None else logs.committed)
    step = COMMIT_STEP_GUESS if logs.commit_step is None else logs.commit_step
    return point.compared >= FORMER_RUNS_MIN + above + FORMER_RUNS * max(step, above)


def _source_window(reader: PlainReader, logs: PartitionLogs, back: int) -> Window:
    start, end = logs.source_bounds
    if logs.committed is not None:
        start = min(max(start, Offset(logs.committed + 1 - back)), end)
    return _window(reader, logs, start, is_source=True, end=min(end, start + 2 * back))


def _target_from(logs: PartitionLogs, back: int) -> int:
    """Return where to begin: twice as far back, for records above the position and before it."""
    return max(logs.target_bounds.start, logs.target_bounds.end - 2 * back)


def _window(
    reader: PlainReader,
    logs: PartitionLogs,
    start: int,
    *,
    is_source: bool,
    end: int | None = None,
) -> Window:
    partition = logs.source if is_source else logs.target
    bounds = logs.source_bounds if is_source else logs.target_bounds
    end = bounds.end if end is None else end
    marks = [
        Mark(
            record.offset,
            digest_of(
                record.key,
                record.value,
                record.headers,
                record.timestamp_ms if logs.with_timestamps else None,
            ),
        )
        for record in reader.read(partition, start, end)
    ]
    return Window(marks, start, end, reaches_start=start <= bounds.start)
