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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from heliostat.errors import OffsetMapLost, ProtocolError
from heliostat.names import Offset, TopicPartition
from heliostat.offsets.map_blocks import BLOCK_BREAKS, MapBlocks, as_array, first_of, pack, unpack
from heliostat.offsets.map_rows import KeptFrom, MapRows, Prunable, RowKey, Stamp, decode_key

ROW_FORMAT, ROW_FORMAT_FILLED = 1, 2
ROW_BREAKS_MAX = 512
"""A row is written anew as it grows; beyond this the next one is begun."""


class Break(NamedTuple):
    """From target offset `target` on, up to the next break, source = `source` + distance."""

    target: int
    source: int


class Extent(NamedTuple):
    """`length` offsets that stand at both sides one behind the other; open ended if None."""

    source: int
    target: int
    length: int | None


@dataclass(slots=True)
class OffsetMap:
    """The map of one partition; without breaks both offsets are equal."""

    _breaks: MapBlocks = field(default_factory=MapBlocks)
    known_from: int = 0
    """Target offset from which on it is known: what no log holds any more is forgotten, and a lane
    gets the last breaks only."""
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
        return len(self._breaks)

    def copy(self) -> OffsetMap:
        """Another map with the same breaks."""
        return replace(self, _breaks=self._breaks.copy())

    def knows(self, target_end: int) -> bool:
        """Whether it reaches back to a log end of the target."""
        place = self.source_of(self.known_from) if self.is_filled else self.known_from
        return not self.known_from or target_end >= place

    @property
    def is_identity(self) -> bool:
        """Whether offsets are equal on both sides."""
        return self._breaks.last is None

    def breaks(self, behind: int = -1) -> Iterator[Break]:
        """Breaks behind a target offset, by default all, in order, as they are now."""
        return map(Break._make, self._breaks.behind(behind))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All breaks as plain tuples: of millions they are made in half the time."""
        return self._breaks.behind(-1)

    def add(self, new: Break) -> None:
        """Put a break behind the others; what stood from its target offset on is gone.

        One that says nothing new, as it follows from those before, is not kept. One that goes back
        at the source, as where that was truncated or made anew, takes along those whose source
        offsets are other records now.
        """
        self.truncate(new.target)
        if new.source != self.source_of(new.target):
            last = self._breaks.last
            if last is not None and last[1] >= new.source:
                self._breaks.cut_source(new.source)
            self._breaks.append(new.target, new.source)

    def truncate(self, target: int) -> None:
        """Forget the breaks from this target offset on."""
        self._breaks.cut_target(target)

    def forget_before(self, target: int) -> None:
        """What lies before this target offset is asked for by nobody any more."""
        self._breaks.forget_before(target)
        self.known_from = max(self.known_from, target)

    def source_of(self, target: int) -> Offset:
        """Source offset of the record at a target offset, or of the one that comes there next.

        -1 where the map is not known so far back.
        """
        found = self._breaks.up_to_target(target)
        if found is None:
            return Offset(target if target >= self.known_from else -1)
        return Offset(found[1] + target - found[0])

    def target_of(self, source: int) -> Offset:
        """Target offset of the first record that is not before a source offset.

        For the source offset of a record it is that record's place; for one in a hole the next
        next record's. So a reader that goes on from the answer reads exactly what it has not read.
        The offset before `known_from`, where no log holds anything, stands for all before it.
        """
        at, following = self._breaks.around_source(source)
        if at is None and self.known_from and source < self.source_of(self.known_from):
            return Offset(self.known_from - 1)
        found = source if at is None else at[0] + source - at[1]
        if following is not None:
            found = min(found, following)  # in the hole before the next break
        return Offset(found)

    def holds(self, source: int) -> bool:
        """Whether the record at a source offset is, or will be, at the target: not in a hole."""
        return self.source_of(self.target_of(source)) == source

    def has_break_in(self, start: int, end: int) -> bool:
        """Whether there is a break at one of the target offsets `[start, end)`."""
        first = next(self.breaks(behind=start - 1), None)
        return first is not None and first.target < end

    def extents(self, start: int = 0) -> Iterator[Extent]:
        """Runs of equal distance from target offset `start` on; the last is open ended."""
        at = Break(start, self.source_of(start))
        for following in self.breaks(behind=start):
            yield Extent(at.source, at.target, following.target - at.target)
            at = following
        yield Extent(at.source, at.target, None)

    def apply(self, row: Row) -> None:
        """Take a row: it replaces everything from its first break on."""
        places = np.fromiter(chain.from_iterable(row.breaks), np.int64).reshape(-1, 2)
        self.replace(places[:, 0], places[:, 1], is_filled=row.is_filled)

    def replace(self, targets: Any, sources: Any, *, is_filled: bool) -> None:
        """Replace everything from the first of these breaks on; arrays of int64."""
        self.is_filled = is_filled
        if not len(targets):
            return
        self.add(Break(int(targets[0]), int(sources[0])))
        self.known_from = min(self.known_from, int(targets[0]))
        if len(targets) == 1:
            return  # most rows
        moved = np.diff(targets)
        # Mostly each lies behind the one before, and says something new.
        if moved.min() > 0 and (np.diff(sources) > moved).all():
            self._breaks.extend(targets[1:], sources[1:])
        else:
            for each in zip(targets[1:].tolist(), sources[1:].tolist(), strict=True):
                self.add(Break._make(each))

    def tail(self, at_least: int, end: int | None = None) -> tuple[int, tuple[bytes, ...], bytes]:
        """Its last breaks, for `MapTail`: from where on they tell all, packed ones, and the newest.

        So many at least, and all behind a log end of the target.
        """
        if end is not None and self.is_filled:
            end = self.target_of(end)
        blocks, newest = self._breaks.tail(at_least, end)
        known_from = self.known_from
        if len(blocks) * BLOCK_BREAKS + len(newest[0]) < len(self):
            known_from = max(known_from, first_of(blocks[0])[0] if blocks else newest[0][0])
        places = (np.frombuffer(each, np.int64) for each in newest)
        return known_from, blocks, _head(is_filled=self.is_filled) + pack(*places)

    @classmethod
    def from_tail(cls, tail: MapTail) -> OffsetMap:
        """What `tail` gave elsewhere."""
        targets, sources = decode_places(tail.breaks)
        return cls(
            MapBlocks.begun(tail.blocks, (as_array(targets), as_array(sources))),
            known_from=tail.known_from,
            is_filled=is_filled_format(tail.breaks),
        )


class MapTail(NamedTuple):
    """The end of a map, as a lane is given it."""

    stamp: Stamp
    """Of the newest row in it."""
    known_from: int
    """Target offset from which on it is known."""
    breaks: bytes
    """The newest, as in `Row.encode`."""
    blocks: tuple[bytes, ...] = ()
    """Those before, packed as the driver has them."""


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


def _head(*, is_filled: bool) -> bytes:
    return bytes([ROW_FORMAT_FILLED if is_filled else ROW_FORMAT])


def encode_breaks(breaks: Iterable[Break], *, is_filled: bool = False) -> bytes:
    """The format, then distances between breaks as varints, see `pack`."""
    places = np.fromiter(chain.from_iterable(breaks), np.int64)
    return _head(is_filled=is_filled) + pack(places[::2], places[1::2])


def decode_places(value: bytes) -> tuple[Any, Any]:
    """Back from bytes, to arrays of target and source offsets.

    Raises
    ------
    ProtocolError
        They are not ours, or of a later version.
    """
    if not value or value[0] not in (ROW_FORMAT, ROW_FORMAT_FILLED):
        raise ProtocolError("a row of the offset map has a format that is not known")
    found = unpack(np.frombuffer(value, np.uint8, offset=1))
    if found is None:
        raise ProtocolError("a row of the offset map is cut off")
    return found


def decode_breaks(value: bytes) -> tuple[Break, ...]:
    """Back from bytes; raises as `decode_places`."""
    targets, sources = decode_places(value)
    return tuple(map(Break, targets.tolist(), sources.tolist()))


def is_filled_format(value: bytes) -> bool:
    """Whether breaks are of a filled mirror."""
    return value[0] == ROW_FORMAT_FILLED


class Odd(NamedTuple):
    """A record of the maps' topic that is no row of ours."""

    mirror: tuple[TopicPartition, str] | None
    """Whose row it may have replaced, by target partition and topic id."""
    offset: int
    why: str


@dataclass(slots=True)
class MapReader:
    """Maps of many partitions, put together from rows in the order of their topic."""

    maps: dict[tuple[TopicPartition, str], OffsetMap] = field(default_factory=dict)
    """By mirror and target topic id."""
    lost: frozenset[tuple[TopicPartition, str]] = frozenset()
    """Mirrors of whose map rows are gone: what is here of it is not the truth."""
    rows: dict[tuple[TopicPartition, str], MapRows] = field(default_factory=dict)
    """What the topic holds of each."""
    _stamps: dict[tuple[TopicPartition, str], Stamp] = field(default_factory=dict)
    _deleted: list[tuple[RowKey, int]] = field(default_factory=list)
    """Rows that were deleted, and where that stands: nothing read so far says it was on purpose."""

    def take_record(self, key: bytes | None, value: bytes | None, offset: int) -> Odd | None:
        """Apply a record of the maps' topic; what is wrong with it, if anything is.

        What is no row of ours takes none away: compaction goes by keys. But under a key of ours it
        may have taken the place of the row that was there. Of deleted rows `lost_rows` tells.
        """
        if key is None:
            return Odd(None, offset, "a record without a key")
        try:
            row_key = decode_key(key)
        except ProtocolError as error:
            return Odd(None, offset, error.text)
        if isinstance(row_key, KeptFrom):
            self._take_kept(row_key, is_there=value is not None)
            return None
        if value is None:
            self._take_deleted(row_key, offset)
            return None
        try:
            targets, sources = decode_places(value)
        except ProtocolError as error:
            name = (row_key.mirror, row_key.target_topic_id)
            return Odd(name, offset, f"a row of its map was written over: {error.text}")
        found = self._listened_to(row_key)
        if found is not None:
            found.replace(targets, sources, is_filled=is_filled_format(value))
        return None

    def take(self, row: Row) -> bool:
        """Apply a row; False if it is from an older round than the newest seen (I10)."""
        found = self._listened_to(row.key)
        if found is not None:
            found.apply(row)
        return found is not None

    def _listened_to(self, key: RowKey) -> OffsetMap | None:
        """The map that a row of this key changes; None if it is of an older round."""
        name = (key.mirror, key.target_topic_id)
        rows = self.rows.setdefault(name, MapRows())
        if key.stamp < self._stamps.get(name, key.stamp):
            rows.ignore(key.first, key.stamp)
            return None
        rows.take(key.first, key.stamp)
        self._stamps[name] = key.stamp
        return self.maps.setdefault(name, OffsetMap())

    def _take_kept(self, key: KeptFrom, *, is_there: bool) -> None:
        """Rows before this place are deleted on purpose; or another record says so by now."""
        name = (key.mirror, key.target_topic_id)
        places = self.rows.setdefault(name, MapRows()).kept_from
        places[:] = [place for place in places if place != key.first]
        if is_there:
            places.append(key.first)
            self.maps.setdefault(name, OffsetMap()).forget_before(key.first)

    def _take_deleted(self, key: RowKey, offset: int) -> None:
        name = (key.mirror, key.target_topic_id)
        if name in self.rows:
            self.rows[name].deleted(key.first, key.stamp)
        self._deleted.append((key, offset))

    def lost_rows(self) -> Iterator[Odd]:
        """Rows deleted since the last call that nothing read by now says to have gone on purpose.

        To be asked at the end of the topic: what says it may have been written again since, and
        compaction leaves the last of it only.
        """
        deleted, self._deleted = self._deleted, []
        for key, offset in deleted:
            name = (key.mirror, key.target_topic_id)
            found, rows = self.maps.get(name), self.rows.get(name)
            known_from = 0 if found is None else found.known_from
            if key.first >= max((known_from, *(rows.kept_from if rows else ()))):
                yield Odd(name, offset, "a row of its map was deleted")

    def prunable(self, mirror: TopicPartition, target_topic_id: str, start: int) -> Prunable | None:
        """Rows that tell of nothing from a log start on; None where no row covers that."""
        name = (mirror, target_topic_id)
        known, rows = self.maps.get(name), self.rows.get(name)
        if known is None or rows is None or name in self.lost:
            return None
        first = rows.first_kept(known.target_of(start) if known.is_filled else start)
        if first is None:
            return None
        gone = [RowKey(*name, *row) for row in rows.before(first)]
        said = [KeptFrom(*name, place) for place in rows.kept_from if place < first]
        return Prunable(KeptFrom(*name, first), gone, said)

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

    def position_at(self, mirror: TopicPartition, target_topic_id: str, end: int) -> Offset | None:
        """Source offset at which a mirror goes on that ends there; None where no map tells it."""
        if self.is_lost(mirror, target_topic_id):
            return None
        known = self.of(mirror, target_topic_id)
        return known.source_of(end) if known.knows(end) else None

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

    def tail(
        self,
        mirror: TopicPartition,
        target_topic_id: str,
        at_least: int,
        end: int | None = None,
    ) -> MapTail | None:
        """The end of a map, see `OffsetMap.tail`; None where there is none."""
        name = (mirror, target_topic_id)
        found = self.maps.get(name)
        if found is None or name in self.lost:
            return None
        known_from, blocks, newest = found.tail(at_least, end)
        return MapTail(self._stamps[name], known_from, newest, blocks)

    def copy(self) -> MapReader:
        """Another reader that knows the same."""
        maps = {name: found.copy() for name, found in self.maps.items()}
        return MapReader(maps, self.lost, _stamps=dict(self._stamps))

    def begin(self, mirror: TopicPartition, target_topic_id: str, tail: MapTail) -> None:
        """Begin a map with what `tail` gave elsewhere."""
        name = (mirror, target_topic_id)
        self.maps[name], self._stamps[name] = OffsetMap.from_tail(tail), tail.stamp
