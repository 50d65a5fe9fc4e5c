"""Where in its target's log a link's own records are: looked up where somebody asks, not kept.

Each own batch says by its sequence how many own records are before it, and nothing else moves
them. So a look at the log around an offset tells their number there, and a search by halves finds
a number's place. Only behind the last one the link's note is needed (`OwnNote`).

A cleaner leaves holes: what was in one may have been the link's. Where that matters both bounds of
a number are told, so that what a group has read is never overstated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from heliostat.merge.own_end import BatchPlace, OwnNote, numbered
from heliostat.names import Offset

START = Offset(0)
BACK_RECORDS = 1_000
"""Offsets of the first look back for an own batch; each further one takes four times."""
OWN_MAX = 50_000
"""Own batches that are kept of one partition: then all is forgotten, and looked up anew."""
_OFFSET = attrgetter("offset")
_NEXT = attrgetter("next_offset")


class UnknownPlaceError(Exception):
    """What is left of a log does not tell how many own records are before an offset."""


class Stretch(NamedTuple):
    """Some batches of a log, one behind the other."""

    batches: Sequence[BatchPlace]
    """From the one on that has the offset asked for."""
    next: Offset
    """Where the next stretch begins."""


ReadStretch = Callable[[Offset], Stretch]


class OwnBatches:
    """The link's own batches of a log, as far as it was read.

    Parameters
    ----------
    own
        All producer ids of the link.
    """

    def __init__(self, own: Collection[int]) -> None:
        self.own = own
        self._read: list[tuple[Offset, Offset]] = []
        """Ranges that were read, in order, none touching another."""
        self._batches: list[BatchPlace] = []
        self._holes: list[tuple[Offset, Offset]] = []
        """Ranges from which a cleaner has removed all, by their starts."""

    def take(self, offset: Offset, stretch: Stretch) -> None:
        """Take what was read from an offset on."""
        if len(self._batches) + len(self._holes) > OWN_MAX:
            self._read, self._batches, self._holes = [], [], []
        begin = min([offset, *(Offset(each.offset) for each in stretch.batches[:1])])
        kept = {each.offset for each in self._batches_in(begin, stretch.next)}
        new = [b for b in stretch.batches if b.producer_id in self.own and b.offset not in kept]
        at = bisect_left(self._batches, begin, key=_OFFSET)
        self._batches[at:at] = new
        if kept:
            self._batches.sort(key=_OFFSET)
        first, stop = (bisect_left(self._holes, (each, START)) for each in (begin, stretch.next))
        self._holes[first:stop] = _holes(begin, stretch)
        self._join(begin, stretch.next)

    def _batches_in(self, begin: int, end: int) -> Iterable[BatchPlace]:
        first = bisect_left(self._batches, begin, key=_OFFSET)
        return self._batches[first : bisect_left(self._batches, end, key=_OFFSET)]

    def _join(self, begin: Offset, end: Offset) -> None:
        joined: list[tuple[Offset, Offset]] = []
        for one in sorted([*self._read, (begin, end)]):
            if joined and one[0] <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], one[1])
            else:
                joined.append(one)
        self._read = joined

    def read_to(self, offset: Offset) -> Offset:
        """Return up to where all batches from an offset on are known; itself: none is."""
        at = bisect_right(self._read, offset, key=lambda each: each[0]) - 1
        return max(offset, self._read[at][1]) if at >= 0 else offset

    def is_holed(self, start: Offset, end: Offset) -> bool:
        """Whether something was removed from `[start, end)`, all of which was read."""
        at = bisect_left(self._holes, (end, START)) - 1
        return at >= 0 and self._holes[at][1] > start

    def first(self, offset: Offset) -> BatchPlace | None:
        """Return the first known one that ends behind an offset."""
        at = bisect_right(self._batches, offset, key=_NEXT)
        return self._batches[at] if at < len(self._batches) else None

    def last(self, end: Offset) -> BatchPlace | None:
        """Return the last known one that begins before an offset."""
        at = bisect_left(self._batches, end, key=_OFFSET) - 1
        return self._batches[at] if at >= 0 else None


class LandedLog:
    """The link's own records in a log, as of its end.

    Parameters
    ----------
    kept
        What is known of them by earlier looks.
    read
        Reads batches from an offset on; raises `UnknownPlaceError` if they can't be read.
    note
        The link's last note, which no election has outdated; None: there is none.
    start, end
        The log's range, asked for before anything is read.
    """

    def __init__(
        self,
        kept: OwnBatches,
        read: ReadStretch,
        note: OwnNote | None,
        start: Offset,
        end: Offset,
    ) -> None:
        self._kept = kept
        self._read = read
        self._note = note
        self._near = 0 if note is None else note.number
        self.start = start
        self.end = end
        self._count: int | None = None

    @property
    def count(self) -> int:
        """How many have landed.

        Raises
        ------
        UnknownPlaceError
            Neither the note nor what is left of the log tells.
        """
        if self._count is None:
            self._count = self._counted()
        return self._count

    def _counted(self) -> int:
        note = self._note
        if note is None:
            raise UnknownPlaceError("the link has not noted how many records it has appended")
        at = max(self.start, note.complete_to)
        is_gone = at > note.complete_to and not note.is_closed
        while at < self.end:
            self._first(at)
            at = max(Offset(at + 1), self._kept.read_to(at))
        last = self._kept.last(self.end)
        if last is not None and last.next_offset > note.complete_to:
            return self._number(last) + last.next_offset - last.offset
        if is_gone:
            raise UnknownPlaceError("a part of the log since the link's last note is gone")
        return note.number

    def before(self, offset: Offset) -> int:
        """Return how many own records landed before an offset; raises as `count`."""
        found = self._first(offset)
        if found is None:
            return self.count
        return self._number(found) + max(0, offset - found.offset)

    def surely_before(self, offset: Offset) -> int:
        """Return how many own records landed before an offset for certain; raises as `count`.

        As `before`, unless a cleaner has removed something from there to the next own batch.
        """
        if self.is_certain(offset):
            return self.before(offset)
        last, note = self._last_before(max(offset, self.start)), self._note
        number = 0 if last is None else self._number(last) + last.next_offset - last.offset
        return max(number, note.number) if note and offset >= note.complete_to else number

    def is_certain(self, offset: Offset) -> bool:
        """Whether all from an offset to the next own batch is there; without one, to the end."""
        found, at = self._first(offset), max(offset, self.start)
        behind = self.end if found is None else Offset(found.offset)
        return not self._kept.is_holed(at, behind)

    def _last_before(self, offset: Offset) -> BatchPlace | None:
        """Return the last own batch that begins before an offset; None: none is left."""
        begin, size = offset, BACK_RECORDS
        while begin > self.start:
            begin, size = Offset(max(self.start, offset - size)), 4 * size
            self._read_all(begin, offset)
            last = self._kept.last(offset)
            if last is not None and last.next_offset > begin:
                return last
        return None

    def _read_all(self, begin: Offset, end: Offset) -> None:
        at = begin
        while at < end:
            if self._kept.read_to(at) == at:
                self._read_at(at)
            at = max(Offset(at + 1), self._kept.read_to(at))

    def place_of(self, number: int) -> Offset:
        """Return the offset of an own record; of one that is gone, the next one's.

        Of one that has not landed, the log's end.
        """
        begin, end, place = self.start, self.end, self.end
        while begin < end:
            middle = Offset((begin + end) // 2)
            found = self._first(middle)
            if found is None:
                end = middle
                continue
            first = self._number(found)
            if first + found.next_offset - found.offset <= number:
                begin = Offset(found.next_offset)
                continue
            place = Offset(found.offset + max(0, number - first))
            if first <= number:
                break
            end = middle
        return place

    def behind_run(self, offset: Offset) -> Offset:
        """Return the offset behind the run of own records in which an offset lies, or itself."""
        shift = self._shift(offset)
        if shift is None:
            return offset
        step, inside = 1, offset
        while inside + step < self.end and self._shift(Offset(inside + step)) == shift:
            inside = Offset(inside + step)
            step *= 2
        behind = min(self.end, Offset(inside + step))
        while behind - inside > 1:
            middle = Offset((inside + behind) // 2)
            if self._shift(middle) == shift:
                inside = middle
            else:
                behind = middle
        return behind

    def _shift(self, offset: Offset) -> int | None:
        """Return how far an own record's number is from its offset; None: it is not own."""
        found = self._first(offset)
        if found is None or found.offset > offset:
            return None
        return self._number(found) - found.offset

    def _number(self, batch: BatchPlace) -> int:
        return numbered(batch.sequence, self._near)

    def _first(self, offset: Offset) -> BatchPlace | None:
        """Return the first own batch that ends behind an offset; None: there is none."""
        at = max(offset, self.start)
        while True:
            known_to = self._kept.read_to(at)
            found = self._kept.first(offset)
            if found is not None and found.offset < min(known_to, self.end):
                return found
            if known_to >= self.end:
                return None
            at = known_to
            self._read_at(at)

    def _read_at(self, offset: Offset) -> None:
        stretch = self._read(offset)
        self._kept.take(offset, stretch)
        if stretch.next <= offset:
            raise UnknownPlaceError(f"the log can't be read from {offset} on")


def _holes(begin: Offset, stretch: Stretch) -> list[tuple[Offset, Offset]]:
    """Return the ranges of a stretch that are in no batch."""
    ends = [begin, *(Offset(each.next_offset) for each in stretch.batches)]
    begins = [*(Offset(each.offset) for each in stretch.batches), stretch.next]
    return [each for each in zip(ends, begins, strict=True) if each[0] < each[1]]
