"""Where contents show that a source has lost what was copied; and where they show nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from heliostat.merge.shared_records import SURE, PlacedRecord, SharedEnd, shared_end
from heliostat.names import Offset

COPIED = range(0, 100, 2)
"""Source offsets of the source's own records; others are from elsewhere."""


def placed(offsets: Iterable[int], word: str, epoch: int = -1) -> list[PlacedRecord]:
    return [PlacedRecord(offset, (word, offset), epoch) for offset in offsets]


def end_of(
    source: list[PlacedRecord],
    target: list[PlacedRecord],
    same_below: int | None,
    *,
    lowest: int = 0,
    is_compacted: bool = False,
) -> SharedEnd | None:
    def read(start: Offset) -> tuple[list[PlacedRecord], list[PlacedRecord]]:
        ours, theirs = (
            [each for each in side if each.offset >= start] for side in (source, target)
        )
        return ours, theirs

    end = Offset(target[-1].offset + 1 if target else 0)
    below = None if same_below is None else Offset(same_below)
    return shared_end(read, Offset(lowest), below, end, is_compacted=is_compacted)


@pytest.mark.parametrize("cut", [60, 61, 70, 99])
@pytest.mark.parametrize("same_below", [60, 40, 0, None])
def test_the_cut_is_found_wherever_epochs_show_that_all_is_the_same(
    cut: int, same_below: int | None
) -> None:
    """Given records since the last note, of which the source lost some / then the rest counts."""
    source = placed((n for n in COPIED if n < cut), "a", 3) + placed(range(cut, 120), "b", 4)
    last = max(n for n in COPIED if n < cut)
    assert end_of(source, placed(COPIED, "a"), same_below) == SharedEnd(Offset(last + 1), 3)


def test_where_nothing_was_lost_all_is_shared() -> None:
    log = placed(COPIED, "a", 3)
    assert end_of(log, placed(COPIED, "a"), 50) == SharedEnd(Offset(99), 3)
    assert end_of(log, placed(COPIED, "a"), 100) == SharedEnd(Offset(99), 3)  # holes alone
    assert end_of(log[:20], placed(COPIED, "a"), 40) == SharedEnd(Offset(39), 3)  # cut, not grown


def test_all_may_be_lost() -> None:
    """Given a source that has lost all that was copied / then it goes on where epochs say."""
    assert end_of(placed(range(5, 20), "b", 4), placed(range(5, 9), "a"), 5) == SharedEnd(
        Offset(5), -1
    )
    assert end_of(placed(range(20), "b", 4), placed(range(9), "a"), None) == SharedEnd(
        Offset(0), -1
    )


def test_contents_that_differ_where_they_must_be_the_same_prove_nothing() -> None:
    """Given a target that changed the records / then nothing is told: they would be there twice."""
    assert end_of(placed(COPIED, "a", 3), placed(COPIED, "changed"), 50) is None
    assert end_of(placed(COPIED, "a", 3), placed(COPIED[1:], "a"), 50) is None


def test_some_equal_records_are_no_proof_where_epochs_say_nothing() -> None:
    """Given logs whose beginnings are gone / then a few records alike may be an accident."""
    for alike in (SURE - 1, SURE):
        source = placed(COPIED[20 : 20 + alike], "a", 3) + placed(range(90, 120), "b", 4)
        found = end_of(source, placed(COPIED[20:], "a"), None, lowest=40)
        assert (found is None) is (alike < SURE)


def test_what_retention_has_taken_can_not_be_compared() -> None:
    """Given a cut before the first record that is left / then it is not told."""
    assert end_of(placed(range(60, 99), "b", 4), placed(COPIED[30:], "a"), 50, lowest=60) is None


def test_records_that_a_cleaner_took_at_the_source_are_passed() -> None:
    """Given a compacted source / then what it lacks is no cut; else it is one."""
    source = placed(COPIED[::3], "a", 3)
    assert end_of(source, placed(COPIED, "a"), 0, is_compacted=True) == SharedEnd(Offset(97), 3)
    assert end_of(source, placed(COPIED, "a"), 0) == SharedEnd(Offset(1), 3)


def test_the_look_goes_back_as_far_as_needed() -> None:
    """Given few own records among many from elsewhere / then some from before the cut are seen."""
    source = [*placed([3, 9_000], "a", 3), *placed(range(9_500, 9_600), "b", 4)]
    found = end_of(source, placed([3, 9_000, 9_500], "a"), 9_400)
    assert found == SharedEnd(Offset(9_400), -1)
