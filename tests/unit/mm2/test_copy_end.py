"""Where a copy by any tool ends in its source, by contents alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.clusters.plain_records import PlainRecord
from heliostat.mm2.copy_end import NotOfTheSource, Stretch, find_end_of_copy
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.offsets.offset_map import Break

ORIGIN = ("__replicator_id", b"\x01\x02")


def stretch(
    contents: Sequence[int | str],
    start: int = 0,
    *,
    whole: bool = True,
    offsets: Sequence[int] | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> Stretch:
    places = range(start, start + len(contents)) if offsets is None else offsets
    found = Stretch(start, max([start, *(each + 1 for each in places)]), reaches_start=whole)
    rows = [
        PlainRecord(at, 5, b"k", str(content).encode(), headers)
        for at, content in zip(places, contents, strict=True)
    ]
    found.extend(rows, with_timestamps=True)
    return found


def resume_point(found: ResumePoint | NoResumePoint) -> ResumePoint:
    assert isinstance(found, ResumePoint), found
    return found


def reason(found: ResumePoint | NoResumePoint) -> str:
    assert isinstance(found, NoResumePoint), found
    return found.reason


def test_equal_offsets_go_on_where_the_copy_ends() -> None:
    found = resume_point(find_end_of_copy(stretch(range(50)), stretch(range(20))))
    assert (found.source, found.target, found.compared, found.doubled) == (20, 20, 20, 0)
    assert found.is_exact


def test_records_doubled_at_the_end_are_passed_over() -> None:
    landed = [*range(20), *range(12, 17)]
    found = resume_point(find_end_of_copy(stretch(range(50)), stretch(landed)))
    assert (found.source, found.target, found.compared, found.doubled) == (20, 25, 25, 5)
    assert list(found.map.breaks()) == [Break(25, 20)]


def test_a_copy_that_began_in_the_middle_is_mapped_from_its_first_record() -> None:
    found = resume_point(find_end_of_copy(stretch(range(50)), stretch(range(30, 40))))
    assert (found.source, found.target) == (40, 10)
    assert found.map.source_of(0) == 30
    assert found.map.target_of(5) == 0  # a group before the copy's beginning reads all of it


def test_what_replicator_notes_of_the_origin_does_not_count() -> None:
    copied = stretch(range(7), headers=(ORIGIN,))
    assert resume_point(find_end_of_copy(stretch(range(9)), copied)).source == 7
    other = stretch(range(7), headers=(("origin", b"1"),))
    assert isinstance(find_end_of_copy(stretch(range(9)), other), NotOfTheSource)


def test_records_that_the_source_has_deleted_come_before_its_first_one() -> None:
    source = stretch(range(10, 30), start=10)
    found = resume_point(find_end_of_copy(source, stretch(range(25))))
    assert (found.source, found.compared) == (25, 15)
    # A later run began again at what is gone now.
    found = resume_point(find_end_of_copy(source, stretch([*range(25), *range(8, 14)])))
    assert (found.source, found.target, found.doubled) == (25, 31, 6)


@pytest.mark.parametrize(
    ("landed", "text"),
    [
        ([*range(20), 77], "the target's last record, offset 20, is not at the source"),
        ([77, *range(20)], "target offset 0 is not at the source"),
        ([*range(10), 77, *range(10, 20)], "target offset 10 is not at the source"),
        ([*range(10), *range(11, 20)], "source offset 10 is not at the target before target offse"),
        ([0, 2, 1, 3], "source offset 1 is not at the target before target offset 1"),
        ([], "no record is left at the target"),
    ],
)
def test_what_is_no_copy_in_order_is_refused(landed: list[int], text: str) -> None:
    assert text in reason(find_end_of_copy(stretch(range(30)), stretch(landed)))


def test_records_before_a_deleted_one_at_the_source_are_not_taken_for_deleted_ones() -> None:
    source = stretch(range(10, 30), start=10)
    assert "target offset 0 is not at the source" in reason(
        find_end_of_copy(source, stretch([*range(9), 77, *range(11, 25)]))
    )


@pytest.mark.parametrize(
    ("source", "landed", "text"),
    [
        ("AAAA", "AA", "occur more than once"),
        ("xAAB", "xAA", "equal to others"),  # the second A may be the first one again
        ("xAyAz", "xAyA", "equal to others"),  # the last A may be a copy of the first
        ("xyxyxy", "xyxy", "occur more than once"),
    ],
)
def test_equal_records_that_allow_two_ends_are_refused(source: str, landed: str, text: str) -> None:
    assert text in reason(find_end_of_copy(stretch(source), stretch(landed)))


def test_equal_records_that_allow_one_end_are_no_obstacle() -> None:
    found = resume_point(find_end_of_copy(stretch("xAAyAz"), stretch("xAAy")))
    assert found.source == 4
    found = resume_point(find_end_of_copy(stretch("xAyAz"), stretch("xA")))
    assert found.source == 2


def copied(rng: random.Random, count: int) -> tuple[list[int], int]:
    """What a tool with restarts leaves: indexes of source records, and one past the highest."""
    landed: list[int] = []
    begin = rng.choice([0, 0, rng.randrange(count)])
    reached = begin
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(max(begin, reached - 8), reached + 1)
        stop = min(count, at + rng.randrange(0, 14))
        landed += range(at, stop)
        reached = max(reached, stop)
    return landed, reached


@examples(150)
@given(st.integers(0, 2**32))
def test_after_any_runs_the_answer_is_true_or_there_is_none(seed: int) -> None:
    """Given any restarts, holes, equal records and retention / then no record is skipped."""
    rng = random.Random(seed)
    count = rng.randrange(1, 60)
    alphabet = rng.choice([3, 10, 10**9, 10**9])
    contents = [rng.randrange(alphabet) for _ in range(count)]
    holes = {n for n in range(2 * count) if rng.random() < rng.choice([0.0, 0.3])}
    places = [n for n in range(2 * count) if n not in holes][:count] or [0]
    contents = contents[: len(places)]
    landed, reached = copied(rng, len(places))
    unique = len(set(contents)) == len(contents)
    gone = rng.choice([0, rng.randrange(len(places))]) if unique else 0
    source = stretch(contents[gone:], start=places[gone], offsets=places[gone:])
    found = find_end_of_copy(source, stretch([contents[n] for n in landed]))
    if isinstance(found, NoResumePoint):
        assert not (unique and landed and landed[-1] >= gone == 0), found.reason
        return
    following = [at for at in places if at >= found.source]
    assert following == places[reached:]
    assert found.map.source_of(found.target) == found.source
    for number in sorted({n for n in landed if n >= gone}):
        group = found.map.target_of(places[number])
        unread = Counter(contents[n] for n in range(number, reached))
        assert unread <= Counter(contents[n] for n in landed[group:]), (number, group)
