"""The source of a mapped mirror in target offsets, so that both sides can be compared.

A batch within one stretch of the map keeps its bytes and is moved as a whole; of any other batch
each record is moved. A record for which the map has no place ends it: that is a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from heliostat.verify.places import Places
from heliostat.verify.stream import Batch, ConsumedRecord


@dataclass(frozen=True, slots=True)
class MovedBatch(Batch):
    """A source batch with target offsets; `moved` has its records if their shifts differ."""

    shift: int = 0
    moved: tuple[ConsumedRecord, ...] | None = None

    @override
    def rows(self, start: int, end: int) -> list[ConsumedRecord]:
        """Decode the rows with a target offset in `[start, end)`."""
        if self.moved is not None:
            return [row for row in self.moved if start <= row[0] < end]
        shift = self.shift
        rows = Batch.rows(self, start - shift, end - shift)
        return [(row[0] + shift, *row[1:]) for row in rows]

    @override
    def same_as(self, other: Batch) -> bool:
        """Return whether both must decode to the same rows; False if shifts differ."""
        return self.moved is None and Batch.same_as(self, other)


class KeptTarget:
    """The batches of a target without records that a truncated source has lost.

    Parameters
    ----------
    stream
        Stream of the target.
    places
        The offset map, which shows which records these are.
    """

    def __init__(self, stream: Iterable[Batch], places: Places) -> None:
        self._stream = stream
        self._ranges = places.lost_source_ranges()

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._stream:
            base, following = batch.base_offset, batch.next_offset
            if any(start < following and base < end for start, end in self._ranges):
                rows = without(batch.rows(base, following), self._ranges)
                yield MovedBatch(
                    base, following, batch.records, batch.meaning, batch.data, moved=tuple(rows)
                )
            else:
                yield batch


def without(
    rows: Iterable[ConsumedRecord], ranges: Sequence[tuple[int, int]]
) -> Iterator[ConsumedRecord]:
    """Return the rows outside of some ranges of offsets."""
    return (row for row in rows if not any(start <= row[0] < end for start, end in ranges))


class MovedSource:
    """The batches of a source stream with target offsets.

    Parameters
    ----------
    stream
        Stream of the source over offsets `[start, end)`.
    start, end
        Source offsets; records outside are left out.
    places
        The offset map.
    """

    def __init__(self, stream: Iterable[Batch], start: int, end: int, places: Places) -> None:
        self._stream = stream
        self._start, self._end = start, end
        self._places = places
        self.without_place: int | None = None
        """First source offset for which the map has no place; iteration ends there."""

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._stream:
            moved = self._moved(batch)
            yield moved
            if self.without_place is not None:
                return

    def _moved(self, batch: Batch) -> Batch:
        base, following = batch.base_offset, batch.next_offset
        is_inside = self._start <= base and following <= self._end
        if is_inside and type(batch) is Batch and self._places.is_run(base, following):
            shift = self._places.target_at(base) - base
            return MovedBatch(
                base + shift, following + shift, batch.records, batch.meaning, batch.data, shift
            )
        rows: list[ConsumedRecord] = []
        for row in batch.rows(self._start, self._end):
            place = self._places.place_of(row[0])
            if place is None:
                self.without_place = row[0]
                break
            rows.append((place, *row[1:]))
        return MovedBatch(
            self._places.target_at(max(base, self._start)),
            self._places.target_at(min(following, self._end)),
            batch.records,
            batch.meaning,
            batch.data,
            moved=tuple(rows),
        )
