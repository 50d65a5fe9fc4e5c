"""The numbered invariants as predicates: their bounds, each from both sides."""

from __future__ import annotations

import pytest

from heliostat.invariants import (
    GENERATIONS_PER_CLAIM,
    SEQUENCE_MODULUS,
    first_generation,
    gap_is_recorded,
    group_offset_may_be_published,
    is_from_current_owner,
    last_batch_is_ours,
    may_send,
    predecessors_have_ended,
    sequence_of,
)


def test_a_sequence_wraps_to_zero_after_the_largest() -> None:
    last = SEQUENCE_MODULUS - 1
    assert [sequence_of(offset) for offset in (0, last, last + 1)] == [0, last, 0]
    assert last_batch_is_ours((7, last), 7, SEQUENCE_MODULUS)
    assert not last_batch_is_ours((7, 0), 7, SEQUENCE_MODULUS)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ([], False),
        ([(10, 19)], True),
        ([(5, None)], True),
        ([(15, 19), (10, 14)], True),
        ([(10, 13), (14, 30)], True),
        ([(10, 18)], False),
        ([(11, 19)], False),
        ([(10, 13), (15, 19)], False),
        ([(10, 13), (15, None)], False),
        ([(0, 9), (20, None)], False),
    ],
)
def test_skipped_offsets_must_lie_in_contiguous_gaps(
    recorded: list[tuple[int, int | None]], *, expected: bool
) -> None:
    """Given offsets 10 to 19 skipped / when the ledger has these rows / then I6 holds, or not."""
    assert gap_is_recorded(10, 20, recorded) is expected


def test_nothing_is_sent_at_the_deadline_itself() -> None:
    assert may_send(9.999, 10.0)
    assert not may_send(10.0, 10.0)


@pytest.mark.parametrize(
    ("offset", "has_members", "expected"),
    [(99, False, True), (100, False, True), (101, False, False), (99, True, False)],
)
def test_a_group_is_published_up_to_the_end_and_with_nobody_in_it(
    offset: int, *, has_members: bool, expected: bool
) -> None:
    assert group_offset_may_be_published(offset, 100, has_members=has_members) is expected


def test_lanes_accept_only_their_own_owner_and_later_ones() -> None:
    """Given generations of three owners / then each one's are above all of those before."""
    for claim in (1, 2, 3):
        first, last = first_generation(claim), first_generation(claim) + GENERATIONS_PER_CLAIM - 1
        for generation in (first, last):
            assert is_from_current_owner(claim, generation)
            assert is_from_current_owner(claim + 1, generation)
            assert not is_from_current_owner(claim - 1, generation)
        assert first_generation(claim + 1) > last


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (None, False),
        (frozenset(), False),
        (frozenset({"1/8/0"}), False),
        (frozenset({"0/9/1"}), True),
        (frozenset({"0/9/1", "1/8/0"}), True),
        (frozenset({"0/9/1", "0/5/0"}), False),
        (frozenset({"0/5/0"}), False),
    ],
)
def test_predecessors_have_ended_by_an_announcement_that_knows_this_round(
    running: frozenset[str] | None, *, expected: bool
) -> None:
    """Given what is announced as running / then only one that names this round itself counts."""
    assert predecessors_have_ended("0/9/1", ("0/5/0", "0/6/0"), running) is expected
