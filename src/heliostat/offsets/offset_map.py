"""Which source offset is at which target offset, for one partition: exact, run-length, small.

A mirror of a source without holes needs no map: both offsets are the same number. Where the source
has a hole (compaction, a transaction's marker or aborted records, a record that was set aside) the
target has none, and from there on a source offset is the target's plus a constant. Such a place is
a *break*; the stretch up to the next break is an *extent*.

A *filled* mirror has markers in the holes, so that offsets are equal. Only the sequence of our
producer does not count them (I1). Its map has the same shape: in place of the target's offset it
has the number of our record, counted from where the mirror began.

I2  The position is `source_of(the target's log end)`; nothing else decides it.
I3  A break is durable before the first batch after it is sent. So it may name an offset that the
    target has not reached; a round that continues from an earlier end replaces it.

Breaks are stored in the state topic `heliostat.<link>.offsets` as rows (`MapRow`): a row replaces
everything from its first break on. Rows of an older round than the newest seen are ignored (I10):
one may arrive late, after its successor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from heliostat.errors import OffsetMapLost, ProtocolError
from heliostat.names import Offset, TopicPartition
from heliostat.offsets.map_blocks import BLOCK_BREAKS, MapBlocks, as_array, first_of, pack, unpack
from heliostat.offsets.map_rows import KeptFrom, MapRows, Prunable, RowKey, Stamp, decode_key

ROW_FORMAT, ROW_FORMAT_FILLED = 1, 2
ROW_BREAKS_MAX = 512
"""A row is rewritten as it grows; with more breaks than this a new row begins."""


class Break(NamedTuple):
    """From target offset `target` to the next break, source = `source` + distance to `target`."""

    target: int
    source: int


class Extent(NamedTuple):
    """`length` consecutive offsets of both sides; open-ended if None."""

    source: int
    target: int
    length: int | None


@dataclass(slots=True)
class OffsetMap:
    """The map of one partition; without breaks both offsets are equal."""

    _breaks: MapBlocks = field(default_factory=MapBlocks)
    known_from: int = 0
    """Target offset from which on it is known: breaks of records that are gone are dropped, and a
    lane gets only the last breaks."""
    is_filled: bool = False
    """Offsets are equal at both sides; here "target offset" means "number of our record"."""
    lost: str = ""
    """Why it may lack rows, so that nothing may rely on it; empty if it lacks none."""

    @classmethod
    def of(cls, breaks: Iterable[Break]) -> OffsetMap:
        """Create a map with these breaks, which are in order."""
        offset_map = cls()
        for map_break in breaks:
            offset_map.add(map_break)
        return offset_map

    def __len__(self) -> int:
        return len(self._breaks)

    def copy(self) -> OffsetMap:
        """Return another map with the same breaks."""
        return replace(self, _breaks=self._breaks.copy())

    def knows(self, target_end: int) -> bool:
        """Whether it reaches back to a log end of the target."""
        place = self.source_of(self.known_from) if self.is_filled else self.known_from
        return not self.known_from or target_end >= place

    @property
    def is_identity(self) -> bool:
        """Whether offsets are equal on both sides."""
        return self._breaks.last is None

    def breaks(self, after: int = -1) -> Iterator[Break]:
        """Iterate over breaks after a target offset, by default all, in order, as at the call."""
        return map(Break._make, self._breaks.after(after))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Iterate over all breaks as plain tuples: with millions this takes half the time."""
        return self._breaks.after(-1)

    def add(self, new: Break) -> None:
        """Append a break; breaks from its target offset on are dropped.

        One that says nothing new, as it follows from those before, is not kept. One that goes back
        at the source, as after it was truncated or recreated, also drops breaks whose source
        offsets are other records now.
        """
        self.truncate(new.target)
        if new.source != self.source_of(new.target):
            last = self._breaks.last
            if last is not None and last[1] >= new.source:
                self._breaks.cut_source(new.source)
            self._breaks.append(new.target, new.source)

    def truncate(self, target: int) -> None:
        """Drop the breaks from this target offset on."""
        self._breaks.cut_target(target)

    def forget_before(self, target: int) -> None:
        """Drop what is before this target offset: nobody needs it any more."""
        self._breaks.forget_before(target)
        self.known_from = max(self.known_from, target)

    def source_of(self, target: int) -> Offset:
        """Source offset of the record at a target offset, or of the one that comes there next.

        -1 if the map is not known so far back.
        """
        last_break = self._breaks.up_to_target(target)
        if last_break is None:
            return Offset(target if target >= self.known_from else -1)
        return Offset(last_break[1] + target - last_break[0])

    def target_of(self, source: int) -> Offset:
        """Target offset of the first record that is not before a source offset.

        For the source offset of a record it is that record's offset; for one in a hole, the next
        record's. So a consumer that continues there reads exactly what it has not read. For all
        before `known_from`, where no log has records, it is the offset before `known_from`.
        """
        last_break, following = self._breaks.around_source(source)
        if last_break is None and self.known_from and source < self.source_of(self.known_from):
            return Offset(self.known_from - 1)
        target = source if last_break is None else last_break[0] + source - last_break[1]
        if following is not None:
            target = min(target, following)  # in the hole before the next break
        return Offset(target)

    def holds(self, source: int) -> bool:
        """Whether the record at a source offset is, or will be, at the target: not in a hole."""
        return self.source_of(self.target_of(source)) == source

    def has_break_in(self, start: int, end: int) -> bool:
        """Whether there is a break at one of the target offsets `[start, end)`."""
        first = next(self.breaks(after=start - 1), None)
        return first is not None and first.target < end

    def extents(self, start: int = 0) -> Iterator[Extent]:
        """Runs of equal distance from target offset `start` on; the last is open-ended."""
        begin = Break(start, self.source_of(start))
        for following in self.breaks(after=start):
            yield Extent(begin.source, begin.target, following.target - begin.target)
            begin = following
        yield Extent(begin.source, begin.target, None)

    def apply(self, row: MapRow) -> None:
        """Apply a row: it replaces everything from its first break on."""
        import numpy as np

        places = np.fromiter(chain.from_iterable(row.breaks), np.int64).reshape(-1, 2)
        self.replace(places[:, 0], places[:, 1], is_filled=row.is_filled)

    def replace(self, targets: Any, sources: Any, *, is_filled: bool) -> None:
        """Replace everything from the first of these breaks on; arrays of int64."""
        import numpy as np

        self.is_filled = is_filled
        if not len(targets):
            return
        self.add(Break(int(targets[0]), int(sources[0])))
        self.known_from = min(self.known_from, int(targets[0]))
        if len(targets) == 1:
            return  # most rows
        moved = np.diff(targets)
        # Mostly each is after the one before, and says something new.
        if moved.min() > 0 and (np.diff(sources) > moved).all():
            self._breaks.extend(targets[1:], sources[1:])
        else:
            for pair in zip(targets[1:].tolist(), sources[1:].tolist(), strict=True):
                self.add(Break._make(pair))

    def tail(self, at_least: int, end: int | None = None) -> tuple[int, tuple[bytes, ...], bytes]:
        """Return its last breaks, for `MapTail`: their `known_from`, packed blocks, and the newest.

        At least `at_least`, and all after a log end of the target.
        """
        import numpy as np

        if end is not None and self.is_filled:
            end = self.target_of(end)
        blocks, newest = self._breaks.tail(at_least, end)
        known_from = self.known_from
        if len(blocks) * BLOCK_BREAKS + len(newest[0]) < len(self):
            known_from = max(known_from, first_of(blocks[0])[0] if blocks else newest[0][0])
        places = (np.frombuffer(offsets, np.int64) for offsets in newest)
        return known_from, blocks, _head(is_filled=self.is_filled) + pack(*places)

    @classmethod
    def from_tail(cls, tail: MapTail) -> OffsetMap:
        """Create a map from what `tail` returned in another process."""
        targets, sources = decode_places(tail.breaks)
        return cls(
            MapBlocks.begun(tail.blocks, (as_array(targets), as_array(sources))),
            known_from=tail.known_from,
            is_filled=is_filled_format(tail.breaks),
        )


class MapTail(NamedTuple):
    """The end of a map, as a lane gets it."""

    stamp: Stamp
    """Stamp of the newest row in it."""
    known_from: int
    """Target offset from which on it is known."""
    breaks: bytes
    """The newest breaks, as in `MapRow.encode`."""
    blocks: tuple[bytes, ...] = ()
    """The breaks before, packed as the driver has them."""


class MapRow(NamedTuple):
    """One record of the state topic: the map from the first of its breaks on."""

    key: RowKey
    breaks: tuple[Break, ...]
    is_filled: bool = False
    """See `OffsetMap.is_filled`."""

    def encode(self) -> bytes:
        """Encode its value, see `encode_breaks`."""
        return encode_breaks(self.breaks, is_filled=self.is_filled)

    @classmethod
    def decode(cls, key: RowKey, value: bytes) -> MapRow:
        """Decode a value.

        Raises
        ------
        ProtocolError
            The value is not ours, or of a later version.
        """
        return cls(key, decode_breaks(value), is_filled_format(value))


def _head(*, is_filled: bool) -> bytes:
    return bytes([ROW_FORMAT_FILLED if is_filled else ROW_FORMAT])


def encode_breaks(breaks: Iterable[Break], *, is_filled: bool = False) -> bytes:
    """Encode the format, then distances between breaks as varints, see `pack`."""
    import numpy as np

    places = np.fromiter(chain.from_iterable(breaks), np.int64)
    return _head(is_filled=is_filled) + pack(places[::2], places[1::2])


def decode_places(value: bytes) -> tuple[Any, Any]:
    """Decode a value to arrays of target and source offsets.

    Raises
    ------
    ProtocolError
        The value is not ours, or of a later version.
    """
    import numpy as np

    if not value or value[0] not in (ROW_FORMAT, ROW_FORMAT_FILLED):
        raise ProtocolError("a row of the offset map has an unknown format")
    places = unpack(np.frombuffer(value, np.uint8, offset=1))
    if places is None:
        raise ProtocolError("a row of the offset map is cut off")
    return places


def decode_breaks(value: bytes) -> tuple[Break, ...]:
    """Decode a value; raises as `decode_places`."""
    targets, sources = decode_places(value)
    return tuple(map(Break, targets.tolist(), sources.tolist()))


def is_filled_format(value: bytes) -> bool:
    """Whether breaks are of a filled mirror."""
    return value[0] == ROW_FORMAT_FILLED


class Odd(NamedTuple):
    """A record of the maps' topic that is not a row of ours."""

    mirror: tuple[TopicPartition, str] | None
    """Target partition and topic id of the map whose row it may have replaced, if any."""
    offset: int
    why: str


@dataclass(slots=True)
class MapReader:
    """Maps of many partitions, built from rows in the order of their topic."""

    maps: dict[tuple[TopicPartition, str], OffsetMap] = field(default_factory=dict)
    """By mirror and target topic id."""
    lost: frozenset[tuple[TopicPartition, str]] = frozenset()
    """Mirrors whose maps lost rows: what is here of these is wrong."""
    rows: dict[tuple[TopicPartition, str], MapRows] = field(default_factory=dict)
    """Rows of each map in the topic."""
    _stamps: dict[tuple[TopicPartition, str], Stamp] = field(default_factory=dict)
    _deleted: list[tuple[RowKey, int]] = field(default_factory=list)
    """Deleted rows, and their tombstones' offsets; until `lost_rows` sorts out those on purpose."""

    def take_record(self, key: bytes | None, value: bytes | None, offset: int) -> Odd | None:
        """Apply a record of the maps' topic; return what is wrong with it, if anything is.

        A record with another key removes no row: compaction goes by keys. But one with a key of
        ours may have replaced the row that was there. `lost_rows` reports deleted rows.
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
            return Odd(name, offset, f"a row of its map was overwritten: {error.text}")
        offset_map = self._listened_to(row_key, int(sources[0]) if len(sources) else -1)
        if offset_map is not None:
            offset_map.replace(targets, sources, is_filled=is_filled_format(value))
        return None

    def take(self, row: MapRow) -> bool:
        """Apply a row; False if it is from an older round than the newest seen (I10)."""
        offset_map = self._listened_to(row.key, row.breaks[0].source if row.breaks else -1)
        if offset_map is not None:
            offset_map.apply(row)
        return offset_map is not None

    def _listened_to(self, key: RowKey, source: int) -> OffsetMap | None:
        """The map that a row with this key changes; None if the row is of an older round.

        `source`: that of its first break; -1: it has none.
        """
        name = (key.mirror, key.target_topic_id)
        rows = self.rows.setdefault(name, MapRows())
        if key.stamp < self._stamps.get(name, key.stamp):
            rows.ignore(key.first, key.stamp)
            return None
        rows.take(key.first, source, key.stamp)
        self._stamps[name] = key.stamp
        return self.maps.setdefault(name, OffsetMap())

    def _take_kept(self, key: KeptFrom, *, is_there: bool) -> None:
        """Note that rows before this offset go on purpose; or that another record says so now."""
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
        """Iterate over rows deleted since the last call, unless a record says it was on purpose.

        Call it at the end of the topic: the record that says it may have been written again since,
        and compaction keeps only the last one.
        """
        deleted, self._deleted = self._deleted, []
        for key, offset in deleted:
            name = (key.mirror, key.target_topic_id)
            offset_map, rows = self.maps.get(name), self.rows.get(name)
            known_from = 0 if offset_map is None else offset_map.known_from
            if key.first >= max((known_from, *(rows.kept_from if rows else ()))):
                yield Odd(name, offset, "a row of its map was deleted")

    def prunable(self, mirror: TopicPartition, target_topic_id: str, start: int) -> Prunable | None:
        """Rows that cover nothing from a log start on; None if no row covers that start."""
        name = (mirror, target_topic_id)
        offset_map, rows = self.maps.get(name), self.rows.get(name)
        if offset_map is None or rows is None or name in self.lost:
            return None
        first = rows.first_kept(offset_map.target_of(start) if offset_map.is_filled else start)
        if first is None:
            return None
        gone = [RowKey(*name, *row) for row in rows.before(first)]
        said = [KeptFrom(*name, place) for place in rows.kept_from if place < first]
        return Prunable(KeptFrom(*name, first), gone, said)

    def of(self, mirror: TopicPartition, target_topic_id: str) -> OffsetMap:
        """The map of a mirror; the identity if it has no rows, or is filled.

        Raises
        ------
        OffsetMapLost
            Rows of the map are gone; see `is_lost`.
        """
        if self.is_lost(mirror, target_topic_id):
            raise OffsetMapLost(f"the offset map of {mirror} is lost")
        offset_map = self.maps.get((mirror, target_topic_id))
        return OffsetMap() if offset_map is None or offset_map.is_filled else offset_map

    def position_at(self, mirror: TopicPartition, target_topic_id: str, end: int) -> Offset | None:
        """Source offset at which a mirror with this log end continues; None if not known."""
        if self.is_lost(mirror, target_topic_id):
            return None
        offset_map = self.of(mirror, target_topic_id)
        return offset_map.source_of(end) if offset_map.knows(end) else None

    def is_lost(self, mirror: TopicPartition, target_topic_id: str) -> bool:
        """Whether rows of a mirror's map are gone."""
        return (mirror, target_topic_id) in self.lost

    def stamp_of(self, mirror: TopicPartition, target_topic_id: str) -> Stamp:
        """Stamp of the newest row of a mirror; rows with an older stamp are ignored."""
        return self._stamps.get((mirror, target_topic_id), Stamp(0, 0))

    def is_filled(self, mirror: TopicPartition, target_topic_id: str) -> bool | None:
        """Whether a mirror's holes were filled; None if it has had none yet."""
        offset_map = self.maps.get((mirror, target_topic_id))
        return None if offset_map is None or offset_map.is_identity else offset_map.is_filled

    def tail(
        self,
        mirror: TopicPartition,
        target_topic_id: str,
        at_least: int,
        end: int | None = None,
    ) -> MapTail | None:
        """The end of a map, see `OffsetMap.tail`; None if there is no map."""
        name = (mirror, target_topic_id)
        offset_map = self.maps.get(name)
        if offset_map is None or name in self.lost:
            return None
        known_from, blocks, newest = offset_map.tail(at_least, end)
        return MapTail(self._stamps[name], known_from, newest, blocks)

    def copy(self) -> MapReader:
        """Return another reader with the same maps."""
        maps = {name: offset_map.copy() for name, offset_map in self.maps.items()}
        return MapReader(maps, self.lost, _stamps=dict(self._stamps))

    def begin(self, mirror: TopicPartition, target_topic_id: str, tail: MapTail) -> None:
        """Begin a map with what `tail` returned in another process."""
        name = (mirror, target_topic_id)
        self.maps[name], self._stamps[name] = OffsetMap.from_tail(tail), tail.stamp
