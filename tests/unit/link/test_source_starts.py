"""By which looks a move of a source's log start is believed, and what goes of a mirror then."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.link.source_starts import MirrorStanding, Verdict, WatchedStart, what_goes
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap


@pytest.mark.parametrize(
    ("looks", "goal"),
    [
        ([5], None),  # found at the driver's start
        ([5, 5, 5], None),
        ([0, 7], None),  # one look
        ([0, 7, 7], 7),
        ([5, 7, 7], 7),  # what was found at the start goes with it
        ([0, 7, 9], 7),  # the second look is the first one of 9
        ([0, 7, 9, 9], 9),
        ([0, 9, 7], 7),  # never beyond either look
        ([0, 9, 0], None),  # a broker with less of the log answers now: nothing is sure
        ([0, 9, 0, 9], None),
        ([0, 9, 0, 9, 9], 9),
        ([0, 7, 7, 3, 3], 7),  # what went does not come back
    ],
)
def test_a_move_is_believed_by_the_second_look(looks: list[int], goal: int | None) -> None:
    start = WatchedStart(Offset(looks[0]))
    for look in looks[1:]:
        start = start.after(Offset(look))
    assert start.goal == goal


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12))
def test_nothing_younger_than_two_looks_in_a_row_ever_goes(looks: list[int]) -> None:
    start = WatchedStart(Offset(looks[0]))
    for before, look in pairwise(looks):
        was, start = start, start.after(Offset(look))
        if start.goal != was.goal:
            assert start.goal is not None
            assert start.goal <= min(before, look)
            assert was.goal is None or start.goal > was.goal
            assert start.goal > looks[0]


def standing(
    goal: int = 10,
    position: int = 20,
    noted: int = 20,
    *,
    breaks: tuple[Break, ...] = (),
    begins: int = 0,
    others_before: int = 0,
    needs_exact: bool = True,
    unread_from: int | None = None,
) -> MirrorStanding:
    return MirrorStanding(
        Offset(goal),
        Offset(position),
        Offset(noted),
        OffsetMap.of(breaks),
        Offset(begins),
        Offset(others_before),
        needs_exact=needs_exact,
        unread_from=None if unread_from is None else Offset(unread_from),
    )


HOLE = (Break(4, 6),)
"""Source offsets 4 and 5 have no record at the target."""


@pytest.mark.parametrize(
    ("case", "before"),
    [
        (standing(), 10),
        (standing(position=8), 8),  # never beyond the position
        (standing(noted=6), 6),  # nor what is noted
        (standing(noted=-1), None),
        (standing(begins=10), None),  # gone already
        (standing(begins=12), None),  # by the target's own retention
        (standing(breaks=HOLE), None),  # not exact, and nobody has listed it
        (standing(breaks=HOLE, needs_exact=False), 8),
        (standing(5, breaks=HOLE, needs_exact=False), 4),  # in the hole: the next record stays
        (standing(6, breaks=HOLE, needs_exact=False), 4),
        (standing(7, breaks=HOLE, needs_exact=False), 5),
        (standing(20, breaks=HOLE, needs_exact=False), 18),
        (standing(others_before=3), None),
        (standing(others_before=3, needs_exact=False), None),
        (standing(others_before=3, begins=3), 10),  # theirs are gone
        (standing(unread_from=7), 7),
        (standing(unread_from=0), None),
        (standing(unread_from=7, begins=7), None),
        (standing(unread_from=11), 10),
    ],
)
def test_what_goes_of_a_mirror(case: MirrorStanding, before: int | None) -> None:
    assert what_goes(case).before == before


def test_it_is_said_why_something_stays_and_whether_it_stays_for_long() -> None:
    assert "offsets differ" in what_goes(standing(breaks=HOLE)).why_kept
    assert "others" in what_goes(standing(others_before=3)).why_kept
    assert what_goes(standing(unread_from=7)) == Verdict(Offset(7), is_whole=False)
    assert what_goes(standing(unread_from=0)) == Verdict(is_whole=False)
    assert what_goes(standing()) == Verdict(Offset(10))


@given(
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=30),
    goal=st.integers(0, 90),
    position=st.integers(0, 90),
    needs_exact=st.booleans(),
)
def test_nothing_at_or_after_the_goal_or_the_position_goes(
    steps: list[int], goal: int, position: int, *, needs_exact: bool
) -> None:
    """Given a source whose records have these distances / then all before the goal goes, else none.

    By the map record by record: which source offset each target offset has.
    """
    known, sources, source = OffsetMap(), [], 0
    for target, step in enumerate(steps):
        known.add(Break(target, source))
        sources.append(source)
        source += step
    upto = min(goal, position, source)
    case = standing(goal, min(position, source), 99, needs_exact=needs_exact)
    before = what_goes(case._replace(offset_map=known)).before
    gone = sources[: before or 0]
    if needs_exact and not known.is_identity:
        assert gone == []
    else:
        assert gone == [offset for offset in sources if offset < upto]
