"""Up to where a source still has what a link has copied of it, by contents.

Leader epochs say where a log was cut that a link had read to its end; of what it has read since
its last note they say nothing, and an epoch may be gone. Contents say it: up to the cut both sides
have the same records at the same source offsets. Some records from before must be the same as well,
or contents prove nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeAlias

from heliostat.names import Offset

SURE = 8
"""So many equal records in a row are no accident: offset, time, key, value and headers."""
BACK_RECORDS = 1_000
"""Source offsets of the first look back; each further one takes four times."""


class PlacedRecord(NamedTuple):
    """A record at its source offset, as one of the sides has it."""

    offset: int
    content: Hashable
    epoch: int = -1
    """Leader epoch of its batch at the source."""


class SharedEnd(NamedTuple):
    """Behind the last record that both sides have."""

    offset: Offset
    epoch: int
    """Leader epoch of that record at the source; -1: none was compared."""


ReadBoth: TypeAlias = Callable[[Offset], tuple[Iterable[PlacedRecord], Iterable[PlacedRecord]]]
"""Reads the source's own records, and what the target has of them, from a source offset on."""


class _Compared(NamedTuple):
    end: SharedEnd
    same: int
    """How many are equal, from the beginning on."""
    parted: int | None
    """Source offset from which on they are others; None: one side has no more."""


def shared_end(
    read: ReadBoth, lowest: Offset, same_below: Offset | None, end: Offset, *, is_compacted: bool
) -> SharedEnd | None:
    """Return up to where both sides have the same records; None: that can't be told.

    All that the target has of the source's own records, and no other, is before that offset; all
    that the source has from there on, the target lacks.

    Parameters
    ----------
    read
        Reads both.
    lowest
        First source offset of which both sides may have all.
    same_below
        Below it both are the same, by leader epochs; None: these say nothing.
    end
        Source offset behind the target's last record.
    is_compacted
        Whether a cleaner may have taken records at the source.
    """
    if same_below is not None and lowest > same_below:
        return None
    near = end if same_below is None else min(same_below, end)
    size = BACK_RECORDS
    while True:
        begin = Offset(max(lowest, near - size))
        ours, theirs = read(begin)
        found = _compared(ours, theirs, begin, is_compacted=is_compacted)
        if same_below is not None and found.parted is not None and found.parted < same_below:
            return None  # contents are not the same where they must be
        if found.same >= SURE and (same_below is None or begin < same_below):
            return found.end
        if begin <= lowest:
            is_told = same_below is not None or lowest == 0
            return _not_before(found.end, same_below) if is_told else None
        size *= 4


def _not_before(end: SharedEnd, same_below: Offset | None) -> SharedEnd:
    return end if same_below is None or end.offset >= same_below else SharedEnd(same_below, -1)


def _compared(
    source: Iterable[PlacedRecord],
    target: Iterable[PlacedRecord],
    begin: Offset,
    *,
    is_compacted: bool,
) -> _Compared:
    end, same, theirs = SharedEnd(begin, -1), 0, iter(target)
    for ours in source:
        there = next(theirs, None)
        while is_compacted and there is not None and there.offset < ours.offset:
            there = next(theirs, None)
        if there is None:
            return _Compared(end, same, None)
        if there[:2] != ours[:2]:
            return _Compared(end, same, min(there.offset, ours.offset))
        end, same = SharedEnd(Offset(ours.offset + 1), ours.epoch), same + 1
    there = None if is_compacted else next(theirs, None)
    return _Compared(end, same, None if there is None else there.offset)
