"""What proves that a mirror is a copy of its source, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from heliostat.gaps.ledger import CopyNote
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break
from heliostat.rebuild.proof import Kind, MirrorStanding, NotProved, Proof, prove
from heliostat.verify.compaction import Cleaning, CleaningRule
from heliostat.verify.places import Places
from heliostat.verify.reader import Bounds
from heliostat.verify.stream_values import ConsumedRecord

Log = dict[int, str]
KEEPS = CleaningRule(Cleaning(), Cleaning(), 0)
NOW_MS = 10**12
COMPACTS = CleaningRule(Cleaning(compacts=True), Cleaning(compacts=True), NOW_MS)


def letters(text: str, start: int = 0, step: int = 1) -> Log:
    return {start + step * number: each for number, each in enumerate(text)}


class Both:
    """Two logs; a record's key is the lower case of its first letter, `-` a null value."""

    def __init__(self, source: Log, target: Log) -> None:
        self.logs = {"source": source, "target": target}

    def _rows(self, side: str, start: int, stop: int) -> Iterator[ConsumedRecord]:
        for offset, value in self.logs[side].items():
            if start <= offset < stop:
                data = None if value.endswith("-") else value.encode()
                yield offset, 5, value[:1].lower().encode(), data, []

    def source(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        return self._rows("source", start, stop)

    def target(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        return self._rows("target", start, stop)


def bounds(log: Log, given: tuple[int, int] | None) -> Bounds:
    return Bounds(*given) if given else Bounds(min(log), max(log) + 1)


def proved(
    source: Log,
    target: Log,
    *,
    at_source: tuple[int, int] | None = None,
    at_target: tuple[int, int] | None = None,
    rule: CleaningRule = KEEPS,
    **known: Any,
) -> Proof:
    standing = MirrorStanding(bounds(source, at_source), bounds(target, at_target), rule, **known)
    return prove(Both(source, target), standing)


def refused(source: Log, target: Log, **more: Any) -> tuple[str, int | None]:
    with pytest.raises(NotProved) as caught:
        proved(source, target, **more)
    return str(caught.value), caught.value.at


def test_equal_offsets_are_an_exact_mirror_that_continues_at_its_end() -> None:
    assert proved(letters("abcdef"), letters("abcd")) == Proof(Kind.EXACT, Offset(0), Offset(4), 4)


@pytest.mark.parametrize(
    ("source", "target", "start", "compared"),
    [
        (letters("cdef", 2), letters("abcd"), 0, 2),  # the source has deleted more
        (letters("abcdef"), letters("cd", 2), 2, 2),  # the mirror has
        (letters("cdef", 7), letters("cde", 7), 7, 3),  # its start was aligned
    ],
)
def test_log_starts_may_differ(source: Log, target: Log, start: int, compared: int) -> None:
    end = max(target) + 1
    assert proved(source, target) == Proof(Kind.EXACT, Offset(start), Offset(end), compared)


@pytest.mark.parametrize(
    ("target", "at", "word"),
    [
        ("abX", 2, "another key than source offset 2"),
        ("aXc", 1, "another key than source offset 1"),
        ("abcdefX", 6, "not at the source, which ends at 6"),
        ("XabcdeX", 0, "another key"),
    ],
)
def test_a_foreign_record_is_named(target: str, at: int, word: str) -> None:
    text, first = refused(letters("abcdef"), letters(target))
    assert (word in text, first) == (True, at), text


def test_a_different_value_of_a_key_is_named() -> None:
    text, at = refused({0: "a1", 1: "a2"}, {0: "a1", 1: "a3"})
    assert "target offset 1 has another value than source offset 1" in text
    assert at == 1


def test_a_record_that_the_mirror_lacks_is_not_skipped() -> None:
    """Also where the rest matches: continuing after it would lose it silently (I6)."""
    text, at = refused(letters("abcdef"), {0: "a", 1: "b", 3: "d"})
    assert "source offset 2 is missing, target offset 2" in text
    assert at == 2
    text, _ = refused(letters("abcdef"), letters("abd"))
    assert "source offset 2 is missing" in text  # by the only map that both allow


def test_records_of_a_recorded_gap_may_be_missing() -> None:
    found = proved(letters("abcdef"), letters("abd"), recorded=((2, 3),))
    assert (found.kind, found.position, found.breaks) == (Kind.MAPPED, 4, (Break(2, 3),))


def test_a_mapped_mirror_continues_by_its_rows() -> None:
    source = {0: "a", 2: "b", 3: "c", 9: "d", 10: "e"}
    places = Places.of([(1, 2), (3, 9)])
    found = proved(source, letters("abcd"), places=places)
    assert found == Proof(Kind.MAPPED, Offset(0), Offset(10), 4, None)


def test_a_mapped_mirror_without_rows_is_never_taken_for_an_exact_one() -> None:
    source = {0: "a", 2: "b", 3: "c", 9: "d", 10: "e"}
    found = proved(source, letters("abcd"))
    assert found == Proof(Kind.MAPPED, Offset(0), Offset(10), 4, (Break(1, 2), Break(3, 9)))


def test_rows_that_contents_contradict_are_rebuilt() -> None:
    source = {0: "a", 2: "b", 3: "c", 9: "d", 10: "e"}
    found = proved(source, letters("abcd"), places=Places.of([(1, 2)]))  # the last was lost
    assert found.breaks == (Break(1, 2), Break(3, 9))
    again = proved(letters("abc"), letters("ab"), places=Places.of([(1, 2)]))
    assert (again.kind, again.breaks) == (Kind.EXACT, ())


def test_a_filled_mirror_has_equal_offsets_and_its_rows_stay() -> None:
    source = {0: "a", 2: "b", 3: "c"}
    found = proved(source, {0: "a", 2: "b"}, is_filled=True)
    assert found == Proof(Kind.FILLED, Offset(0), Offset(3), 2, None)
    text, at = refused(source, {0: "a", 2: "X"}, is_filled=True)
    assert ("another key" in text, at) == (True, 2)
    # Its end may be after a marker.
    assert proved(source, {0: "a"}, at_target=(0, 2), is_filled=True).position == 2


def test_nothing_left_to_compare_proves_nothing() -> None:
    text, at = refused(letters("ef", 4), letters("ab"))
    assert "no record is left that both sides hold" in text
    assert at is None
    text, _ = refused(letters("abcd"), {}, at_target=(3, 3))
    assert "no record is left" in text
    # Only offsets without records are common.
    text, _ = refused({5: "x"}, {0: "a"}, at_source=(2, 6), at_target=(0, 4))
    assert "no record is left" in text


def test_both_sides_empty_at_one_offset_can_lose_nothing() -> None:
    found = proved({}, {}, at_source=(7, 7), at_target=(7, 7))
    assert found == Proof(Kind.EXACT, Offset(7), Offset(7), 0)
    text, _ = refused({}, {}, at_source=(9, 9), at_target=(7, 7))
    assert "no record is left" in text


@pytest.mark.parametrize(
    ("noted", "is_known"),
    [
        (CopyNote(Offset(4), 0, 3), True),
        (CopyNote(Offset(4), 0, 2), False),
        (CopyNote(Offset(2), 0, 3), False),
    ],
)
def test_the_ledgers_note_vouches_for_expired_records(noted: CopyNote, *, is_known: bool) -> None:
    """Only of this very end, and not of an earlier one."""
    log, at_target = letters("abcdef"), (3, 3)
    if is_known:
        assert proved(log, {}, at_target=at_target, noted=noted).position == 3
    else:
        assert "no record is left" in refused(log, {}, at_target=at_target, noted=noted)[0]


def test_a_mirror_ahead_of_its_source_is_refused() -> None:
    text, at = refused(letters("abc"), letters("abcd"))
    assert "target offset 3 and what follows is not at the source, which ends at 3" in text
    assert at == 3
    text, at = refused({}, letters("abcd"), at_source=(2, 2))
    assert "not at the source" in text


def test_an_ambiguous_end_is_refused() -> None:
    """Retention deleted the beginning: three equal records could be any three of them."""
    text, _ = refused(letters("xxxxx", 4), letters("xxx", 4))
    assert "is equal to others after source offset 6: it could be one of them" in text
    # Where the source has all records from the first on, none could have been left out.
    assert proved(letters("xxxxx"), letters("xxx")).position == 3
    # What is unlike at its end is clear, whatever repeats before it.
    assert proved(letters("xxxyz", 4), letters("xxxy", 4)).position == 8


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({2: "b1", 3: "a2", 4: "c1"}, {0: "a1", 2: "b1", 3: "a2"}),  # cleaned at the source
        ({0: "a1", 2: "b1", 3: "a2", 4: "c1"}, {2: "b1", 3: "a2"}),  # at the mirror
        ({1: "a1", 4: "b1", 5: "b2"}, {0: "b-", 1: "a1", 4: "b1"}),  # a tombstone that went
    ],
)
def test_records_that_cleaners_removed_are_explained(source: Log, target: Log) -> None:
    found = proved(source, target, at_source=(0, 6), rule=COMPACTS)
    assert (found.kind, found.position) == (Kind.EXACT, max(target) + 1)


def test_records_that_no_cleaner_explains_are_named_in_a_compacted_mirror() -> None:
    text, at = refused(
        {1: "b1", 2: "c1"}, {0: "X1", 1: "b1", 2: "c1"}, at_source=(0, 4), rule=COMPACTS
    )
    assert ("target offset 0 is no record of the source's" in text, at) == (True, 0)


def test_a_compacted_mirrors_last_record_must_be_at_the_source() -> None:
    """A foreign one would be explained by any later one of its key."""
    source = {0: "a1", 1: "b1", 5: "c2"}
    text, at = refused(source, {0: "a1", 1: "b1", 2: "c9"}, rule=COMPACTS)
    assert "cleaned away the mirror's last record, target offset 2" in text
    assert at == 2


def test_a_compacted_mapped_mirror_is_aligned_with_its_source() -> None:
    source = {0: "a1", 3: "b1", 4: "c1", 5: "d1"}
    found = proved(source, {0: "a1", 1: "b1", 2: "c1"}, rule=COMPACTS)
    assert (found.kind, found.position, found.breaks) == (Kind.MAPPED, 5, (Break(1, 3),))
