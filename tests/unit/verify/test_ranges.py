"""What is compared is fixed before reading; what is not is listed."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.errors import Refused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.slots import Slot
from heliostat.verify.align import Difference
from heliostat.verify.ranges import (
    ComparePlan,
    LeftOut,
    MapClaim,
    NotCompared,
    NotMirrored,
    RangeSpec,
    SideView,
    Stretch,
    TopicPair,
    pack,
    plan,
)
from heliostat.verify.reader import Bounds, TopicView
from heliostat.verify.report import PartitionResult, VerifyReport, joined

PAIR = TopicPair(TopicName("a"), TopicName("b"))
A_0 = TopicPartition(PAIR.source, PartitionId(0))


def view(cluster: str, topic: str, *bounds: tuple[int, int]) -> SideView:
    leaders = dict.fromkeys(range(len(bounds)), 1)
    return SideView(
        cluster,
        {topic: TopicView("id", leaders)},
        {
            TopicPartition(TopicName(topic), PartitionId(n)): Bounds(*one)
            for n, one in enumerate(bounds)
        },
    )


def planned(
    source: tuple[int, int], target: tuple[int, int], spec: RangeSpec | None = None
) -> ComparePlan:
    return plan([PAIR], view("x", "a", source), view("y", "b", target), spec or RangeSpec())


@pytest.mark.parametrize(
    ("source", "target", "spec", "compared", "behind"),
    [
        ((0, 10), (0, 10), RangeSpec(), (0, 10), 0),
        ((0, 10), (0, 7), RangeSpec(), (0, 7), 3),
        ((4, 10), (0, 7), RangeSpec(), (4, 7), 3),
        ((0, 10), (3, 7), RangeSpec(), (3, 7), 3),
        ((8, 10), (0, 7), RangeSpec(), (8, 8), 2),
        ((0, 10), (0, 7), RangeSpec(is_complete=True), (0, 10), 0),
        ((0, 10), (0, 10), RangeSpec(start=2, until=5), (2, 5), 0),
        ((0, 10), (0, 10), RangeSpec(start=20), (20, 20), 0),
        ((0, 10), (0, 10), RangeSpec(starts={A_0: 6}), (6, 10), 0),
        ((0, 10), (0, 10), RangeSpec(start=8, starts={A_0: 6}), (8, 10), 0),
        ((0, 10), (0, 7), RangeSpec(is_complete=True, starts={A_0: 6}), (6, 10), 0),
        ((0, 0), (0, 0), RangeSpec(), (0, 0), 0),
    ],
)
def test_ranges(
    source: tuple[int, int],
    target: tuple[int, int],
    spec: RangeSpec,
    compared: tuple[int, int],
    behind: int,
) -> None:
    found = planned(source, target, spec)
    [stretch] = found.stretches
    assert (stretch.start, stretch.end) == compared
    assert found.behind_records == behind
    assert not stretch.target_has_more


def left_out(
    target: tuple[int, int], breaks: list[tuple[int, int]], spec: RangeSpec | None = None
) -> ComparePlan:
    """Plan a source [0, 100) of which [10, 30) and [50, 60) are left out."""
    gone = [LeftOut(50, 60, "ops has left them out"), LeftOut(10, 30, "ops has left them out")]
    return plan(
        [PAIR],
        view("x", "a", (0, 100)),
        view("y", "b", target),
        spec or RangeSpec(),
        map_view=lambda *_: MapClaim(breaks, 0, gone),
    )


SHIFTS = [(10, 30), (30, 60)]
"""The map of a mirror without holes."""


@pytest.mark.parametrize(
    ("target", "breaks", "compared", "listed", "behind"),
    [
        ((0, 70), SHIFTS, [(0, 10, 10), (30, 50, 30), (60, 100, 70)], [(10, 30), (50, 60)], 0),
        ((0, 25), SHIFTS, [(0, 10, 10), (30, 45, 25)], [(10, 30)], 45),
        ((0, 10), [], [(0, 10, 10)], [], 60),  # it has not gone on behind the first one yet
        ((0, 5), [], [(0, 5, 5)], [], 65),
        ((0, 100), [], [(0, 10, 10), (30, 50, 50), (60, 100, 100)], [(10, 30), (50, 60)], 0),
        ((20, 70), SHIFTS, [(40, 50, 30), (60, 100, 70)], [(50, 60)], 0),
    ],
)
def test_what_a_person_left_out_is_listed_and_the_rest_compared(
    target: tuple[int, int],
    breaks: list[tuple[int, int]],
    compared: list[tuple[int, int, int]],
    listed: list[tuple[int, int]],
    behind: int,
) -> None:
    """Given records that were skipped / then they are listed, not lost; what is between is read

    to its own end, at the target's places of the map, or where its holes are filled.
    """
    found = left_out(target, breaks)
    parts = [(one.start, one.end, one.target_stop) for one in found.stretches]
    assert parts == compared
    assert [one.is_cut for one in found.stretches] == [*[True] * len(listed), False]
    told = [one for one in found.not_compared if one.reason == "ops has left them out"]
    assert [one.records for one in told] == [end - start for start, end in listed]
    assert not any(one.is_problem for one in told)
    assert found.behind_records == behind
    report = VerifyReport([PartitionResult(one) for one in found.stretches], found.not_compared)
    shown = report.to_json()
    assert (shown["partitions"], shown["mapped_partitions"]) == (1, int(bool(breaks)))


def test_a_range_within_what_was_left_out_compares_nothing() -> None:
    [stretch] = left_out((0, 70), SHIFTS, RangeSpec(start=12, until=20)).stretches
    assert (stretch.start, stretch.end) == (20, 20)


@pytest.mark.parametrize("end", [11, 12])
def test_a_target_that_is_ahead_is_marked(end: int) -> None:
    [stretch] = planned((0, 10), (0, end)).stretches
    assert stretch.target_has_more
    [asked] = planned((0, 10), (0, 12), RangeSpec(until=5)).stretches
    assert not asked.target_has_more


def test_partitions_left_out_have_a_reason() -> None:
    nothing = planned((0, 10), (0, 0)).not_compared
    assert [(one.reason, one.records, one.is_problem) for one in nothing] == [
        ("the target has no record of it yet", 10, False)
    ]
    [head] = planned((0, 10), (3, 7)).not_compared
    assert (head.reason, head.records) == ("the target's log starts later", 3)
    [gone] = planned((0, 10), (10, 10)).not_compared
    assert (gone.reason, gone.records) == ("the target's log starts later", 10)
    assert planned((10, 10), (10, 10)).not_compared == []
    blocked = plan(
        [PAIR],
        view("x", "a", (0, 10)),
        view("y", "b", (0, 0)),
        RangeSpec(),
        {TopicPartition(TopicName("a"), PartitionId(0)): NotMirrored("blocked: compacted", True)},
    )
    [stopped] = blocked.not_compared
    assert "blocked: compacted" in stopped.reason
    assert stopped.is_problem  # what is retried is none: it is copied later


def test_unequal_partition_counts_are_problems_only_with_records() -> None:
    source = view("x", "a", (0, 1), (0, 5), (0, 0))
    found = plan([PAIR], source, view("y", "b", (0, 1)), RangeSpec())
    assert [(one.partition, one.is_problem) for one in found.not_compared] == [
        (1, True),
        (2, False),
    ]
    extra = plan([PAIR], view("x", "a", (0, 1)), view("y", "b", (0, 1), (0, 2)), RangeSpec())
    assert [(one.partition, one.is_problem) for one in extra.not_compared] == [(1, True)]


def test_of_a_shared_topic_only_the_links_own_partitions_are_compared() -> None:
    """Given two sources in one topic / then the other's partitions are neither read nor missed."""
    pair = replace(PAIR, slot=Slot(1, 2))
    target = view("y", "b", (0, 50), (0, 7), (0, 60), (0, 8))
    made = plan([pair], view("x", "a", (0, 7), (0, 9), (0, 1)), target, RangeSpec())
    assert [(s.source.partition, s.target.partition, s.end) for s in made.stretches] == [
        (0, 1, 7),
        (1, 3, 8),
    ]
    assert [(n.partition, n.records) for n in made.not_compared] == [(2, 1)]


def test_a_topic_is_never_compared_with_itself() -> None:
    same = TopicPair(TopicName("a"), TopicName("a"))
    with pytest.raises(Refused, match="itself"):
        plan([same], view("x", "a", (0, 1)), view("x", "a", (0, 1)), RangeSpec())
    assert plan([same], view("x", "a", (0, 1)), view("y", "a", (0, 1)), RangeSpec()).stretches


@pytest.mark.parametrize(("start", "until"), [(-1, None), (5, 4), (None, -1)])
def test_an_invalid_range_is_refused(start: int | None, until: int | None) -> None:
    with pytest.raises(Refused):
        RangeSpec(start=start, until=until)


def stretch(index: int, size: int) -> Stretch:
    one = TopicPartition(TopicName("t"), PartitionId(index))
    return Stretch(one, one, 3, 3 + size, 3 + size, 3 + size)


@given(st.lists(st.integers(0, 3_000_000), max_size=30), st.integers(1, 16))
def test_tasks_cover_every_offset_once_and_are_about_as_long(sizes: list[int], tasks: int) -> None:
    shares = pack([stretch(n, size) for n, size in enumerate(sizes)], tasks)
    assert len(shares) <= tasks
    chunks = sorted((c.stretch, c.start, c.end) for share in shares for c in share)
    for index, size in enumerate(sizes):
        own = [c for c in chunks if c[0] == index]
        assert sum(end - start for _, start, end in own) == size
        assert all(a[2] == b[1] for a, b in pairwise(own))
    loads = [sum(c.end - c.start + 500 for c in share) for share in shares]
    if loads:
        largest = max(c.end - c.start + 500 for share in shares for c in share)
        assert max(loads) <= sum(loads) / len(loads) + largest


def test_the_summary_reads_as_promised() -> None:
    results = [PartitionResult(stretch(n, 0), records=209_116 + n) for n in range(2)]
    report = VerifyReport(results, [])
    assert report.summary_line() == (
        "verified: 1 topics, 418,233 records, offsets equal, 0 lost, 0 duplicated, 0 different"
    )
    results[1].findings.add(Difference("reordered", None, 5, 6, "x", "x", 5))
    results[0].findings.add(Difference("foreign", None, None, 9, None, "y", 9))
    problem = NotCompared("a", "b", None, "the target has no such topic", 4, is_problem=True)
    worse = joined([report, VerifyReport([], [problem], behind_records=7)])
    assert not worse.is_clean
    assert worse.summary_line() == (
        "verified: 1 topics, 418,233 records, offsets differ, 0 lost, 0 duplicated, 1 different, "
        "1 reordered, 7 not copied yet, 1 not compared"
    )
    first = worse.first_difference
    assert first is not None
    assert (first["partition"], first["kind"]) == (0, "foreign")
    assert any("not compared: a:" in line for line in worse.lines())
    assert worse.to_json()["source_only"] == ["a"]


@pytest.mark.parametrize("is_problem", [True, False])
@pytest.mark.parametrize(
    ("there", "held"), [(("b", (0, 9)), 7), (("b",), 7), (("other", (0, 9)), 7)]
)
def test_a_topic_that_the_link_does_not_copy_is_named_and_not_compared(
    there: tuple[str, *tuple[tuple[int, int], ...]], held: int, *, is_problem: bool
) -> None:
    name, *bounds = there
    left = {PAIR.source: NotMirrored("refused: made anew", is_problem)}
    source = view("x", "a", (3, 10))
    made = plan([PAIR], source, view("y", name, *bounds), RangeSpec(), not_copied=left)
    assert made.not_compared == [
        NotCompared("a", "b", None, "refused: made anew", held, is_problem=is_problem)
    ]
    assert (made.stretches, made.behind_records) == ([], 0)
    assert VerifyReport([], made.not_compared).is_clean is not is_problem


def test_a_deleted_topic_that_is_not_copied_has_nothing() -> None:
    left = {PAIR.source: NotMirrored("refused", is_problem=True)}
    made = plan([PAIR], view("x", "z"), view("y", "b"), RangeSpec(), not_copied=left)
    assert [one.records for one in made.not_compared] == [0]
