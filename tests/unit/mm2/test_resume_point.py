"""The resume point: small histories of a MirrorMaker 2, and random ones with its crashes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.clusters.record_digest import digest_of
from heliostat.mm2.resume_point import Mark, NoResumePoint, ResumePoint, Window, find_resume_point
from heliostat.offsets.offset_map import Break


def window(
    contents: Sequence[tuple[int, str]],
    end: int | None = None,
    *,
    start: int = 0,
    whole: bool = True,
) -> Window:
    marks = [Mark(offset, content.encode()) for offset, content in contents]
    last = marks[-1].offset + 1 if marks else start
    return Window(marks, start, last if end is None else end, reaches_start=whole)


def rows(contents: Sequence[str], start: int = 0) -> list[tuple[int, str]]:
    return list(enumerate(contents, start))


def source(count: int, start: int = 0) -> Window:
    return window(rows([f"r{n}" for n in range(start, count)], start), start=start)


def target(*numbers: int, start: int = 0, whole: bool = True) -> Window:
    return window(rows([f"r{n}" for n in numbers], start), start=start, whole=whole)


def resume_point(found: ResumePoint | NoResumePoint) -> ResumePoint:
    assert isinstance(found, ResumePoint), found
    return found


def reason(found: ResumePoint | NoResumePoint) -> str:
    assert isinstance(found, NoResumePoint), found
    return found.reason


def test_records_after_the_committed_position_are_found() -> None:
    found = resume_point(find_resume_point(source(20), target(*range(12)), committed=7))
    assert (found.source, found.target, found.doubled) == (12, 12, 0)
    assert found.is_exact


def test_records_that_repeat_at_the_source_are_no_duplicates() -> None:
    """Given a source with equal records / when all was copied once / then no duplicates."""
    contents = [f"r{n // 3}" for n in range(12)]
    written = window(rows([*contents, "r9", "r9"]))
    found = resume_point(find_resume_point(written, window(rows(contents)), committed=11))
    assert (found.source, found.compared, found.doubled) == (12, 12, 0)
    twice = window(rows([*contents, *contents[9:]]))
    found = resume_point(find_resume_point(window(rows(contents)), twice, committed=8))
    assert (found.compared, found.doubled) == (15, 3)


def test_a_clean_stop_resumes_after_the_committed_position() -> None:
    found = resume_point(find_resume_point(source(20), target(*range(8)), committed=7))
    assert (found.source, found.is_exact) == (8, True)


def test_a_duplicated_run_is_skipped_and_mapped() -> None:
    found = resume_point(
        find_resume_point(source(20), target(*range(10), *range(5, 12)), committed=8)
    )
    assert (found.source, found.target, found.doubled) == (12, 17, 5)
    assert not found.is_exact
    assert [found.map.target_of(n) for n in (0, 9, 10, 11, 12)] == [0, 9, 15, 16, 17]
    assert found.map.source_of(17) == 12


def test_a_later_shorter_run_does_not_hide_earlier_records() -> None:
    # 0..14 landed, 5 was committed; the next run copied 6..9 and was killed.
    found = resume_point(
        find_resume_point(source(20), target(*range(15), *range(6, 10)), committed=5)
    )
    assert (found.source, found.target) == (15, 19)


def test_a_source_that_began_later_is_mapped_by_its_distance() -> None:
    found = resume_point(
        find_resume_point(source(130, start=100), target(*range(100, 120)), committed=110)
    )
    assert (found.source, found.target) == (120, 20)
    assert list(found.map.breaks()) == [Break(0, 100)]
    assert found.map.target_of(105) == 5


def test_holes_of_the_source_are_mapped_and_skipped() -> None:
    kept = [0, 1, 4, 5, 9, 10]
    here = window([(n, f"r{n}") for n in kept], end=12)
    found = resume_point(find_resume_point(here, target(0, 1, 4, 5), committed=4))
    assert (found.source, found.target) == (6, 4)
    assert [found.map.target_of(n) for n in (1, 2, 4, 5, 6)] == [1, 2, 2, 3, 4]


def test_below_the_compared_part_groups_reread_rather_than_skip() -> None:
    here = window(rows([f"r{n}" for n in range(500, 700)], 500), start=500, whole=False)
    there = target(*range(480, 650), start=400, whole=False)
    found = resume_point(find_resume_point(here, there, committed=600))
    assert (found.source, found.target, found.compared) == (650, 570, 150)
    assert found.map.target_of(649) == 569
    assert found.map.target_of(500) == 420
    assert found.map.target_of(499) == 0
    assert found.map.target_of(3) == 0


def test_equal_offsets_below_the_compared_part_are_taken_to_be_equal_throughout() -> None:
    here = window(rows([f"r{n}" for n in range(500, 700)], 500), start=500, whole=False)
    found = resume_point(
        find_resume_point(here, target(*range(400, 650), start=400, whole=False), committed=600)
    )
    assert found.is_exact


def test_a_mirror_without_a_committed_position_is_compared_from_its_beginning() -> None:
    assert resume_point(find_resume_point(source(9), target(0, 1, 2), committed=None)).source == 3
    cut = target(1, 2, start=1, whole=False)
    found = find_resume_point(source(9), cut, committed=None)
    assert isinstance(found, NoResumePoint)


def test_records_gone_at_the_target_require_a_source_without_later_ones() -> None:
    empty = window([], end=8, start=8)
    found = resume_point(find_resume_point(source(8), empty, committed=7))
    assert (found.source, found.target, found.compared) == (8, 8, 0)
    assert "can't be known" in reason(find_resume_point(source(9), empty, committed=7))
    assert "no position" in reason(find_resume_point(source(9), empty, committed=None))
    assert "recreated" in reason(find_resume_point(source(9), window([]), committed=7))


def test_a_foreign_record_at_the_end_is_refused() -> None:
    there = window([*rows(["r0", "r1"]), (2, "foreign")])
    assert "is not at the source" in reason(find_resume_point(source(5), there, committed=1))


def test_a_foreign_record_after_the_committed_one_is_refused() -> None:
    there = window([*rows(["r0", "r1", "r2"]), (3, "foreign"), (4, "r3")])
    assert "comes after" in reason(find_resume_point(source(5), there, committed=2))


def test_a_foreign_record_before_the_committed_one_only_shortens_what_is_compared() -> None:
    there = window([(0, "r0"), (1, "foreign"), (2, "r1"), (3, "r2"), (4, "r3")])
    found = resume_point(find_resume_point(source(9), there, committed=2))
    assert (found.source, found.compared) == (4, 3)


def test_a_record_that_was_skipped_is_refused() -> None:
    there = target(0, 1, 2, 4, 5)
    assert "source offset 3 is not at the target" in reason(
        find_resume_point(source(9), there, committed=1)
    )


def test_a_committed_record_that_is_not_at_the_target_is_refused() -> None:
    assert "though MirrorMaker 2 has" in reason(
        find_resume_point(source(9), target(0, 1), committed=4)
    )


def test_a_source_that_deleted_uncopied_records_is_refused() -> None:
    text = reason(find_resume_point(source(30, start=20), target(*range(10)), committed=7))
    assert "the source has deleted the records between 7" in text


def test_a_source_that_deleted_only_copied_records_resumes() -> None:
    found = resume_point(find_resume_point(source(30, start=20), target(*range(25)), committed=15))
    assert (found.source, found.is_exact) == (25, True)


def test_equal_records_after_a_unique_one_are_counted() -> None:
    here = window(rows(["a", "b", "x", "x", "x", "c"]))
    found = resume_point(find_resume_point(here, window(rows(["a", "b", "x", "x"])), committed=1))
    assert found.source == 4


def test_equal_records_that_leave_two_answers_are_refused() -> None:
    here = window(rows(["x", "a", "x", "b"]))
    # The second x may be source offset 2, or the beginning of a second run.
    assert "equal" in reason(find_resume_point(here, window(rows(["x", "a", "x"])), committed=None))
    everything = window(rows(["x"] * 9))
    assert "equal" in reason(find_resume_point(everything, window(rows(["x"] * 4)), committed=None))


def test_equal_records_followed_by_others_are_no_obstacle() -> None:
    here = window(rows(["x", "a", "x", "b", "x"]))
    found = resume_point(find_resume_point(here, window(rows(["x", "a", "x", "b"])), committed=1))
    assert found.source == 4


def crashed(rng: random.Random, count: int) -> tuple[list[int], int | None, int]:
    """What a MirrorMaker 2 with crashes leaves: numbers at the target, committed, next."""
    landed: list[int] = []
    committed: int | None = None
    highest = -1
    for _ in range(rng.randrange(1, 6)):
        at = 0 if committed is None else committed + 1
        stop = min(count, at + rng.randrange(0, 12))
        for number in range(at, stop):
            landed.append(number)
            if rng.random() < 0.15:
                committed = number
        highest = max(highest, stop - 1)
    return landed, committed, highest + 1


@examples(300)
@given(st.integers(0, 2**32))
def test_after_any_crashes_each_record_is_copied_once_and_groups_skip_none(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 60)
    start = rng.choice([0, 0, 7])
    holes = {n for n in range(count) if rng.random() < rng.choice([0.0, 0.3])}
    offsets = [start + n for n in range(count + len(holes)) if n not in holes]
    landed, committed, expected = crashed(rng, count := len(offsets))
    here = window([(offset, f"r{offset}") for offset in offsets], start=start)
    there = window(rows([f"r{offsets[n]}" for n in landed]))
    found = find_resume_point(here, there, None if committed is None else offsets[committed])
    if not landed:
        assert isinstance(found, NoResumePoint)
        return
    where = resume_point(found)
    following = [offset for offset in offsets if offset >= where.source]
    assert following == offsets[expected:]
    assert where.map.source_of(where.target) == where.source
    for place, number in enumerate(landed):
        first = landed.index(number)
        assert where.map.target_of(offsets[number]) == first, (place, number)


@pytest.mark.parametrize(
    "other",
    [
        (None, b"v", [("h", b"1")], 5),
        (b"", b"v", [("h", b"1")], 5),
        (b"k", None, [("h", b"1")], 5),
        (b"k", b"v", [("h", None)], 5),
        (b"k", b"v", [("h", b"1"), ("h", b"1")], 5),
        (b"k", b"v", [("h", b"1")], 6),
        (b"kv", b"", [("h", b"1")], 5),
        (b"k", b"v", [], 5),
    ],
)
def test_digests_cover_every_part_of_a_record(other) -> None:
    assert digest_of(*other) != digest_of(b"k", b"v", [("h", b"1")], 5)


def test_digests_without_timestamps_are_equal_at_any_time() -> None:
    assert digest_of(b"k", b"v", [], None) == digest_of(b"k", b"v", [], None)
    assert digest_of(b"k", b"v", [], None) != digest_of(b"k", b"v", [], 0)
