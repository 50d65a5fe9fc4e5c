"""The offset map: exact both ways, and the same from rows, from its end, and from any offset on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow, OffsetMap

MIRROR = TopicPartition(TopicName("t"), PartitionId(3))


@st.composite
def sources(draw):
    """Draw source offsets of a mirror's records, in order."""
    holes = draw(st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=1, max_size=30))
    found, at = [], draw(st.sampled_from([0, 7]))
    for hole in holes:
        at += hole
        found.append(at)
        at += 1
    return found


def map_of(records: list[int]) -> OffsetMap:
    return OffsetMap.of(Break(target, source) for target, source in enumerate(records))


@given(sources())
def test_each_record_is_found_from_both_sides_and_holes_give_the_next(records):
    found = map_of(records)
    for target, source in enumerate(records):
        assert (found.source_of(target), found.target_of(source)) == (source, target)
    for source in range(records[-1]):
        following = next(target for target, each in enumerate(records) if each >= source)
        assert found.target_of(source) == following
        assert found.holds(source) == (source in records)


@given(sources(), st.integers(0, 31))
def test_breaks_after_an_offset_are_the_end_of_the_map(records, at):
    found = map_of(records)
    every = list(found.breaks())
    assert len(every) == len(found)
    assert list(found.breaks(after=at)) == [each for each in every if each.target > at]
    first, *rest = found.extents(at)
    assert (first.target, first.source) == (at, found.source_of(at))
    assert [Break(each.target, each.source) for each in rest] == list(found.breaks(after=at))


@given(sources(), st.integers(1, 9))
def test_a_reader_of_the_maps_end_knows_what_follows(records, most):
    found = map_of(records)
    row = MapRow(RowKey(MIRROR, "id", 0, Stamp(2, 1)), tuple(found.breaks()))
    whole, end = MapReader(), MapReader()
    assert whole.take(MapRow.decode(RowKey.decode(row.key.encode()), row.encode()))
    tail = whole.tail(MIRROR, "id", most)
    assert tail is not None
    end.begin(MIRROR, "id", tail)
    known = end.of(MIRROR, "id")
    for target in range(known.known_from, len(records)):
        assert known.source_of(target) == records[target]
    assert not end.take(row._replace(key=row.key._replace(stamp=Stamp(2, 0))))


def test_a_break_replaces_an_earlier_one_at_its_offset() -> None:
    """Given a break that was never reached / when another is set there / then it alone counts."""
    found = OffsetMap.of([Break(2, 4), Break(5, 8)])
    found.add(Break(5, 10))
    assert list(found.breaks()) == [Break(2, 4), Break(5, 10)]
    assert [each.length for each in found.extents()] == [2, 3, None]
    row = MapRow(RowKey(MIRROR, "id", 5, Stamp(1, 1)), (Break(5, 7), Break(6, 20)))
    found.apply(row)
    assert list(found.breaks()) == [Break(2, 4), Break(6, 20)]


def test_a_revoked_break_leaves_an_exact_mirror() -> None:
    found = OffsetMap.of([Break(5, 8)])
    found.add(Break(5, 5))
    assert found.is_identity
