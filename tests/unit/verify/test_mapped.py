"""Mapped mirrors: a source with holes, a target without, and a map between their offsets."""

from __future__ import annotations

import pickle
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.planted import Record, batch_bytes

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.verify.align import Content, Findings, explain, placed
from heliostat.verify.places import EXACT, Places
from heliostat.verify.ranges import Chunk
from heliostat.verify.reader import FetchedPart
from heliostat.verify.stream import ConsumedRecord, PartitionStream
from heliostat.verify.work import _compared

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))
COUNT = 120


def record(number: int) -> Record:
    value = random.Random(number).randbytes(9)
    return (1_000 + number, b"k%d" % (number % 7), value, [("h", b"%d" % number)])


class Log:
    """A reader of one partition, whose batches may be anywhere."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []

    def append(self, base: int, rows: list[Record], codec: str = "none") -> None:
        data = batch_bytes(rows, codec)
        self.batches.append((base, base + len(rows), base.to_bytes(8, "big") + data[8:]))

    def fetch_alone(self, _: TopicPartition, position: int) -> FetchedPart:
        data = b"".join(data for _, end, data in self.batches if end > position)
        return FetchedPart(position, data, (), 1 << 40)


def kept(holes: list[bool]) -> list[int]:
    """Source offsets that hold a record."""
    return [offset for offset, is_hole in enumerate(holes) if not is_hole]


def places_of(offsets: list[int]) -> Places:
    """The map of a mirror that has these source offsets, and no others."""
    built = OffsetMap()
    for target, source in enumerate(offsets):
        built.add(Break(target, source))
    return Places.of(built.breaks())


def runs(offsets: list[int], cuts: set[int]) -> list[list[int]]:
    """Split where offsets jump, and at the given ones."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][-1] == offset - 1 and offset not in cuts:
            found[-1].append(offset)
        else:
            found.append([offset])
    return found


def logs(offsets: list[int], cuts: set[int], joined: int) -> tuple[Log, Log]:
    """The source as it is, and its mirror in batches of up to `joined` records."""
    source, target = Log(), Log()
    for run in runs(offsets, cuts):
        source.append(run[0], [record(n) for n in run])
    for begin in range(0, len(offsets), joined):
        target.append(begin, [record(n) for n in offsets[begin : begin + joined]], "gzip")
    return source, target


def compared(source: Any, target: Any, chunk: Chunk) -> Any:
    one = PartitionStream(source, PARTITION, chunk.start, chunk.end)
    two = PartitionStream(target, PARTITION, chunk.target_start, chunk.target_end)
    return _compared(chunk, one, two, decode_all=False)


def chunk(places: Places, start: int, end: int, target_end: int) -> Chunk:
    stop = max(places.target_at(start), min(places.target_at(end), target_end))
    return Chunk(0, PARTITION, PARTITION, start, end, stop, places.between(start, end))


HOLES = st.lists(st.booleans(), min_size=1, max_size=COUNT)
CUTS = st.sets(st.integers(0, COUNT), max_size=12)
JOINED = st.integers(1, 30)


@given(HOLES)
def test_places_agree_with_the_map(holes: list[bool]) -> None:
    """Two codes, one meaning: the copier's map and the checker's reading of it."""
    offsets = kept(holes)
    built = OffsetMap.of(Break(t, s) for t, s in enumerate(offsets))
    places = Places.of(built.breaks())
    for number in range(len(holes) + 5):
        assert places.source_at(number) == built.source_of(number)
        assert places.target_at(number) == built.target_of(number)
        assert (places.place_of(number) is not None) == built.holds(number)


@given(HOLES, st.integers(0, COUNT), st.integers(0, COUNT))
def test_a_part_of_a_map_gives_equal_answers_for_its_range(
    holes: list[bool], one: int, two: int
) -> None:
    start, end = min(one, two), max(one, two)
    whole = places_of(kept(holes))
    part = whole.between(start, end)
    for source in range(start, end + 1):
        assert part.target_at(source) == whole.target_at(source)
        assert part.place_of(source) == whole.place_of(source)
    for target in range(whole.target_at(start), whole.target_at(end) + 1):
        assert part.source_at(target) == whole.source_at(target)
    assert EXACT.between(start, end) is EXACT


@examples(200)
@given(HOLES, CUTS, JOINED, st.integers(0, COUNT), st.integers(0, COUNT))
def test_equal_records_are_equal_wherever_the_map_puts_them(
    holes: list[bool], cuts: set[int], joined: int, one: int, two: int
) -> None:
    offsets = kept(holes)
    start, end = min(one, two, len(holes)), min(max(one, two), len(holes))
    source, target = logs(offsets, cuts, joined)
    found = compared(source, target, chunk(places_of(offsets), start, end, len(offsets)))
    assert found.differs_at is None
    assert found.records == sum(start <= offset < end for offset in offsets)


def test_batches_that_moved_as_a_whole_are_not_decoded() -> None:
    offsets = [*range(20), *range(30, 60), *range(61, 100)]
    source = Log()
    target = Log()
    for run in runs(offsets, set()):
        source.append(run[0], [record(n) for n in run])
        target.append(offsets.index(run[0]), [record(n) for n in run])
    found = compared(source, target, chunk(places_of(offsets), 0, 100, len(offsets)))
    assert (found.differs_at, found.records, found.batches_equal) == (None, 89, 3)


@examples(200)
@given(HOLES, CUTS, JOINED, st.integers(0, COUNT - 1))
def test_the_first_difference_is_given_in_source_offsets(
    holes: list[bool], cuts: set[int], joined: int, place: int
) -> None:
    offsets = kept(holes)
    if not offsets:
        return
    altered = offsets[place % len(offsets)]
    source, target = logs(offsets, cuts, joined)
    wrong = [record(n if n != altered else 7_777) for n in offsets]
    target.batches.clear()
    for begin in range(0, len(wrong), joined):
        target.append(begin, wrong[begin : begin + joined])
    found = compared(source, target, chunk(places_of(offsets), 0, len(holes), len(offsets)))
    assert found.differs_at == altered
    assert found.records == offsets.index(altered)


def test_a_record_that_the_map_has_no_place_for_is_a_difference() -> None:
    offsets = list(range(50))
    source, target = logs(offsets, {10, 30}, 10)
    claimed = [n for n in offsets if n != 33]
    target = logs(claimed, set(), 10)[1]
    found = compared(source, target, chunk(places_of(claimed), 0, 50, 49))
    assert (found.differs_at, found.records) == (33, 33)


def test_records_that_the_source_lost_are_not_compared() -> None:
    """An unclean election lost source offsets from 60 on; the link continued, the map goes back."""
    source, target = Log(), Log()
    source.append(0, [record(n) for n in range(40)])
    source.append(50, [record(n) for n in range(50, 60)])
    source.append(60, [record(1_000 + n) for n in range(20)])
    copied = [*range(40), *range(50, 75)]
    target.append(0, [record(n) for n in copied])
    target.append(65, [record(1_000 + n) for n in range(20)])
    places = Places((40, 65), (50, 60))
    assert places.lost_source_ranges() == [(50, 65)]
    found = compared(source, target, chunk(places, 0, 80, 85))
    assert (found.differs_at, found.records) == (None, 70)
    target.batches.clear()
    target.append(0, [record(n) for n in copied])
    target.append(65, [record(1_000 + n + (n == 7)) for n in range(20)])
    assert compared(source, target, chunk(places, 0, 80, 85)).differs_at == 67
    assert EXACT.lost_source_ranges() == []
    assert places_of(SPARSE).lost_source_ranges() == []


# -- naming what happened --------------------------------------------------------------------------

SPARSE = [n for n in range(4_000) if n % 101 not in {0, 1} and n % 7 != 3]
"""A transaction of 99 offsets, then a marker and a hole; and holes of compaction."""


def rows_of(offsets: list[int], *, renumber: bool = False) -> list[ConsumedRecord]:
    return [(at if renumber else n, *record(n)) for at, n in enumerate(offsets)]


def check(source: list[ConsumedRecord], target: list[ConsumedRecord], places: Places) -> Findings:
    known: dict[Content, int] = {}
    for row in source:
        offset, content = placed(row)
        known.setdefault(content, offset)

    def find(wanted: set[Content]) -> dict[Content, int]:
        return {content: known[content] for content in wanted if content in known}

    return explain(source, target, 10_000, find, places=places)


def counts(found: Findings) -> dict[str, int]:
    names = ("lost", "doubled", "reordered", "different", "moved")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def renumbered(rows: list[ConsumedRecord]) -> list[ConsumedRecord]:
    return [(n, *row[1:]) for n, row in enumerate(rows)]


MIDDLE = 1_700
"""Index of the planted fault."""


def test_a_healthy_mapped_mirror_has_no_findings() -> None:
    found = check(rows_of(SPARSE), rows_of(SPARSE, renumber=True), places_of(SPARSE))
    assert found.is_clean
    assert found.offsets_equal
    assert found.matched == len(SPARSE)


def test_one_lost_record_is_named_with_its_source_offset() -> None:
    target = rows_of(SPARSE)
    del target[MIDDLE]
    found = check(rows_of(SPARSE), renumbered(target), places_of(SPARSE))
    assert counts(found) == {"lost": 1, "moved": len(SPARSE) - MIDDLE - 1}
    first = found.differences[0]
    assert (first.kind, first.source_offset) == ("lost", SPARSE[MIDDLE])


def test_one_duplicated_record_is_named_with_both_offsets() -> None:
    target = rows_of(SPARSE)
    target.insert(MIDDLE, target[MIDDLE - 3])
    found = check(rows_of(SPARSE), renumbered(target), places_of(SPARSE))
    assert counts(found) == {"doubled": 1, "moved": len(SPARSE) - MIDDLE}
    first = found.differences[0]
    assert (first.kind, first.source_offset, first.target_offset) == (
        "doubled",
        SPARSE[MIDDLE - 3],
        MIDDLE,
    )


def test_swapped_records_are_out_of_order() -> None:
    target = rows_of(SPARSE)
    target[MIDDLE], target[MIDDLE + 1] = target[MIDDLE + 1], target[MIDDLE]
    found = check(rows_of(SPARSE), renumbered(target), places_of(SPARSE))
    assert counts(found)["reordered"] == 1
    assert not found.offsets_equal
    assert found.differences[0].shows_at == SPARSE[MIDDLE]


def test_an_altered_record_is_named_with_both_offsets() -> None:
    target = rows_of(SPARSE, renumber=True)
    target[MIDDLE] = (*target[MIDDLE][:3], b"altered", target[MIDDLE][4])
    found = check(rows_of(SPARSE), target, places_of(SPARSE))
    assert counts(found) == {"different": 1}
    first = found.differences[0]
    assert (first.field, first.source_offset, first.target_offset) == (
        "value",
        SPARSE[MIDDLE],
        MIDDLE,
    )


@pytest.mark.parametrize("by", [-1, 1, 5])
def test_a_wrong_row_of_the_map_moves_all_that_follows(by: int) -> None:
    """The mirror is correct, the map is not: translated offsets would be wrong."""
    right = places_of(SPARSE)
    at = len(right.targets) // 2
    moved = tuple(source + by * (n >= at) for n, source in enumerate(right.sources))
    wrong = Places(right.targets, moved)
    found = check(rows_of(SPARSE), rows_of(SPARSE, renumber=True), wrong)
    assert counts(found) == {"moved": len(SPARSE) - right.targets[at]}
    assert not found.offsets_equal


def test_a_missing_row_of_the_map_is_detected() -> None:
    right = places_of(SPARSE)
    wrong = Places(right.targets[:4] + right.targets[5:], right.sources[:4] + right.sources[5:])
    found = check(rows_of(SPARSE), rows_of(SPARSE, renumber=True), wrong)
    assert counts(found) == {"moved": right.targets[5] - right.targets[4]}
    assert all(a.shows_at <= b.shows_at for a, b in pairwise(found.differences))


def test_a_record_without_a_place_is_a_difference_also_as_the_last() -> None:
    """Given a map that leaves out the last record of a piece / then it is found, at its offset."""
    source, _ = logs([0, 1, 2, 3], set(), 9)
    _, target = logs([0, 1, 2, 4], set(), 9)
    piece = chunk(places_of([0, 1, 2, 4]), 0, 4, 3)
    assert compared(source, target, piece).differs_at == 3


def test_a_large_map_is_sent_in_few_bytes_and_answers_alike() -> None:
    """Given 100,000 breaks of transactions / when a task gets them / then it knows the same."""
    chance = random.Random(7)
    pairs, target = [], 0
    for number in range(100_000):
        target += chance.randrange(1, 90)
        pairs.append((target, target + number + 1))
    whole = Places.of(pairs)
    sent = pickle.dumps(whole)
    assert len(sent) < 4 * len(pairs)
    got = pickle.loads(sent)  # noqa: S301  # our own
    for place, source in pairs[::997]:
        assert (got.source_at(place), got.place_of(source)) == (source, place)
        assert got.place_of(source - 1) == (whole.place_of(source - 1))
    assert whole.between(0, pairs[-1][1]) is whole
    piece = whole.between(*(pairs[at][1] for at in (500, 900)))
    assert len(pickle.dumps(piece)) < 8_000
    assert piece.place_of(pairs[700][1]) == pairs[700][0]
    assert pickle.loads(pickle.dumps(EXACT)).is_exact  # noqa: S301  # our own
    assert Places.of([]) is EXACT
