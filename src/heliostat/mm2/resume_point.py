"""Find where to resume a mirror that MirrorMaker 2 has written, by comparing contents.

MirrorMaker 2's committed position lags behind what it has written by up to a flush interval, and
a restart copies the part in between again. So the *resume point*, the source offset at which the
link continues, is one past the highest source record found at the target, wherever it is there.
This rests on three facts:

- what was committed has been written;
- each run of MirrorMaker 2 copies a partition's records in order, from a committed position on, so
  none is missing below the highest record at the target;
- nobody else writes there.

All three are checked as far as both logs reach. If one does not hold, or equal records allow two
answers, the result is a reason instead of a resume point. Pure: takes offsets and digests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap


class Mark(NamedTuple):
    """Offset of one record, and the digest of its content."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """Records read from one partition.

    Parameters
    ----------
    marks
        The records in order; offsets may have holes.
    start
        First offset that was asked for.
    end
        Offset at which reading ended, exclusive.
    reaches_start
        Whether nothing older than `start` is readable.
    """

    marks: Sequence[Mark]
    start: int
    end: int
    reaches_start: bool


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to resume.

    Parameters
    ----------
    source
        The source offset to copy next.
    target
        The target's log end: the offset which that record will get.
    map
        Offset map of the compared records; below them the identity, or a position that is too
        early.
    first
        Where the compared records begin; if none were compared, the resume point itself.
    compared
        Number of consecutive records at the target's end that were also found at the source.
    doubled
        How many of them are surplus copies of a source record.
    """

    source: Offset
    target: Offset
    map: OffsetMap
    first: Break
    compared: int
    doubled: int

    @property
    def is_exact(self) -> bool:
        """Whether offsets are equal on both sides."""
        return self.map.is_identity


@dataclass(frozen=True, slots=True)
class NoResumePoint:
    """Why there is no resume point."""

    reason: str


def find_resume_point(
    source: Window, target: Window, committed: int | None
) -> ResumePoint | NoResumePoint:
    """Find the resume point of one partition.

    Parameters
    ----------
    source, target
        Records of both sides; the source was read after the target's end had stopped moving.
    committed
        The last source offset that MirrorMaker 2 has committed; None before its first commit.
    """
    if not target.marks:
        return _without_records(source, target, committed)
    places = _places(source.marks)
    tail = _matched_tail(target.marks, places)
    if not tail:
        return _foreign_tail(source, target, committed)
    wrong = _does_not_reach(source, target, tail, committed)
    if wrong is not None:
        return wrong
    highest = _highest(source, tail, places, committed)
    if isinstance(highest, NoResumePoint):
        return highest
    missing = _missing(source, tail, highest, committed)
    if missing is not None:
        return NoResumePoint(
            f"source offset {missing} is not at the target, though {highest} is: not everything in "
            "between was copied, or records were deleted there"
        )
    offset_map = _map(tail, places, target)
    offset_map.add(Break(target.end, highest + 1))
    first = Break(tail[0].offset, places[tail[0].digest][0])
    doubled = _doubled(tail, places, highest)
    return ResumePoint(
        Offset(highest + 1), Offset(target.end), offset_map, first, len(tail), doubled
    )


def _without_records(
    source: Window, target: Window, committed: int | None
) -> ResumePoint | NoResumePoint:
    """Decide by the committed position alone, as no record is readable at the target."""
    if committed is None:
        return NoResumePoint(
            "its records are gone at the target, and MirrorMaker 2 has committed no position"
        )
    if target.end == 0:
        return NoResumePoint(
            f"MirrorMaker 2 has committed source offset {committed}, but the target's partition "
            "was never written to: it was recreated"
        )
    if any(mark.offset > committed for mark in source.marks):
        return NoResumePoint(
            f"no record is left at the target to compare with, so it can't be known which records "
            f"after source offset {committed} were copied"
        )
    offset_map = OffsetMap()
    offset_map.add(Break(target.end, committed + 1))
    first = Break(target.end, committed + 1)
    return ResumePoint(Offset(committed + 1), Offset(target.end), offset_map, first, 0, 0)


def _places(marks: Sequence[Mark]) -> dict[bytes, list[int]]:
    """Return the source offsets of each digest."""
    places: dict[bytes, list[int]] = {}
    for mark in marks:
        places.setdefault(mark.digest, []).append(mark.offset)
    return places


def _doubled(tail: Sequence[Mark], places: dict[bytes, list[int]], highest: int) -> int:
    """Count surplus copies: the source itself may have equal records below `highest`."""
    there = Counter(mark.digest for mark in tail)
    had = {digest: sum(offset <= highest for offset in places[digest]) for digest in there}
    return sum(max(0, count - had[digest]) for digest, count in there.items())


def _matched_tail(marks: Sequence[Mark], places: dict[bytes, list[int]]) -> Sequence[Mark]:
    """Return the target's last records, from the end back to the first one not at the source."""
    start = len(marks)
    while start > 0 and marks[start - 1].digest in places:
        start -= 1
    return marks[start:]


def _foreign_tail(source: Window, target: Window, committed: int | None) -> NoResumePoint:
    last = target.marks[-1].offset
    if committed is not None and committed < source.start and source.reaches_start:
        return NoResumePoint(
            f"the source has deleted the records between {committed}, which MirrorMaker 2 has "
            f"committed, and {source.start}: it can't be known which of them were copied"
        )
    return NoResumePoint(
        f"the target's last record, offset {last}, is not at the source from offset "
        f"{source.start} on: it was altered on the way, or somebody else wrote it",
    )


def _does_not_reach(
    source: Window, target: Window, tail: Sequence[Mark], committed: int | None
) -> NoResumePoint | None:
    """Check that the compared records begin at or before the committed one, or with the log."""
    is_whole = len(tail) == len(target.marks)
    if committed is None:
        if is_whole and target.reaches_start:
            return None
        return NoResumePoint(
            "MirrorMaker 2 has committed no position, and not all records at the target are also "
            "at the source",
        )
    anchor = _anchor(source, committed)
    if anchor is None or any(mark.digest == anchor.digest for mark in tail):
        return None
    if is_whole and target.reaches_start:
        return NoResumePoint(
            f"source offset {anchor.offset} is not at the target, though MirrorMaker 2 has "
            f"committed {committed}"
        )
    foreign = tail[0].offset - 1
    return NoResumePoint(
        f"the record before target offset {foreign + 1} is not at the source, and comes after the "
        f"one that MirrorMaker 2 has committed, source offset {committed}",
    )


def _anchor(source: Window, committed: int) -> Mark | None:
    """Return the last record up to the committed offset, if the source still has one."""
    anchor: Mark | None = None
    for mark in source.marks:
        if mark.offset > committed:
            break
        anchor = mark
    return anchor


def _highest(
    source: Window, tail: Sequence[Mark], places: dict[bytes, list[int]], committed: int | None
) -> int | NoResumePoint:
    """Return the highest source offset at the target.

    Records that occur once at the source show it by themselves. After the highest of those come
    only records that occur at the source more than once. Of these, as many have landed as follow
    it at the target in the same order, unless they may as well begin a later run.
    """
    alone = [places[mark.digest][0] for mark in tail if len(places[mark.digest]) == 1]
    highest = max(alone, default=-1)
    anchor = None if committed is None else _anchor(source, committed)
    if anchor is not None:
        highest = max(highest, anchor.offset)
    if highest < 0:
        return NoResumePoint("the records around the end are equal: more than one place fits")
    index = {mark.offset: number for number, mark in enumerate(source.marks)}
    position = index[highest]
    digest = source.marks[position].digest
    following = source.marks[position + 1 :]
    longest = 0
    for place, mark in enumerate(tail):
        if mark.digest == digest:
            length = _run(tail, place + 1, following)
            longest = max(longest, length)
    older = {mark.digest for mark in source.marks[: position + 1]}
    if any(mark.digest in older for mark in following[:longest]):
        return NoResumePoint(
            f"records after source offset {highest} are equal to earlier ones, so it can't be "
            "known which of them the target's last records are"
        )
    return highest if longest == 0 else following[longest - 1].offset


def _run(tail: Sequence[Mark], start: int, following: Sequence[Mark]) -> int:
    length = 0
    while (
        length < len(following)
        and start + length < len(tail)
        and tail[start + length].digest == following[length].digest
    ):
        length += 1
    return length


def _missing(
    source: Window, tail: Sequence[Mark], highest: int, committed: int | None
) -> int | None:
    """Return the first source offset that should be among the compared records and is not."""
    landed = Counter(mark.digest for mark in tail)
    anchor = None if committed is None else _anchor(source, committed)
    first = tail[0].digest
    begun = anchor is None and committed is not None  # all that the source has comes after it
    for mark in source.marks:
        if mark.offset > highest:
            return None
        begun = begun or (anchor is mark if anchor is not None else mark.digest == first)
        if begun:
            if not landed[mark.digest]:
                return mark.offset
            landed[mark.digest] -= 1
    return None


def _map(tail: Sequence[Mark], places: dict[bytes, list[int]], target: Window) -> OffsetMap:
    """Map each source record to its first place at the target; skip duplicates."""
    offset_map = OffsetMap()
    expected: int | None = None
    for mark in tail:
        candidates = places[mark.digest]
        if expected is None:
            offset = candidates[0]
            is_all = target.reaches_start and mark.offset == target.marks[0].offset
            begin_map(offset_map, mark.offset, offset, is_all=is_all)
        else:
            later = [candidate for candidate in candidates if candidate >= expected]
            if not later:
                continue
            offset = later[0]
        offset_map.add(Break(mark.offset, offset))
        expected = offset + 1
    return offset_map


def begin_map(offset_map: OffsetMap, target: int, source: int, *, is_all: bool) -> None:
    """Map offsets below the compared records so that no group skips a record.

    If nothing is readable there, the same difference may hold further down. Else, if offsets are
    equal, they are taken to have been equal before. Else nothing is known, and a group below is
    sent to the beginning of the log: it reads records again, and skips none.

    Parameters
    ----------
    target, source
        Both offsets of the first compared record.
    is_all
        Whether it is the target's first readable record.
    """
    if target == source:
        return
    if is_all and source > target:
        offset_map.add(Break(0, source - target))
    elif not is_all and target > 0 and source > 0:
        offset_map.add(Break(0, source - 1))
