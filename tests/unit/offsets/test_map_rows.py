"""A map whose old rows are deleted, for any reader at any time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.errors import ProtocolError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import KEPT_VALUE, KeptFrom, MapRows, RowKey, Stamp, decode_key
from heliostat.offsets.offset_map import Break, MapReader, MapRow, OffsetMap

MIRROR = TopicPartition(TopicName("mirror"), PartitionId(3))
NAME = (MIRROR, "id")
Record = tuple[bytes, bytes | None]


class Topic:
    """The maps' topic: all that was written, and what a cleaner leaves of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.records: dict[int, Record] = {}
        self.end = 0

    def write(self, key: bytes, value: bytes | None) -> None:
        self.records[self.end] = key, value
        self.end += 1

    def clean(self) -> None:
        """Of what lies before some place keep each key's last; some tombstones go as well."""
        until = self.chance.randint(0, self.end)
        last = {key: at for at, (key, _) in self.records.items() if at < until}
        self.records = {
            at: (key, value)
            for at, (key, value) in self.records.items()
            if at >= until
            or (last[key] == at and (value is not None or self.chance.random() < 0.5))
        }

    def read(self, reader: MapReader, start: int) -> int:
        """Continue reading; a reported loss is a failure."""
        for at in sorted(self.records):
            if at >= start:
                assert reader.take_record(*self.records[at], at) is None
        assert not list(reader.lost_rows())
        return self.end


@pytest.mark.thorough
@examples(300)
@given(seed=st.integers(0, 2**32))
def test_every_reader_knows_the_map_from_the_log_start_on(seed: int) -> None:
    """Given rows that grow, go back and are pruned / when cleaners run / then all readers agree."""
    topic, chance = Topic(seed), random.Random(seed)
    truth, driver, read_to = OffsetMap(), MapReader(), 0
    start = end = 0
    for number in range(1, chance.randint(2, 30)):
        stamp = Stamp(1, number)
        end = max(start, end - chance.choice([0, 0, 0, 3]))
        breaks: list[Break] = []
        place, source = end, truth.source_of(end)
        for _ in range(chance.randint(1, 6)):
            moved, hole = chance.randint(0, 5), chance.randint(1, 4)
            place, source = place + moved, source + moved + hole
            if breaks and place == breaks[-1].target:
                continue
            breaks.append(Break(place, source))
            row = MapRow(RowKey(*NAME, breaks[0].target, stamp), tuple(breaks))
            topic.write(row.key.encode(), row.encode())
        truth.apply(row)
        end = max(start, place - chance.randint(0, 6)) if chance.random() < 0.5 else place + 2
        start = chance.randint(start, end)
        read_to = topic.read(driver, read_to)
        if chance.random() < 0.4:
            _prune(topic, driver, start)
        if chance.random() < 0.4:
            topic.clean()
        late = MapReader()
        topic.read(late, 0)
        read_to = topic.read(driver, read_to)
        for reader in (driver, late):
            known = reader.of(*NAME)
            assert [known.source_of(at) for at in range(start, end + 9)] == [
                truth.source_of(at) for at in range(start, end + 9)
            ]
            first = truth.source_of(start)
            assert [known.target_of(at) for at in range(first, first + 40)] == [
                truth.target_of(at) for at in range(first, first + 40)
            ]
            before = [(known.target_of(at), truth.target_of(at)) for at in range(first)]
            assert all(told <= max(start, place) for told, place in before)
        assert start >= driver.of(*NAME).known_from


def _prune(topic: Topic, driver: MapReader, start: int) -> None:
    """As `OffsetMaps.prune` does, at times killed in the middle."""
    found = driver.prunable(*NAME, start)
    if found is None or not (gone := found.rows):
        return
    topic.write(found.kept.encode(), KEPT_VALUE)
    for row in gone[: topic.chance.choice([len(gone), topic.chance.randint(0, len(gone))])]:
        topic.write(row.encode(), None)
    for kept in found.said:
        topic.write(kept.encode(), None)


def row(first: int, number: int = 1, *sources: int) -> MapRow:
    """A row of a round with breaks from `first` on, ten apart."""
    found = [Break(first + 10 * at, source) for at, source in enumerate(sources)]
    return MapRow(RowKey(*NAME, first, Stamp(1, number)), tuple(found))


def told(reader: MapReader, *records: tuple[bytes, bytes | None]) -> list[str]:
    """Return what is wrong with records, at their end."""
    odd = [reader.take_record(*record, at) for at, record in enumerate(records)]
    return [one.why for one in odd if one is not None] + [one.why for one in reader.lost_rows()]


def test_a_row_removed_without_a_record_of_pruning_is_lost() -> None:
    one, two = row(0, 1, 5), row(20, 2, 40)
    records = [(each.key.encode(), each.encode()) for each in (one, two)]
    kept, gone = (KeptFrom(*NAME, 20).encode(), KEPT_VALUE), (one.key.encode(), None)
    assert told(MapReader(), *records, gone) == ["a row of its map was deleted"]
    assert told(MapReader(), *records, kept, gone) == []
    assert told(MapReader(), *records, gone, kept) == []
    assert told(MapReader(), *records, kept, (two.key.encode(), None)) == [
        "a row of its map was deleted"
    ]


def test_a_row_before_the_kept_ones_is_known_from_its_place_on() -> None:
    """Given a pruned map / when the target was truncated and continued / then it is known."""
    reader = MapReader()
    one, two, back = row(0, 1, 5), row(20, 2, 40), row(7, 3, 12)
    kept = KeptFrom(*NAME, 20).encode(), KEPT_VALUE
    records = [(each.key.encode(), each.encode()) for each in (one, two)]
    assert told(reader, *records, kept, (one.key.encode(), None)) == []
    assert not reader.of(*NAME).knows(7)
    assert reader.of(*NAME).source_of(7) == -1
    assert told(reader, (back.key.encode(), back.encode())) == []
    assert reader.of(*NAME).knows(7)
    assert reader.of(*NAME).source_of(8) == 13
    assert told(reader, (one.key.encode(), None)) == []


def test_offsets_before_the_kept_rows_are_reported_as_such() -> None:
    known = OffsetMap.of([Break(10, 20), Break(30, 60)])
    known.forget_before(30)
    assert [known.target_of(source) for source in (0, 25, 59, 60, 61)] == [29, 29, 29, 30, 31]
    assert not any(known.holds(source) for source in range(60))
    assert known.source_of(29) == -1
    assert known.tail(1)[0] == 30


def test_equal_offsets_again_after_pruned_rows() -> None:
    """Given a map that came back to equal offsets / when its first rows go / then it says so."""
    rows = [row(0, 1, 5), row(20, 2, 20), row(30, 3, 37)]
    whole, late = MapReader(), MapReader()
    records = [(each.key.encode(), each.encode()) for each in rows]
    kept, gone = (KeptFrom(*NAME, 20).encode(), KEPT_VALUE), (rows[0].key.encode(), None)
    assert told(whole, *records, kept, gone) == told(late, *records[1:], kept) == []
    for at in range(20, 40):
        assert whole.of(*NAME).source_of(at) == late.of(*NAME).source_of(at)


def test_pruning_depends_on_the_rows_in_force() -> None:
    """Given a row that replaced a later one's place / then that one does not decide what may go."""
    rows = MapRows()
    for first, number in ((0, 1), (60, 2), (50, 3), (70, 4), (90, 4)):
        rows.take(first, first, Stamp(1, number))
    assert [rows.first_kept(at) for at in (-1, 0, 49, 60, 69, 70, 500)] == [
        None, 0, 0, 50, 50, 70, 90,
    ]  # fmt: skip
    assert list(rows.before(50)) == [(0, Stamp(1, 1))]
    assert list(rows.before(70)) == [(0, Stamp(1, 1)), (50, Stamp(1, 3)), (60, Stamp(1, 2))]
    rows.take(90, 90, Stamp(1, 4))  # it has grown
    rows.ignore(65, Stamp(1, 2))
    rows.ignore(60, Stamp(1, 1))
    gone = list(rows.before(91))
    assert len(gone) == 7
    for each in gone[:-1]:
        rows.deleted(*each)
    assert list(rows.before(91)) == gone[-1:]
    rows.deleted(60, Stamp(9, 9))
    assert list(rows.before(91)) == gone[-1:]


def test_a_row_whose_breaks_were_replaced_by_their_source_offsets_covers_nothing() -> None:
    """Given a break of a lost append, moved on / then the row before it still covers the start."""
    reader = MapReader()
    for number, pairs in enumerate([[(48, 89), (56, 101)], [(61, 109)], [(63, 109)]], start=1):
        breaks = tuple(Break(*pair) for pair in pairs)
        reader.take(MapRow(RowKey(*NAME, breaks[0].target, Stamp(1, number)), breaks))
    for start, first in ((60, 48), (61, 48), (62, 48), (63, 63)):
        prunable = reader.prunable(*NAME, start)
        assert prunable is not None
        assert prunable.kept.first == first
    assert reader.prunable(*NAME, 47) is None


def test_keys_are_read_back_as_written() -> None:
    keys = [RowKey(*NAME, 5, Stamp(2, 3, 4)), KeptFrom(*NAME, 5)]
    assert [decode_key(key.encode()) for key in keys] == keys
    assert len({key.encode() for key in keys}) == 2
    for wrong in (b"[]", b"{}", b'["a",0,"",1]', b'["a",0,"",1,"kept"]', b"\xff"):
        with pytest.raises(ProtocolError):
            decode_key(wrong)
    with pytest.raises(ProtocolError):
        RowKey.decode(keys[1].encode())


def test_blocks_before_an_offset_are_removed() -> None:
    """Given packed breaks / when the first half is pruned / then the rest is unchanged."""
    known = OffsetMap()
    for number in range(20_000):
        known.add(Break(number * 10, number * 13 + 1))
    behind = known.copy()
    behind.forget_before(100_005)
    assert 10_000 <= len(behind) < 10_512 + 2
    assert behind.known_from == 100_005
    assert list(behind.breaks(100_000)) == list(known.breaks(100_000))
    for at in (100_005, 100_010, 150_003, 199_999, 300_000):
        assert behind.source_of(at) == known.source_of(at)
    assert all(one < two for one, two in pairwise(behind.pairs()))
    behind.forget_before(500_000)
    assert list(behind.pairs()) == [(199_990, 259_988)]
