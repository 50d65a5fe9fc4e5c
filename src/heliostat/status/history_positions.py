"""How far partitions were copied, by minutes of a link's history; pure.

    key `positions`   a minute: how far each partition has moved since the minute before; once an
                      hour, and at first, where it stands

A minute has the partitions in the order of the hour's record, which begins with those that move
most, and then those that became known since. Its numbers are columns of bytes of equal weight,
which are mostly alike, so that one partition's is read without the others'.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from heliostat.names import Offset, TopicPartition
from heliostat.status.history_records import packed, unpacked

POSITIONS_KEY = b"positions"
HOUR_MS = 3_600_000
PLACES_MAX = 20_000
"""Most partitions: an hour's record has some 20 bytes of each of the 1 MiB that it may have."""
WHOLE_BYTES, MOVED_BYTES = 8, 4
LEARNT_AFTER = 10
"""So many minutes after the first record of a driver another one orders what moves."""
_MOVED_MAX = 2**31
REPORTED_WITHIN_S = 10.0
"""A position is as it was so long before its minute's end, or later: lanes report it within 6 s."""


@dataclass(frozen=True, slots=True)
class PositionsMinute:
    """A minute as it was read, of which one partition's number is looked up.

    Parameters
    ----------
    at_ms
        Its end (ms since the epoch).
    number
        Minutes since the hour's record, which has 0.
    first
        Place of the first of `names` in the order.
    names
        Partitions that became known, a line each.
    columns
        The numbers, in columns of bytes of equal weight.
    """

    at_ms: int
    number: int
    first: int
    names: bytes
    columns: bytes

    @property
    def width(self) -> int:
        """Bytes of a number."""
        return MOVED_BYTES if self.number else WHOLE_BYTES

    def place_of(self, name: bytes) -> int | None:
        """Return a partition's place in the order, if it became known in this minute."""
        framed = b"\n" + self.names + b"\n"
        index = framed.find(b"\n" + name + b"\n")
        return None if index < 0 else self.first + framed.count(b"\n", 0, index)

    def number_at(self, place: int) -> int | None:
        """Return the position at a place, or by how much it has moved; None: there is none."""
        count = len(self.columns) // self.width
        if place >= count:
            return None
        return int.from_bytes(self.columns[place::count], "little", signed=True)


class PositionMinutes:
    """Makes the records of the minutes of one link. Not thread-safe."""

    def __init__(self) -> None:
        self._order: dict[TopicPartition, int] = {}
        """Partitions in their order, with the position as it was written last."""
        self._begun: Mapping[TopicPartition, int] = {}
        """Positions as they were in the last record of all."""
        self._hour = self._number = -1
        self._is_learnt = False
        """Whether it was known for that record which partitions move."""

    def take(self, positions: Mapping[TopicPartition, int], at_ms: int) -> bytes | None:
        """Return a record's value for the minute that ends now; None: nothing is known."""
        offsets = {place: offset for place, offset in positions.items() if offset >= 0}
        moved = [offsets.get(place, was) - was for place, was in self._order.items()]
        room = max(0, PLACES_MAX - len(self._order))
        new = dict(
            islice(((p, offset) for p, offset in offsets.items() if p not in self._order), room)
        )
        numbers = [*moved, *new.values()]
        is_far = any(not -_MOVED_MAX <= number < _MOVED_MAX for number in numbers)
        is_due = not self._is_learnt and self._number == LEARNT_AFTER
        if at_ms // HOUR_MS != self._hour or is_far or is_due:
            return self._begin(offsets, at_ms)
        first = len(self._order)
        self._order = {p: offsets.get(p, was) for p, was in self._order.items()} | new
        self._number += 1
        return _encoded(at_ms, self._number, first, new, numbers)

    def _begin(self, offsets: Mapping[TopicPartition, int], at_ms: int) -> bytes | None:
        begun, self._begun = self._begun, offsets
        self._is_learnt = bool(begun)
        ordered = sorted(
            offsets, key=lambda place: (begun.get(place, offsets[place]) - offsets[place], place)
        )
        self._order = {place: offsets[place] for place in ordered[:PLACES_MAX]}
        self._hour, self._number = (at_ms // HOUR_MS, 0) if offsets else (-1, -1)
        if not offsets:
            return None
        return _encoded(at_ms, 0, 0, self._order, list(self._order.values()))


def _encoded(
    at_ms: int, number: int, first: int, new: Iterable[TopicPartition], numbers: list[int]
) -> bytes:
    names = "\n".join(map(str, new)).encode()
    head = {"at_ms": at_ms, "number": number, "first": first, "names": len(names)}
    flat = struct.pack(f"<{len(numbers)}{'i' if number else 'q'}", *numbers)
    width = MOVED_BYTES if number else WHOLE_BYTES
    columns = b"".join(flat[place::width] for place in range(width))
    return packed(json.dumps(head, separators=(",", ":")).encode() + b"\n" + names + columns)


def decode_positions(value: bytes | None) -> PositionsMinute:
    """Return a minute; raises one of `NOT_A_ROW` if it is none."""
    line, _, rest = unpacked(value).partition(b"\n")
    head = json.loads(line)
    size = int(head["names"])
    minute = PositionsMinute(
        int(head["at_ms"]), int(head["number"]), int(head["first"]), rest[:size], rest[size:]
    )
    is_whole = not size < 0 and not len(minute.columns) % minute.width
    if not is_whole or minute.number < 0 or minute.first < 0:
        raise ValueError("its length is not what it says")
    return minute


class Crossing:
    """Finds between which minutes a partition's position passed an offset.

    Parameters
    ----------
    place, offset
        The partition, and a source offset.
    """

    def __init__(self, place: TopicPartition, offset: Offset) -> None:
        self._name = str(place).encode()
        self._offset = offset
        self._minute: PositionsMinute | None = None
        self._index: int | None = None
        self._position = 0
        self._before_s = 0.0
        """When it was last seen that the offset had not been copied; 0: never."""
        self._found: tuple[float, float] | None = None

    def take(self, minute: PositionsMinute) -> None:
        """Take the next minute; what does not follow is passed over until the next hour."""
        was, self._minute = self._minute, minute
        if minute.number == 0:
            self._index = minute.place_of(self._name)
            self._position = 0
        elif was is None or minute.number != was.number + 1:
            if was is not None and minute.number <= was.number and minute.at_ms <= was.at_ms:
                self._minute = was  # written twice, as its answer was lost
            else:
                self._minute = self._index = None
            return
        elif self._index is None:
            self._index = minute.place_of(self._name)
            self._position = 0
        moved = None if self._index is None else minute.number_at(self._index)
        if moved is None:
            self._index = None
            return
        self._position += moved
        self._look(minute.at_ms / 1000)

    def _look(self, at_s: float) -> None:
        if self._position <= self._offset:
            self._before_s, self._found = at_s - REPORTED_WITHIN_S, None
        elif self._found is None:
            self._found = self._before_s, at_s

    def between(self) -> tuple[float, float] | None:
        """Return the two times (s since the epoch), the first 0 if not known; None: not copied."""
        return self._found
