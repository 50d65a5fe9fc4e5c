"""How many records a link has appended, by every kind of evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.invariants import SEQUENCE_MODULUS
from heliostat.merge.own_end import (
    BatchPlace,
    Evidence,
    OwnNote,
    cut_back,
    is_whole,
    numbered,
    own_end,
    own_end_after_cut,
)
from heliostat.names import Offset

OWN, OTHER = 7, 8
NOTE = OwnNote(10, Offset(100))


def own(number: int, offset: int, records: int = 1) -> BatchPlace:
    return BatchPlace(OWN, number % SEQUENCE_MODULUS, offset, offset + records)


def other(offset: int, records: int = 1) -> BatchPlace:
    return BatchPlace(OTHER, 0, offset, offset + records)


def number(
    log: list[BatchPlace],
    end: int,
    *,
    note: OwnNote = NOTE,
    remembered: int | None = None,
) -> int | None:
    return own_end(Evidence(note, remembered, log, end), {OWN}).number


@given(st.integers(0, 2**40), st.integers(-(2**20), 2**20))
def test_a_sequence_is_the_nearest_number(near: int, distance: int) -> None:
    """Given numbers on either side of the wrap / then each is found again."""
    wanted = max(0, near + distance)
    assert numbered(wanted % SEQUENCE_MODULUS, near) == wanted


def test_the_leaders_memory_tells_it() -> None:
    assert number([], 100, remembered=14) == 15


def test_the_log_behind_the_note_tells_it() -> None:
    assert number([other(100), own(10, 101, 3), other(104, 2)], 106) == 13


def test_nothing_own_behind_the_note_leaves_its_number() -> None:
    assert number([other(100, 6)], 106) == 10


def test_a_log_that_lacks_a_part_says_what_its_last_own_batch_says() -> None:
    assert number([other(105), own(20, 106), other(107)], 108) == 21


def test_a_log_that_lacks_a_part_and_has_nothing_own_leaves_it_unknown() -> None:
    assert number([other(105, 3)], 108) is None


def test_a_hole_behind_the_last_own_batch_leaves_it_unknown() -> None:
    """Given a cleaner that may have taken the link's last batches / then nobody knows."""
    assert number([other(100), own(10, 101), other(103)], 104) is None
    assert number([other(100), own(10, 101), other(102)], 104) is None


def test_a_hole_before_the_last_own_batch_hides_nothing() -> None:
    assert number([other(100), own(12, 103), other(104)], 105) == 13


@pytest.mark.parametrize(
    ("log", "start", "wanted"),
    [
        ([other(40, 20)], 40, 0),
        ([other(60, 10)], 60, None),
        ([other(40, 12), other(55, 5)], 40, None),
    ],
)
def test_a_link_that_had_none_when_its_log_was_cut_has_none_only_if_the_rest_is_whole(
    log: list[BatchPlace], start: int, wanted: int | None
) -> None:
    """Given a note of no record, and a log cut at 50 / then a part that lacks may have had some."""
    known = Evidence(OwnNote(0, Offset(55)), None, log, log[-1].next_offset)
    assert own_end_after_cut(known, start, 50, {OWN}).number == wanted


def test_a_closed_note_needs_no_log() -> None:
    assert number([other(105)], 108, note=NOTE._replace(is_closed=True)) == 10


def test_later_records_without_the_ones_before_stop() -> None:
    """Given a leader that lost own records and took later ones / then it is said which lack."""
    found = own_end(Evidence(NOTE, None, [own(12, 100), other(101)], 102), {OWN})
    assert found.number is None
    assert "number 10" in found.why


def test_a_note_is_cut_back_to_where_its_epoch_ended() -> None:
    assert cut_back(NOTE, 90, 7) == OwnNote(7, Offset(90))
    assert cut_back(NOTE, 100, 7) == NOTE


def test_a_log_is_whole_if_each_offset_is_in_a_batch() -> None:
    assert is_whole([other(98, 4), other(102)], 100, 103)
    assert not is_whole([other(101)], 100, 102)
    assert not is_whole([other(100)], 100, 102)
    assert is_whole([], 100, 100)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=30),
    st.integers(0, 29),
    st.integers(0, 29),
)
def test_whatever_is_noted_and_removed_nothing_wrong_is_told(
    batches: list[tuple[bool, int]], noted: int, removed: int
) -> None:
    """Given a log of two writers, a note from any time, and a start anywhere / then it is right.

    Or it is said that nobody knows, and only where the log lacks what came behind the note.
    """
    log: list[BatchPlace] = []
    offset = count = 0
    note = OwnNote(0, Offset(0))
    for at, (is_own, records) in enumerate(batches):
        if at == noted:
            note = OwnNote(count, Offset(offset))
        log.append(own(count, offset, records) if is_own else other(offset, records))
        count += records * is_own
        offset += records
    left = log[removed:]
    told = number([each for each in left if each.next_offset > note.complete_to], offset, note=note)
    start = left[0].offset if left else offset
    assert told == count or (told is None and start > note.complete_to)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.booleans()), max_size=30),
    st.integers(0, 29),
)
def test_whatever_a_cleaner_has_removed_nothing_wrong_is_told(
    batches: list[tuple[bool, int, bool]], noted: int
) -> None:
    """Given a log without some batches / then its end is told as it was, or nobody knows."""
    log: list[BatchPlace] = []
    offset = count = 0
    note = OwnNote(0, Offset(0))
    for at, (is_own, records, is_kept) in enumerate(batches):
        if at == noted:
            note = OwnNote(count, Offset(offset))
        if is_kept:
            log.append(own(count, offset, records) if is_own else other(offset, records))
        count += records * is_own
        offset += records
    behind = [each for each in log if each.next_offset > note.complete_to]
    told = number(behind, offset, note=note)
    assert told == count or (told is None and not is_whole(behind, note.complete_to, offset))
