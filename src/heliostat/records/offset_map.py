"""Which source offset stands at which target offset, for one partition: exact, run-length, small.

A mirror of a source without holes needs no map: both offsets are the same number. Where the source
has a hole (compaction, a transaction's marker or aborted records, a record that was set aside) the
target has none, and from there on a source offset is the target's plus a constant. Such a place is
a *break*; the stretch up to the next break is an *extent*.

A *filled* mirror has markers in the holes, so that offsets are equal. Only the sequence of our
producer goes on without them (I1). Its map has the same shape: what stands for the target's
offset is the number of our record, counted from where the mirror began.

I2  The position is `source_of(the target's log end)`; nothing else decides it.
I3  A break is durable before the first batch behind it is sent. It may therefore name a place that
    the target has not reached; whoever goes on from an earlier end puts others there.

Breaks cross the state topic `heliostat.<link>.offsets` as rows (`Row`): a row replaces everything
from its first break on. Rows of an older round than the newest seen are not listened to (I10): one
may arrive late, after its successor's.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from heliostat.errors import OffsetMapLost, ProtocolError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.uvarints import decode_uvarints, encode_uvarints

ROW_FORMAT, ROW_FORMAT_FILLED = 1, 2
ROW_BREAKS_MAX = 512
"""A row is written anew as it grows; beyond this the next one is begun."""


class Break(NamedTuple):
    """From target offset `target` on, up to the next break, source = `source` + distance."""

    target: int
    source: int


class Stamp(NamedTuple):
    """Which round wrote a row: later ones are greater."""

    generation: int
    round_number: int
    attempt: int = 0
    """Within the round: what was written before a connection broke may arrive after its repeat."""


class Extent(NamedTuple):
    """`length` offsets that stand at both sides one behind the other; open ended if None."""

    source: int
    target: int
    length: int | None


@dataclass(slots=True)
class OffsetMap:
    """The map of one partition; without breaks both offsets are equal."""

    _targets: array[int] = field(default_factory=lambda: array("q"))
    _sources: array[int] = field(default_factory=lambda: array("q"))
    known_from: int = 0
    """Target offset from which on it is known; a lane gets the last breaks only."""
    is_filled: bool = False
    """Offsets are equal at both sides; for "target offset" read "number of our record" here."""
    lost: str = ""
    """Why it may lack rows, so that nothing may go by it."""

    @classmethod
    def of(cls, breaks: Iterable[Break]) -> OffsetMap:
        """A map with these breaks, in order."""
        found = cls()
        for each in breaks:
            found.add(each)
        return found

    def __len__(self) -> int:
        return len(self._targets)

    def copy(self) -> OffsetMap:
        """Another map with the same breaks."""
        return replace(self, _targets=self._targets[:], _sources=self._sources[:])

    def knows(self, target_end: int) -> bool:
        """Whether it reaches back to a log end of the target."""
        place = self.source_of(self.known_from) if self.is_filled else self.known_from
        return not self.known_from or target_end >= place

    @property
    def is_identity(self) -> bool:
        """Whether offsets are equal on both sides."""
        return not self._targets

    def breaks(self, behind: int = -1) -> Iterator[Break]:
        """Breaks behind a target offset, by default all, in order."""
        at = bisect_right(self._targets, behind)
        return map(Break, self._targets[at:], self._sources[at:])

    def last_breaks(self, most: int) -> Sequence[Break]:
        """The last breaks, `most` of them or all, in order."""
        at = max(0, len(self) - most)
        return list(map(Break, self._targets[at:], self._sources[at:]))

    def add(self, new: Break) -> None:
        """Put a break behind the others; what stood from its target offset on is gone.

        One that says nothing new, as it follows from those before, is not kept. One that goes back
        at the source, as where that was truncated or made anew, takes along those whose source
        offsets are other records now.
        """
        self.truncate(new.target)
        if new.source != self.source_of(new.target):
            while self._sources and self._sources[-1] >= new.source:
                self._targets.pop()
                self._sources.pop()
            self._targets.append(new.target)
            self._sources.append(new.source)

    def truncate(self, target: int) -> None:
        """Forget the breaks from this target offset on."""
        at = bisect_left(self._targets, target)
        del self._targets[at:], self._sources[at:]

    def source_of(self, target: int) -> Offset:
        """Source offset of the record at a target offset, or of the one that comes there next."""
        at = bisect_right(self._targets, target) - 1
        if at < 0:
            return Offset(target)
        return Offset(self._sources[at] + target - self._targets[at])

    def target_of(self, source: int) -> Offset:
        """Target offset of the first record that is not before a source offset.

        For the source offset of a record it is that record's place; for one in a hole the next
        record's. So a reader that goes on from the answer reads exactly what it has not read.
        """
        at = bisect_right(self._sources, source) - 1
        found = source if at < 0 else self._targets[at] + source - self._sources[at]
        following = at + 1
        if following < len(self._targets):
            found = min(found, self._targets[following])  # in the hole before the next break
        return Offset(found)

    def holds(self, source: int) -> bool:
        """Whether the record at a source offset is, or will be, at the target: not in a hole."""
        return self.source_of(self.target_of(source)) == source

    def extents(self, start: int = 0) -> Iterator[Extent]:
        """Runs of equal distance from target offset `start` on; the last is open ended."""
        first = Break(start, self.source_of(start))
        rest = list(self.breaks(behind=start))
        for one, following in pairwise([first, *rest]):
            yield Extent(one.source, one.target, following.target - one.target)
        last = rest[-1] if rest else first
        yield Extent(last.source, last.target, None)

    def apply(self, row: Row) -> None:
        """Take a row: it replaces everything from its first break on."""
        self.is_filled = row.is_filled
        if row.breaks:
            self.truncate(row.breaks[0].target)
        targets, sources = self._targets, self._sources
        for target, source in row.breaks:
            # Most lie behind all others, and say something new: 0.2 us instead of 4.
            if targets and target > targets[-1] and source - sources[-1] > target - targets[-1]:
                targets.append(target)
                sources.append(source)
            else:
                self.add(Break(target, source))


class MapTail(NamedTuple):
    """The end of a map, as a lane is given it."""

    stamp: Stamp
    """Of the newest row in it."""
    known_from: int
    """Target offset from which on it is known."""
    breaks: bytes
    """As in `Row.encode`."""


class RowKey(NamedTuple):
    """Key of a row: compaction keeps the last of each."""

    mirror: TopicPartition
    """The target's partition."""
    target_topic_id: str
    """Of that very topic; one made anew begins without a map. Empty before Kafka 2.8."""
    first: int
    """Target offset of its first break."""
    stamp: Stamp

    def encode(self) -> bytes:
        """As bytes."""
        topic, partition = self.mirror.topic, self.mirror.partition
        return json.dumps(
            [topic, partition, self.target_topic_id, self.first, *self.stamp],
            separators=(",", ":"),
        ).encode()

    @classmethod
    def decode(cls, key: bytes) -> RowKey:
        """Back from bytes.

        Raises
        ------
        ProtocolError
            They are not ours.
        """
        try:
            topic, partition, topic_id, first, generation, number, attempt = json.loads(key)
            mirror = TopicPartition(TopicName(topic), PartitionId(int(partition)))
            stamp = Stamp(int(generation), int(number), int(attempt))
            return cls(mirror, str(topic_id), int(first), stamp)
        except (ValueError, TypeError) as error:
            raise ProtocolError("a row of the offset map has a key that is not ours") from error


class Row(NamedTuple):
    """One record of the state topic: the map from the first of its breaks on."""

    key: RowKey
    breaks: tuple[Break, ...]
    is_filled: bool = False
    """See `OffsetMap.is_filled`."""

    def encode(self) -> bytes:
        """Its value as bytes, see `encode_breaks`."""
        return encode_breaks(self.breaks, is_filled=self.is_filled)

    @classmethod
    def decode(cls, key: RowKey, value: bytes) -> Row:
        """Back from bytes.

        Raises
        ------
        ProtocolError
            They are not ours, or of a later version.
        """
        return cls(key, decode_breaks(value), is_filled_format(value))


def encode_breaks(breaks: Iterable[Break], *, is_filled: bool = False) -> bytes:
    """The format, then distances between breaks as varints.

    Both distances of a break are positive, and mostly the source's is the larger: so what is
    written is the target's, and by how much more the source moves on.
    """
    head = bytes([ROW_FORMAT_FILLED if is_filled else ROW_FORMAT])
    places = np.fromiter(chain.from_iterable(breaks), np.int64).reshape(-1, 2)
    steps = np.diff(places, axis=0, prepend=0)
    more: np.ndarray = steps[:, 1] - steps[:, 0]
    numbers = np.stack([steps[:, 0], more << 1 ^ more >> 63], axis=1)
    return head + encode_uvarints(numbers.ravel().view(np.uint64))


def decode_breaks(value: bytes) -> tuple[Break, ...]:
    """Back from bytes.

    Raises
    ------
    ProtocolError
        They are not ours, or of a later version.
    """
    if not value or value[0] not in (ROW_FORMAT, ROW_FORMAT_FILLED):
        raise ProtocolError("a row of the offset map has a format that is not known")
    numbers = decode_uvarints(np.frombuffer(value, np.uint8, offset=1))
    if numbers is None or len(numbers) % 2:
        raise ProtocolError("a row of the offset map is cut off")
    moved, more = numbers[::2].view(np.int64), numbers[1::2]
    more = (more >> np.uint64(1)).view(np.int64) ^ -(more & np.uint64(1)).view(np.int64)
    targets = np.cumsum(moved)
    return tuple(map(Break, targets.tolist(), (targets + np.cumsum(more)).tolist()))


def is_filled_format(value: bytes) -> bool:
    """Whether breaks are of a filled mirror."""
    return value[0] == ROW_FORMAT_FILLED


class Odd(NamedTuple):
    """A record of the maps' topic that is no row of ours."""

    mirror: tuple[TopicPartition, str] | None
    """Whose row it may have replaced, by target partition and topic id."""
    why: str


@dataclass(slots=True)
class MapReader:
    """Maps of many partitions, put together from rows in the order of their topic."""

    maps: dict[tuple[TopicPartition, str], OffsetMap] = field(default_factory=dict)
    """By mirror and target topic id."""
    lost: frozenset[tuple[TopicPartition, str]] = frozenset()
    """Mirrors of whose map rows are gone: what is here of it is not the truth."""
    _stamps: dict[tuple[TopicPartition, str], Stamp] = field(default_factory=dict)

    def take_record(self, key: bytes | None, value: bytes | None) -> Odd | None:
        """Apply a record of the maps' topic; what is wrong with it, if anything is.

        What is no row of ours takes none away: compaction goes by keys. But under a key of ours it
        may have taken the place of the row that was there.
        """
        if key is None:
            return Odd(None, "a record without a key")
        try:
            row_key = RowKey.decode(key)
        except ProtocolError as error:
            return Odd(None, error.text)
        name = (row_key.mirror, row_key.target_topic_id)
        if value is None:
            return Odd(name, "a row of its map was deleted")
        try:
            self.take(Row.decode(row_key, value))
        except ProtocolError as error:
            return Odd(name, f"a row of its map was written over: {error.text}")
        return None

    def take(self, row: Row) -> bool:
        """Apply a row; False if it is from an older round than the newest seen (I10)."""
        name = (row.key.mirror, row.key.target_topic_id)
        if row.key.stamp < self._stamps.get(name, row.key.stamp):
            return False
        self._stamps[name] = row.key.stamp
        self.maps.setdefault(name, OffsetMap()).apply(row)
        return True

    def of(self, mirror: TopicPartition, target_topic_id: str) -> OffsetMap:
        """Which offset stands where; without rows, and of a filled mirror, the identity.

        Raises
        ------
        OffsetMapLost
            Rows of it are gone; see `is_lost`.
        """
        if self.is_lost(mirror, target_topic_id):
            raise OffsetMapLost(f"the offset map of {mirror} is lost")
        found = self.maps.get((mirror, target_topic_id))
        return OffsetMap() if found is None or found.is_filled else found

    def is_lost(self, mirror: TopicPartition, target_topic_id: str) -> bool:
        """Whether rows of a mirror's map are gone."""
        return (mirror, target_topic_id) in self.lost

    def stamp_of(self, mirror: TopicPartition, target_topic_id: str) -> Stamp:
        """Of the newest row of a mirror; rows of an older stamp are not listened to."""
        return self._stamps.get((mirror, target_topic_id), Stamp(0, 0))

    def is_filled(self, mirror: TopicPartition, target_topic_id: str) -> bool | None:
        """Whether a mirror's holes were filled; None where it has had none yet."""
        found = self.maps.get((mirror, target_topic_id))
        return None if found is None or found.is_identity else found.is_filled

    def tail(self, mirror: TopicPartition, target_topic_id: str, most: int) -> MapTail | None:
        """The last `most` breaks of a map; None where there are none."""
        name = (mirror, target_topic_id)
        found = self.maps.get(name)
        if found is None or name in self.lost:
            return None
        breaks = found.last_breaks(most)
        whole = len(breaks) == len(found)
        known_from = 0 if whole else breaks[0].target
        row = encode_breaks(breaks, is_filled=found.is_filled)
        return MapTail(self._stamps[name], known_from, row)

    def copy(self) -> MapReader:
        """Another reader that knows the same."""
        maps = {name: found.copy() for name, found in self.maps.items()}
        return MapReader(maps, self.lost, dict(self._stamps))

    def begin(self, mirror: TopicPartition, target_topic_id: str, tail: MapTail) -> None:
        """Begin a map with what `tail` gave elsewhere."""
        name = (mirror, target_topic_id)
        found = OffsetMap.of(decode_breaks(tail.breaks))
        found.known_from = tail.known_from
        found.is_filled = is_filled_format(tail.breaks)
        self.maps[name], self._stamps[name] = found, tail.stamp
