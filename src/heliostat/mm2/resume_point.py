"""Where a mirror that MirrorMaker 2 has written goes on: found by the records' content.

What MirrorMaker 2 has committed lags behind what has landed by up to a flush interval, and a
restart copies the part between again. So the *seam*, the source offset to go on with, is one past
the highest source record that stands at the target, wherever it stands there. Three facts lead to
it:

- what was committed has landed;
- each run of MirrorMaker 2 copies a partition's records in order, from a committed position on, so
  that below the highest record that landed none is missing;
- nobody else writes there.

All three are checked as far as both logs reach; where one does not hold, or records that are alike
leave two answers, there is no seam but a reason. Pure: records come as offsets and digests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap


class Mark(NamedTuple):
    """One record: where it stands, and what it is."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """What was read of one partition, up to its end.

    Parameters
    ----------
    marks
        The records in order; offsets may have holes.
    start
        First offset that was asked for.
    end
        The log's end.
    reaches_start
        Whether the log begins at `start`: nothing older is readable.
    """

    marks: Sequence[Mark]
    start: int
    end: int
    reaches_start: bool


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to go on.

    Parameters
    ----------
    source
        The source offset to go on with.
    target
        The target's end: where that record will stand.
    map
        Offsets of what was compared; below it the identity, or an answer that is too early.
    first
        Where the compared stretch begins; where nothing was compared, the seam itself.
    compared
        Records at the target that were found at the source, without a break up to the end.
    doubled
        How many of them stand there more often than at the source.
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
    """Why there is none."""

    reason: str


def find_resume_point(
    source: Window, target: Window, committed: int | None
) -> ResumePoint | NoResumePoint:
    """Find where to go on.

    Parameters
    ----------
    source, target
        What was read of both, the source after the target's end was known to be its last.
    committed
        The last source offset that MirrorMaker 2 has committed; None before its first.
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
            f"source offset {missing} is not at the target, though {highest} is: not all of what "
            "lies between was copied, or something was deleted there"
        )
    found = _map(tail, places, target)
    found.add(Break(target.end, highest + 1))
    first = Break(tail[0].offset, places[tail[0].digest][0])
    doubled = _doubled(tail, places, highest)
    return ResumePoint(Offset(highest + 1), Offset(target.end), found, first, len(tail), doubled)


def _without_records(
    source: Window, target: Window, committed: int | None
) -> ResumePoint | NoResumePoint:
    """Nothing is readable at the target: only what was committed can speak."""
    if committed is None:
        return NoResumePoint(
            "its records are gone at the target, and MirrorMaker 2 has committed no position"
        )
    if target.end == 0:
        return NoResumePoint(
            f"MirrorMaker 2 has committed source offset {committed}, but the target's partition "
            "was never written to: it was made anew"
        )
    if any(mark.offset > committed for mark in source.marks):
        return NoResumePoint(
            f"no record is left at the target to compare with, and which of those behind source "
            f"offset {committed} were copied can't be known"
        )
    found = OffsetMap()
    found.add(Break(target.end, committed + 1))
    first = Break(target.end, committed + 1)
    return ResumePoint(Offset(committed + 1), Offset(target.end), found, first, 0, 0)


def _places(marks: Sequence[Mark]) -> dict[bytes, list[int]]:
    """Source offsets by digest."""
    places: dict[bytes, list[int]] = {}
    for mark in marks:
        places.setdefault(mark.digest, []).append(mark.offset)
    return places


def _doubled(tail: Sequence[Mark], places: dict[bytes, list[int]], highest: int) -> int:
    """How many more there are of each than the source has up to there: equal records are many."""
    there = Counter(mark.digest for mark in tail)
    had = {each: sum(offset <= highest for offset in places[each]) for each in there}
    return sum(max(0, count - had[each]) for each, count in there.items())


def _matched_tail(marks: Sequence[Mark], places: dict[bytes, list[int]]) -> Sequence[Mark]:
    """The target's records from its end back, as far as each is one of the source's."""
    at = len(marks)
    while at > 0 and marks[at - 1].digest in places:
        at -= 1
    return marks[at:]


def _foreign_tail(source: Window, target: Window, committed: int | None) -> NoResumePoint:
    last = target.marks[-1].offset
    if committed is not None and committed < source.start and source.reaches_start:
        return NoResumePoint(
            f"the source has deleted what lies between {committed}, which MirrorMaker 2 has "
            f"committed, and {source.start}: which of it was copied can't be known"
        )
    return NoResumePoint(
        f"the target's last record, offset {last}, is none of the source's from "
        f"{source.start} on: it was altered on the way, or somebody else wrote it",
    )


def _does_not_reach(
    source: Window, target: Window, tail: Sequence[Mark], committed: int | None
) -> NoResumePoint | None:
    """The compared stretch must begin at or before the committed record, or with the log."""
    is_whole = len(tail) == len(target.marks)
    if committed is None:
        if is_whole and target.reaches_start:
            return None
        return NoResumePoint(
            "MirrorMaker 2 has committed no position, and not all records at the target are the "
            "source's",
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
        f"the record before target offset {foreign + 1} is none of the source's, and stands behind "
        f"the one that MirrorMaker 2 has committed, source offset {committed}",
    )


def _anchor(source: Window, committed: int) -> Mark | None:
    """The last source record that is known to have landed, as far as the source still has it."""
    found: Mark | None = None
    for mark in source.marks:
        if mark.offset > committed:
            break
        found = mark
    return found


def _highest(
    source: Window, tail: Sequence[Mark], places: dict[bytes, list[int]], committed: int | None
) -> int | NoResumePoint:
    """The highest source offset that landed.

    Records that stand alone say it by themselves. Behind the highest of those come only such as
    have doubles at the source: there, what follows it at the target, one by one, decides; unless
    it may as well be the beginning of a later run.
    """
    alone = [places[mark.digest][0] for mark in tail if len(places[mark.digest]) == 1]
    highest = max(alone, default=-1)
    anchor = None if committed is None else _anchor(source, committed)
    if anchor is not None:
        highest = max(highest, anchor.offset)
    if highest < 0:
        return NoResumePoint("all records around the end are alike, more than one place fits")
    index = {mark.offset: at for at, mark in enumerate(source.marks)}
    at = index[highest]
    digest = source.marks[at].digest
    following = source.marks[at + 1 :]
    longest = 0
    for place, mark in enumerate(tail):
        if mark.digest == digest:
            length = _run(tail, place + 1, following)
            longest = max(longest, length)
    older = {mark.digest for mark in source.marks[: at + 1]}
    if any(mark.digest in older for mark in following[:longest]):
        return NoResumePoint(
            f"records behind source offset {highest} are alike with earlier ones, so that it can't "
            "be known which of them the target's last records are"
        )
    return highest if longest == 0 else following[longest - 1].offset


def _run(tail: Sequence[Mark], at: int, following: Sequence[Mark]) -> int:
    length = 0
    while (
        length < len(following)
        and at + length < len(tail)
        and tail[at + length].digest == following[length].digest
    ):
        length += 1
    return length


def _missing(
    source: Window, tail: Sequence[Mark], highest: int, committed: int | None
) -> int | None:
    """The first source record that should be in the compared stretch and is not."""
    landed = Counter(mark.digest for mark in tail)
    anchor = None if committed is None else _anchor(source, committed)
    first = tail[0].digest
    begun = anchor is None and committed is not None  # all that the source has lies behind it
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
    """Where each source record stands first; what stands there again is passed over."""
    found = OffsetMap()
    expected: int | None = None
    for mark in tail:
        candidates = places[mark.digest]
        if expected is None:
            offset = candidates[0]
            _begin(found, mark, offset, target)
        else:
            later = [each for each in candidates if each >= expected]
            if not later:
                continue
            offset = later[0]
        found.add(Break(mark.offset, offset))
        expected = offset + 1
    return found


def _begin(found: OffsetMap, first: Mark, offset: int, target: Window) -> None:
    """Say of what lies below the compared stretch what does no harm.

    If nothing is readable there, the same distance may go on down. Else, with equal offsets, they
    are taken to have been equal before. Else nothing is known, and a group that stands below is
    sent to the log's beginning: it reads again, and skips nothing.
    """
    if first.offset == offset:
        return
    is_all = target.reaches_start and first.offset == target.marks[0].offset
    if is_all and offset > first.offset:
        found.add(Break(0, offset - first.offset))
    elif not is_all and first.offset > 0 and offset > 0:
        found.add(Break(0, offset - 1))
