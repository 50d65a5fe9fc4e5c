"""Aligning lists of records: each kind of damage is planted and must be named."""

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.verify import align
from heliostat.verify.align import Content, Findings, explain, placed
from heliostat.verify.matching import match
from heliostat.verify.stream import ConsumedRecord

COUNT = 3_000  # several windows
PLACES = [0, 1, 200, 255, 256, 257, 1_500, COUNT - 2, COUNT - 1]


def rows(count: int = COUNT, seed: int = 1) -> list[ConsumedRecord]:
    chance = random.Random(seed)
    return [
        (
            n,
            1_700_000_000_000 + n // 3,
            b"key-%d" % chance.randrange(50),
            chance.randbytes(chance.choice([8, 20, 200])),
            [("trace", chance.randbytes(4)), ("trace", None)],
        )
        for n in range(count)
    ]


def renumbered(contents: Iterable[ConsumedRecord]) -> list[ConsumedRecord]:
    return [(n, *row[1:]) for n, row in enumerate(contents)]


def check(
    source: list[ConsumedRecord], target: list[ConsumedRecord], end: int | None = None
) -> Findings:
    known = {}
    for row in source:
        offset, content = placed(row)
        known.setdefault(content, offset)

    def find(wanted: set[Content]) -> dict[Content, int]:
        return {content: known[content] for content in wanted if content in known}

    return explain(source, target, len(source) if end is None else end, find)


def counts(found: Findings) -> dict[str, int]:
    names = ("lost", "doubled", "reordered", "different")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def test_equal_sides_have_no_findings() -> None:
    found = check(rows(), rows())
    assert found.is_clean
    assert found.offsets_equal
    assert found.matched == COUNT
    assert found.differences == []


@pytest.mark.parametrize("place", PLACES)
def test_one_lost_record_is_one_lost_record(place: int) -> None:
    source = rows()
    target = renumbered(source[:place] + source[place + 1 :])
    found = check(source, target)
    assert counts(found) == {"lost": 1}
    assert not found.offsets_equal
    first = found.differences[0]
    assert (first.kind, first.source_offset, first.target_offset) == ("lost", place, None)


def test_what_the_source_has_beyond_the_end_is_not_lost() -> None:
    source = rows()
    assert check(source, source[:1_000], end=1_000).is_clean
    assert counts(check(source, source[:1_000], end=1_002)) == {"lost": 2}


@pytest.mark.parametrize("place", [0, 255, 256, 1_500, COUNT - 1])
@pytest.mark.parametrize("distance", [1, 2, 700, COUNT])
def test_one_duplicated_record_near_and_far(place: int, distance: int) -> None:
    source = rows()
    again = min(place + distance, COUNT)
    target = renumbered([*source[:again], source[place], *source[again:]])
    found = check(source, target)
    assert counts(found) == {"doubled": 1}
    assert not found.offsets_equal
    first = found.differences[0]
    assert (first.kind, first.source_offset, first.target_offset) == ("doubled", place, again)


def test_a_batch_that_was_appended_twice_counts_each_record() -> None:
    source = rows()
    target = renumbered(source[:1_800] + source[1_000:1_800] + source[1_800:])
    found = check(source, target)
    assert counts(found) == {"doubled": 800}
    assert found.differences[0].target_offset == 1_800


@pytest.mark.parametrize("place", [0, 254, 255, 256, 1_500, COUNT - 2])
def test_two_swapped_neighbours_are_one_record_out_of_order(place: int) -> None:
    source = rows()
    target = list(source)
    target[place], target[place + 1] = target[place + 1], target[place]
    found = check(source, renumbered(target))
    assert counts(found) == {"reordered": 1}
    assert not found.offsets_equal
    first = found.differences[0]
    assert first.kind == "reordered"
    assert min(first.source_offset or 0, first.target_offset or 0) == place


def test_two_records_swapped_over_a_distance_are_two_out_of_order() -> None:
    source = rows()
    target = list(source)
    target[40], target[2_700] = target[2_700], target[40]
    found = check(source, renumbered(target))
    assert counts(found) == {"reordered": 2}
    assert found.differences[0].place[0] == 40


def test_a_rotated_range_is_reordered_not_lost() -> None:
    source = rows()
    target = renumbered(source[:500] + source[520:600] + source[500:520] + source[600:])
    assert counts(check(source, target)) == {"reordered": 20}


ALTERED = {
    "key": lambda row: (*row[:2], row[2] + b"!", *row[3:]),
    "value": lambda row: (*row[:3], bytes([row[3][0] ^ 1]) + row[3][1:], row[4]),
    "header": lambda row: (*row[:4], [("trace", b"other"), row[4][1]]),
    "timestamp": lambda row: (row[0], row[1] + 1, *row[2:]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("field", list(ALTERED))
def test_one_altered_field_is_named(place: int, field: str) -> None:
    source = rows()
    target = list(source)
    target[place] = ALTERED[field](source[place])
    found = check(source, target)
    assert counts(found) == {"different": 1}
    assert found.offsets_equal
    first = found.differences[0]
    assert (first.kind, first.field) == ("different", field)
    assert (first.source_offset, first.target_offset) == (place, place)
    assert first.source != first.target


@pytest.mark.parametrize(
    ("change", "field", "shown"),
    [
        (lambda r: (*r[:4], [r[4][1], r[4][0]]), "header", "null"),
        (lambda r: (*r[:4], r[4][:1]), "header", "trace"),
        (lambda r: (*r[:4], [r[4][0], ("trace", b"")]), "header", "null"),
        (lambda r: (*r[:4], [("TRACE", r[4][0][1]), r[4][1]]), "header", "trace"),
        (lambda r: (*r[:3], None, r[4]), "value", "b'"),
        (lambda r: (*r[:2], b"", *r[3:]), "key", "b'key"),
    ],
    ids=["order", "one dropped", "null to empty", "name", "value to null", "key to empty"],
)
def test_header_order_and_null_against_empty_are_seen(change, field: str, shown: str) -> None:
    source = rows()
    target = list(source)
    target[77] = change(source[77])
    found = check(source, target)
    assert counts(found) == {"different": 1}
    assert found.differences[0].field == field
    assert shown in (found.differences[0].source or "")


def test_empty_for_null_is_detected_too() -> None:
    source = rows()
    source[9] = (*source[9][:3], None, source[9][4])
    target = list(source)
    target[9] = (*source[9][:3], b"", source[9][4])
    first = check(source, target).differences[0]
    assert (first.field, first.source, first.target) == ("value", "null", "b''")


def test_a_record_that_the_source_never_had_counts_as_different() -> None:
    source = rows()
    foreign: ConsumedRecord = (0, 5, b"who", b"wrote this", [])
    found = check(source, renumbered([*source[:900], foreign, *source[900:]]))
    assert counts(found) == {"different": 1}
    assert found.differences[0].kind == "foreign"
    assert found.differences[0].target_offset == 900


def test_all_timestamps_wrong_is_a_difference_of_every_record() -> None:
    source = rows()
    target = [(row[0], row[1] + 7_000_000, *row[2:]) for row in source]
    found = check(source, target)
    assert counts(found) == {"different": COUNT}
    assert found.offsets_equal
    assert len(found.differences) == align.DIFFERENCES_KEPT_MAX
    assert found.differences[0].source_offset == 0


def test_a_record_at_another_offset_is_named_when_nothing_else_is_wrong() -> None:
    source = rows(10)
    target = [*source[:4], *((row[0] + 1, *row[1:]) for row in source[4:])]
    found = check(source, target)
    assert counts(found) == {}
    assert not found.offsets_equal
    first = found.differences[0]
    assert (first.kind, first.source_offset, first.target_offset) == ("moved", 4, 5)


def test_an_empty_target_has_lost_all_below_the_end() -> None:
    assert counts(check(rows(), [])) == {"lost": COUNT}


def test_many_faults_at_once_are_counted_apart() -> None:
    source = rows()
    target = list(source)
    target[2_500] = ALTERED["value"](source[2_500])
    target.insert(2_000, source[10])
    target[1_200], target[1_201] = target[1_201], target[1_200]
    del target[600:603]
    found = check(source, renumbered(target))
    assert counts(found) == {"lost": 3, "doubled": 1, "reordered": 1, "different": 1}
    assert found.differences[0].source_offset == 600


def test_beyond_the_leftovers_limit_only_the_offset_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(align, "LEFTOVERS_MAX", 10)
    source = rows()
    target = [(row[0], row[1] + 7_000_000, *row[2:]) for row in source]
    assert counts(check(source, target)) == {"different": COUNT}


Edit = tuple[str, int, int]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["lost", "doubled", "different"]),
        st.integers(0, 399),
        st.integers(0, 399),
    ),
    max_size=12,
    unique_by=lambda edit: edit[1],
)


@examples(150)
@given(EDITS)
def test_random_edits_are_counted_exactly(edits: list[Edit]) -> None:
    """Unique contents: each edit must be found as what it is."""
    source = rows(400)
    target: list[ConsumedRecord] = list(source)
    inserted: list[tuple[int, ConsumedRecord]] = []
    planned = {place: kind for kind, place, _ in edits}
    for kind, place, other in edits:
        # A copy of a record that is lost or altered itself would be that record, moved.
        if kind == "doubled" and planned.get(other, "doubled") == "doubled":
            inserted.append((place, source[other]))
    lost = {place for kind, place, _ in edits if kind == "lost"}
    changed = {place for kind, place, _ in edits if kind == "different"}
    after: dict[int, list[ConsumedRecord]] = {}
    for place, row in inserted:
        after.setdefault(place, []).append(row)
    target = []
    for n, row in enumerate(source):
        if n in changed:
            target.append(ALTERED["timestamp"]((*row[:2], b"changed-%d" % n, *row[3:])))
        elif n not in lost:
            target.append(row)
        target.extend(after.get(n, []))
    found = check(source, renumbered(target))
    expected = {"lost": len(lost), "doubled": len(inserted), "different": len(changed)}
    assert found.lost == expected["lost"]
    assert found.doubled == expected["doubled"]
    assert found.different == expected["different"]
    assert found.reordered == 0


LETTERS = st.lists(st.integers(0, 3), max_size=60)


@examples(300)
@given(LETTERS, LETTERS)
def test_repeating_contents_never_hide_a_difference(one: list[int], two: list[int]) -> None:
    def as_rows(letters: list[int]) -> list[ConsumedRecord]:
        return [(n, 7, None, b"%d" % letter, []) for n, letter in enumerate(letters)]

    found = check(as_rows(one), as_rows(two))
    assert found.is_clean == (one == two)
    gone = found.lost + found.different
    assert found.matched + found.reordered + gone - found.foreign == len(one)
    assert found.matched + found.reordered + found.doubled + found.different == len(two)


@examples(300)
@given(LETTERS, LETTERS)
def test_matches_increase_on_both_sides_and_are_equal(one: list[int], two: list[int]) -> None:
    left: list[Content] = [(letter, None, None, ()) for letter in one]
    right: list[Content] = [(letter, None, None, ()) for letter in two]
    pairs = match(left, right)
    assert all(left[i] == right[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))


def test_long_repeating_ranges_stay_fast() -> None:
    letters = [random.Random(3).randrange(3) for _ in range(4_000)]
    left: list[Content] = [(letter, None, None, ()) for letter in letters]
    right = [*left[:100], (9, None, None, ()), *left[150:]]
    pairs = match(left, right)
    assert len(pairs) >= 3_900
