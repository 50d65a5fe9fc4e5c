"""Which mirrors can become merged topics as they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.invariants import SEQUENCE_MODULUS, sequence_of
from heliostat.merge.in_place import MirrorStand, NotInPlaceError, first_note
from heliostat.merge.own_end import Evidence, OwnNote, own_end
from heliostat.names import Offset

OWN, OTHER = 7, 8
STAND = MirrorStand(Offset(20), Offset(30), Offset(100), 3, (OWN, 99))


def test_the_offset_is_the_number_of_the_links_own_record() -> None:
    assert first_note(STAND, OWN) == OwnNote(100, Offset(100), 3)


def test_the_leaders_memory_goes_on_behind_the_wrap_of_sequences() -> None:
    """Given a mirror longer than 2^31 / when the link appends two more / then it is known so."""
    end = Offset(3 * SEQUENCE_MODULUS + 5)
    stand = replace(STAND, end=end, last=(OWN, sequence_of(end - 1)))
    note = first_note(stand, OWN)
    assert own_end(Evidence(note, sequence_of(end + 1), [], end + 2), {OWN}).number == end + 2


def test_an_emptied_log_is_known_by_the_leaders_memory() -> None:
    stand = replace(STAND, log_start=Offset(100))
    assert first_note(stand, OWN).number == 100


def test_one_that_has_nothing_yet_begins_where_its_source_does() -> None:
    stand = replace(STAND, log_start=Offset(20), end=Offset(20), last=None)
    assert first_note(stand, OWN).number == 20


@pytest.mark.parametrize(
    ("stand", "why"),
    [
        (replace(STAND, last=(OTHER, 99)), "not this link's last one"),
        (replace(STAND, last=(OWN, 98)), "not this link's last one"),
        (replace(STAND, last=None), "don't know who wrote"),
        (replace(STAND, log_start=Offset(100), last=(OWN, 97)), "not this link's last one"),
        (replace(STAND, log_start=Offset(0)), "does not begin at 20 yet"),
        (replace(STAND, end=Offset(19)), "does not begin at 20 yet"),
        (replace(STAND, is_filled=True), "filled with markers"),
        (replace(STAND, is_adopted=True), "another tool"),
        (replace(STAND, is_mapped_whole=False), "offset map"),
        (replace(STAND, stopped="GAP"), "it is stopped: GAP"),
    ],
)
def test_others_stay_mirrors(stand: MirrorStand, why: str) -> None:
    with pytest.raises(NotInPlaceError, match=why):
        first_note(stand, OWN)
