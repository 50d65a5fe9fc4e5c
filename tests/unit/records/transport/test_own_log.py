"""What is known of a link's own records in the target's log, by answers and by the log."""

from __future__ import annotations

from heliostat.merge.own_end import BatchPlace, OwnNote
from heliostat.names import Offset
from heliostat.records.batches.batch import HEADER, BatchHeader
from heliostat.records.transport.own_log import LogStretch, OwnLog, OwnPlace

OWN, OTHER = 7, 8


def batch(producer_id: int, offset: int, records: int, sequence: int = 0) -> bytes:
    header = BatchHeader(
        offset, 49, 0, 2, 0, 0, records - 1, 0, 0, producer_id, 0, sequence, records
    )
    return HEADER.pack(*header)


def test_answers_in_their_order_are_noted() -> None:
    own = OwnLog(OwnNote(3, Offset(10), 1))
    own.landed(3, 2, 20)
    assert own.note == OwnNote(3, Offset(10), 1)  # no look has been taken yet
    own.stands_at(3, 4)
    own.landed(3, 2, 20)
    own.landed(9, 1, 40)  # one before it is missing
    assert own.note == OwnNote(5, Offset(22), 4)
    assert own.place_of(4) == OwnPlace(3, 2, Offset(20))
    assert own.place_of(5) is None


def test_a_closed_note_is_open_once_something_may_be_sent() -> None:
    own = OwnLog(OwnNote(3, Offset(10), 1, is_closed=True))
    own.stands_at(3, 1)
    assert own.note == OwnNote(3, Offset(10), 1)


def test_what_an_election_took_has_no_place() -> None:
    own = OwnLog(OwnNote(0, Offset(0)))
    own.stands_at(0, 1)
    own.landed(0, 1, 5)
    own.landed(1, 1, 9)
    own.stands_at(1, 2)
    assert own.place_of(0) == OwnPlace(0, 1, Offset(5))
    assert own.place_of(1) is None


def test_a_quiet_partition_is_noted_up_to_the_logs_end_and_never_back() -> None:
    own = OwnLog(OwnNote(2, Offset(10), 1))
    own.stands_at(2, 1)
    own.stands_alone(Offset(50), 1)
    own.stands_alone(Offset(40), 1)
    assert own.note == OwnNote(2, Offset(50), 1)


def test_others_batches_side_by_side_count_as_one() -> None:
    stretch = LogStretch(Offset(10), 0)
    data = batch(OTHER, 10, 5) + batch(-1, 15, 5) + batch(OWN, 20, 2, 3) + batch(OTHER, 22, 1)
    stretch.take(data, {OWN})
    assert stretch.next == 23
    assert stretch.batches == [
        BatchPlace(-1, 0, 10, 20),
        BatchPlace(OWN, 3, 20, 22),
        BatchPlace(-1, 0, 22, 23),
    ]


def test_a_hole_between_others_stays_one() -> None:
    stretch = LogStretch(Offset(0), 0)
    stretch.take(batch(OTHER, 0, 1) + batch(OTHER, 5, 1), {OWN})
    assert [each.offset for each in stretch.batches] == [0, 5]


def test_own_batches_of_the_log_get_places_by_their_numbers() -> None:
    own = OwnLog(OwnNote(3, Offset(10)))
    own.stretch = LogStretch(Offset(10), 0)
    own.stretch.take(batch(OTHER, 10, 5) + batch(OWN, 15, 2, 3), {OWN})
    own.learn({OWN})
    assert own.place_of(4) == OwnPlace(3, 2, Offset(15))
