"""The fast half: find the first offset at which two sides are not equal.

Batches that were copied whole are equal byte by byte and need no decoding; all others are decoded
and their rows compared as lists. `align` explains a difference, and reads only what follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heliostat.verify.stream import Batch, ConsumedRecord

ROWS_MAX = 8_192  # decoded and waiting for the other side; a joined batch has thousands of records
WAITING_BYTES_MAX = 16 * 1024 * 1024  # as stored; the EFD's batches go up to 10 MiB


@dataclass(frozen=True, slots=True)
class Compared:
    """Result for one range: number of equal rows, and the first offset that differs."""

    records: int
    differs_at: int | None
    batches_equal: int
    """Pairs of batches that were equal byte by byte."""


class _Side:
    """Batches of one side, and rows of those already decoded."""

    def __init__(self, batches: Iterable[Batch], start: int, end: int) -> None:
        self._batches: Iterator[Batch] = iter(batches)
        self._start, self._end = start, end
        self.rows: list[ConsumedRecord] = []
        self.waiting_bytes = 0
        self.border = start
        self.finished = False

    def next(self) -> Batch | None:
        batch = next(self._batches, None)
        if batch is None:
            self.finished = True
        return batch

    def decode(self, batch: Batch | None) -> None:
        if batch is not None:
            self.rows += batch.rows(self._start, self._end)
            self.border = batch.next_offset
            self.waiting_bytes += len(batch.data)

    def is_inside(self, batch: Batch) -> bool:
        return self._start <= batch.base_offset and batch.next_offset <= self._end

    def may_wait(self) -> bool:
        return len(self.rows) < ROWS_MAX and self.waiting_bytes < WAITING_BYTES_MAX

    def drop(self, count: int) -> None:
        del self.rows[:count]
        if not self.rows:
            self.waiting_bytes = 0


def compare(
    source: Iterable[Batch],
    target: Iterable[Batch],
    start: int,
    end: int,
    *,
    decode_all: bool = False,
) -> Compared:
    """Compare both sides over offsets `[start, end)` and stop at the first difference.

    Parameters
    ----------
    source, target
        Batches in offset order that cover the range; CRCs already checked.
    start, end
        Offsets, the same on both sides; a mapped source comes with target offsets.
    decode_all
        Whether to decode also pairs of batches that are equal byte by byte.

    Raises
    ------
    BatchError
        Records cannot be decoded.
    """
    one, two = _Side(source, start, end), _Side(target, start, end)
    records = batches_equal = 0
    while True:
        if not one.rows and not two.rows:
            left, right = one.next(), two.next()
            if left is None and right is None:
                return Compared(records, None, batches_equal)
            if (
                not decode_all
                and left is not None
                and right is not None
                and one.is_inside(left)
                and left.same_as(right)
            ):
                records += left.records
                batches_equal += 1
                one.border = two.border = left.next_offset
                continue
            one.decode(left)
            two.decode(right)
        _meet(one, two)
        count = min(len(one.rows), len(two.rows))
        if one.rows[:count] != two.rows[:count] or (count == 0 and (one.rows or two.rows)):
            equal, offset = _first_difference(one.rows, two.rows)
            return Compared(records + equal, offset, batches_equal)
        records += count
        one.drop(count)
        two.drop(count)


def _meet(one: _Side, two: _Side) -> None:
    """Decode on the side with the lower offset until both are at the same batch boundary.

    After comparing up to there, batches can be compared byte by byte again; limits on rows and
    bytes end this earlier. Leaves a side without rows only if it has none left.
    """
    while not (one.rows and two.rows and one.border == two.border):
        lacking = [side for side in (one, two) if not side.rows and not side.finished]
        if lacking:
            side = min(lacking, key=lambda side: side.border)
        elif one.rows and two.rows:
            side = one if one.border < two.border else two
            if side.finished or not side.may_wait():
                return
        else:
            return
        side.decode(side.next())


def _first_difference(one: list[ConsumedRecord], two: list[ConsumedRecord]) -> tuple[int, int]:
    """Return the number of equal rows, and the lower offset of the first two that differ."""
    for index, (left, right) in enumerate(zip(one, two, strict=False)):
        if left != right:
            return index, min(left[0], right[0])
    count = min(len(one), len(two))
    longer = one if len(one) > count else two
    return count, longer[count][0]
