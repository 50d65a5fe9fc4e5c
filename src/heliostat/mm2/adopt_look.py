"""Look at both logs of a partition that MirrorMaker 2 has copied, as far back as it takes.

Most partitions tell their seam by a few hundred records; more are read only where those leave it
open, so that thousands of sparse partitions take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.clusters.plain_records import LogBounds, PlainReader
from heliostat.clusters.record_digest import digest_of
from heliostat.mm2.resume_point import Mark, NoResumePoint, ResumePoint, Window, find_resume_point
from heliostat.names import Offset, TopicPartition

LOOKS = (500, 20_000, 1_000_000)
"""Offsets to read around the committed one, at each side; more only where fewer don't do. The last
is some 250 MB of memory and a minute: what MirrorMaker 2 copies in its flush interval of a minute
is rarely more."""
MAP_BACK = 200_000
"""With unequal offsets so many records are looked at in any case: groups that stand among them are
translated exactly."""
COMMIT_STEP_GUESS = 10_000
"""Offsets that a flush interval holds, where the offsets topic no longer tells two commits."""
FORMER_RUNS = 3
"""A run that ended without committing may have left records above where the next one is now. It
copied about as much as lies between two commits; that stretch so many times is looked through for
such records."""
FORMER_RUNS_MIN = 100


@dataclass(frozen=True, slots=True)
class PartitionLogs:
    """One partition at both sides.

    Parameters
    ----------
    source_bounds, target_bounds
        What is readable; the target's end is its log end, which stands still.
    committed
        The last source offset that MirrorMaker 2 has committed; None before its first.
    commit_step
        How far it went between two commits, at most; None where that is not known.
    with_timestamps
        Whether the target keeps the records' own.
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
    """Find where the partition goes on.

    Parameters
    ----------
    source, stable
        Two readers of the source. By default MirrorMaker 2 copies also what transactions aborted;
        where it does not, the second shows what it has seen.

    Raises
    ------
    ConnectionLost, BrokerError
        A log can't be read.
    """
    found: ResumePoint | NoResumePoint = NoResumePoint("nothing was compared")
    for back in LOOKS:
        there = _window(target, logs, _target_from(logs, back), is_source=False)
        for reader in (source, stable):
            here = _source_window(reader, logs, back)
            found = find_resume_point(here, there, logs.committed)
            if isinstance(found, ResumePoint):
                break
        is_all = here.reaches_start and here.end >= logs.source_bounds.end and there.reaches_start
        if is_all or _is_enough(found, here, back, logs):
            return found
    return found


def _is_enough(
    found: ResumePoint | NoResumePoint, here: Window, back: int, logs: PartitionLogs
) -> bool:
    if isinstance(found, NoResumePoint):
        return False
    if not found.is_exact and back < MAP_BACK:
        return False
    has_all = here.end >= logs.source_bounds.end
    if has_all and not any(mark.offset >= found.source for mark in here.marks):
        return True  # all that the source has is there: nothing can lie above
    if here.marks and found.source > here.marks[-1].offset:
        return False  # the window ends where the target does: more may have landed
    above = found.source - 1 - (0 if logs.committed is None else logs.committed)
    step = COMMIT_STEP_GUESS if logs.commit_step is None else logs.commit_step
    return found.compared >= FORMER_RUNS_MIN + above + FORMER_RUNS * max(step, above)


def _source_window(reader: PlainReader, logs: PartitionLogs, back: int) -> Window:
    start, end = logs.source_bounds
    if logs.committed is not None:
        start = min(max(start, Offset(logs.committed + 1 - back)), end)
    return _window(reader, logs, start, is_source=True, end=min(end, start + 2 * back))


def _target_from(logs: PartitionLogs, back: int) -> int:
    """Twice as far: what landed above the committed position, and as much before it."""
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
