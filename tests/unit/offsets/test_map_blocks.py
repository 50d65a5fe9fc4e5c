"""A packed map answers like a plain one after any sequence of changes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.offsets import map_blocks, offset_map
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow, OffsetMap

MIRROR = TopicPartition(TopicName("t"), PartitionId(3))
SMALL = {"BLOCK_BREAKS": 4, "NEWEST_MIN": 6, "NEWEST_MAX": 10}


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, number in SMALL.items():
            patch.setattr(map_blocks, name, number)
        patch.setattr(offset_map, "BLOCK_BREAKS", SMALL["BLOCK_BREAKS"])
        yield


class Plain:
    """The map as two lists, in the plainest words."""

    def __init__(self) -> None:
        self.targets: list[int] = []
        self.sources: list[int] = []

    def add(self, new: Break) -> None:
        self.truncate(new.target)
        if new.source != self.source_of(new.target):
            while self.sources and self.sources[-1] >= new.source:
                self.targets.pop()
                self.sources.pop()
            self.targets.append(new.target)
            self.sources.append(new.source)

    def truncate(self, target: int) -> None:
        at = bisect_left(self.targets, target)
        del self.targets[at:], self.sources[at:]

    def source_of(self, target: int) -> int:
        at = bisect_right(self.targets, target) - 1
        return target if at < 0 else self.sources[at] + target - self.targets[at]

    def target_of(self, source: int) -> int:
        at = bisect_right(self.sources, source) - 1
        found = source if at < 0 else self.targets[at] + source - self.sources[at]
        return min([found, *self.targets[at + 1 : at + 2]])

    def breaks(self) -> list[Break]:
        return list(map(Break, self.targets, self.sources))


@st.composite
def rows(draw):
    """Draw breaks to append or insert: mostly forward, sometimes back at either side."""
    back = draw(st.sampled_from([0, 0, 0, 0, 1, 3, 20, 60, 200]))
    source_back = draw(st.sampled_from([0, 0, 0, 0, 5, 40, 150]))
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), max_size=14))
    return back, source_back, steps


def made(plain: Plain, packed: OffsetMap, actions) -> None:
    """Do the same to both."""
    for at, (back, source_back, steps) in enumerate(actions):
        last = plain.breaks()[-1:] or [Break(0, 0)]
        target = max(0, last[0].target + 1 - back)
        source = max(0, plain.source_of(target) + 1 - source_back)
        found: list[Break] = []
        for moved, more in steps:
            found.append(Break(target, source))
            target, source = target + moved, max(0, source + moved + more)
        if at % 5 == 4:
            plain.truncate(target - 9)
            packed.truncate(target - 9)
        if at % 3 == 0:
            for each in found:
                packed.add(each)
        else:
            packed.apply(MapRow(RowKey(MIRROR, "id", 0, Stamp(1, 1)), tuple(found)))
            if found:
                plain.truncate(found[0].target)
        for each in found:
            plain.add(each)


def assert_same(plain: Plain, packed: OffsetMap) -> None:
    every = plain.breaks()
    assert list(packed.breaks()) == every
    assert (len(packed), packed.is_identity) == (len(every), not every)
    last = every[-1] if every else Break(0, 0)
    for target in range(last.target + 3):
        assert packed.source_of(target) == plain.source_of(target)
        after = [each for each in every if each.target > target]
        if target % 7 == 0:
            assert list(packed.breaks(after=target)) == after
            assert len(list(packed.extents(target))) == len(after) + 1
    for source in range(last.source + 3):
        place = plain.target_of(source)
        assert packed.target_of(source) == place
        assert packed.holds(source) == (plain.source_of(place) == source)


@examples(100)
@given(st.lists(rows(), max_size=12))
def test_packed_and_plain_maps_answer_alike(actions):
    plain, packed = Plain(), OffsetMap()
    made(plain, packed, actions)
    assert_same(plain, packed)


@examples(50)
@given(st.lists(rows(), max_size=8), st.lists(rows(), min_size=1, max_size=4))
def test_a_copy_does_not_change_with_the_original(actions, later):
    plain, packed = Plain(), OffsetMap()
    made(plain, packed, actions)
    copy, listed = packed.copy(), packed.breaks()
    before = plain.breaks()
    made(plain, packed, later)
    assert list(copy.breaks()) == list(listed) == before
    assert_same(plain, packed)


@examples(50)
@given(
    st.lists(rows(), max_size=8),
    st.integers(1, 30),
    st.one_of(st.none(), st.integers(0, 200)),
    st.integers(0, 40),
)
def test_a_lanes_part_of_a_map_continues_like_the_whole(actions, at_least, end, back):
    """Given the end of a map, sent elsewhere / when both get the same row / then both agree."""
    plain, whole = Plain(), MapReader()
    whole.take(MapRow(RowKey(MIRROR, "id", 0, Stamp(1, 1)), ()))
    known = whole.maps[MIRROR, "id"]
    made(plain, known, actions)
    tail = whole.tail(MIRROR, "id", at_least, end)
    assert tail is not None
    lane = MapReader()
    lane.begin(MIRROR, "id", tail)
    theirs = lane.of(MIRROR, "id")
    first = theirs.known_from
    assert len(theirs) >= min(at_least, len(known))
    assert first == 0 or len(theirs) < len(known)
    every = plain.breaks()
    assert list(theirs.breaks()) == [each for each in every if each.target >= first]
    if end is not None and every and every[0].target <= end:
        assert theirs.knows(end)
    place = max(first, (every[-1].target if every else 0) + 1 - back)
    row = tuple(Break(place + at, known.source_of(place) + 1 + 2 * at) for at in range(5))
    for each in (whole, lane):
        assert each.take(MapRow(RowKey(MIRROR, "id", place, Stamp(1, 2)), row))
    last = place + 10
    assert [known.source_of(each) for each in range(first, last)] == [
        theirs.source_of(each) for each in range(first, last)
    ]


def test_old_breaks_take_three_bytes_at_most() -> None:
    """Given breaks as transactions of 10 records make them / then blocks are small and shared."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in {"BLOCK_BREAKS": 512, "NEWEST_MAX": 1536}.items():
            patch.setattr(map_blocks, name, number)
        packed = map_blocks.MapBlocks()
        for number in range(20_000):
            packed.append(number * 10, number * 11)
        blocks, newest = packed.tail(20_000, None)
        assert sum(map(len, blocks)) < 3 * 512 * len(blocks)
        assert len(newest[0]) < 1536
        assert packed.copy().tail(1_000, 5)[0][-1] is blocks[-1]


def test_a_truncated_block_is_detected() -> None:
    block = map_blocks.pack(array("q", [1, 5]), array("q", [2, 9]))
    with pytest.raises(AssertionError, match="cut off"):
        map_blocks.MapBlocks.begun(
            (block[:-1] + b"\xff",), (array("q", [9]), array("q", [99]))
        ).up_to_target(3)


def test_at_the_borders_of_blocks_it_answers_as_elsewhere() -> None:
    """Given 10 packed breaks and later ones / then each border gives the correct place."""
    found = OffsetMap.of(Break(at * 10, at * 12 + 1) for at in range(1, 15))
    blocks, newest = found._breaks.tail(99, None)
    assert (len(blocks), len(newest[0])) == (2, 6)
    for at in range(1, 15):
        assert found.source_of(at * 10) == at * 12 + 1
        assert found.target_of(at * 12) == found.target_of(at * 12 + 1) == at * 10
        assert found.holds(at * 12 + 1)
        assert not found.holds(at * 12)
    assert [len(found._breaks.tail(1, end)[0]) for end in (95, 90, 85, 50, 5)] == [0, 0, 1, 1, 2]
    for at in (9, 5, 1):  # the first that is not packed, and the first of each block
        shorter = found.copy()
        shorter.truncate(at * 10)
        assert list(shorter.breaks()) == list(found.breaks())[: at - 1]
        assert shorter.source_of(200) == 200 + (0 if at == 1 else 2 * at - 1)
