"""The last records of a mirror, compared with the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from sim.log_answers import batches_of
from sim.partition_log import PartitionLog
from support.batches import TRANSACTIONAL, Record, StoredBatch
from support.records import Sample, encode

from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.copier.network import LogRange, MirrorEnd
from heliostat.records.transport.mirror_ends import STEPS_MAX, STRIDE_FACTOR, Read, compare_ends
from heliostat.records.transport.single_batches import Batches

ABORT, COMMIT = False, True


class Says(NamedTuple):
    """`SourceSays` without where its record stands."""

    has_them: bool | None
    epoch: int


NOTHING = Says(None, -1)


def compared(ends: Mapping[int, MirrorEnd], target: Read, source: Read) -> dict[int, Says]:
    """What `compare_ends` returns."""
    return {index: Says(*each[:2]) for index, each in compare_ends(ends, target, source).items()}


def log_of(*batches: list[Sample], epoch: int = 0) -> PartitionLog:
    made = PartitionLog()
    made.lead(epoch)
    for batch in batches:
        made.append(encode(batch))
    return made


def samples(*values: bytes, at_ms: int = 1_000) -> list[Sample]:
    return [Sample(b"k", value, at_ms) for value in values]


def says(
    source: PartitionLog,
    target: PartitionLog,
    known: OffsetMap | None = None,
    *,
    hides_ids: bool = False,
) -> Says | None:
    place = LogRange(Offset(target.start), Offset(target.end))
    end = MirrorEnd(place, known or OffsetMap(), hides_ids=hides_ids)
    return compared({7: end}, batches_of({7: target}), batches_of({7: source})).get(7)


def test_an_equal_record_is_found_with_its_epoch() -> None:
    target = log_of(samples(b"a", b"b"), samples(b"c"))
    assert says(log_of(samples(b"a"), samples(b"b", b"c", b"d"), epoch=5), target) == (True, 5)


@pytest.mark.parametrize(
    "other",
    [
        Sample(b"k", b"x", 1_000),
        Sample(b"x", b"b", 1_000),
        Sample(b"k", None, 1_000),
        Sample(b"k", b"b", 1_001),
        Sample(b"k", b"b", 1_000, [("h", b"1")]),
    ],
)
def test_a_different_record_is_detected_by_each_of_its_parts(other: Sample) -> None:
    target = log_of(samples(b"a", b"b"))
    source = log_of(samples(b"a"), [other], epoch=5)
    assert says(source, target) == (False, 5)


@pytest.mark.parametrize(
    ("key", "value", "is_equal"),
    [
        (b"\0\0\0\0\1", b"\0\0\0\0\2v", True),
        (b"\0\0\0\0\2", b"\0\0\0\1\2v", True),
        (b"\0\0\0\0\2", b"\0\0\0\0\2w", False),
        (b"\0\0\0\0\2x", b"\0\0\0\0\2v", False),
        (b"\0\0\0\0\2", b"\1\0\0\0\2v", False),
        (b"\0\0\0\2", b"\0\0\0\0\2v", False),
        (b"\0\0\0\0\2", None, False),
    ],
)
def test_a_record_with_another_id_is_the_same_where_ids_are_replaced(
    key: bytes, value: bytes | None, *, is_equal: bool
) -> None:
    """Given records that differ in ids / then only those bytes are left aside, if asked."""
    target = log_of([Sample(b"\0\0\0\0\7", b"\0\0\0\0\7v", 1_000)])
    source = log_of([Sample(key, value, 1_000)], epoch=5)
    assert says(source, target, hides_ids=True) == (is_equal, 5)
    assert says(source, target) == (False, 5)


def test_the_map_gives_its_source_offset() -> None:
    """Given a hole of 10 offsets before the mirror's second record / then 11 is compared."""
    target = log_of(samples(b"a", b"b"))
    source = log_of(samples(b"a"), samples(*[b"x"] * 10), samples(b"b"))
    assert says(source, target, OffsetMap.of([Break(1, 11)])) == (True, 0)
    assert says(source, target) == (False, 0)


def add_markers(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        log.end_transaction(1, 0, 1_000, commit=True)


@pytest.mark.parametrize("count", [1, STEPS_MAX, STRIDE_FACTOR, 17, 18, 270, 300])
def test_the_record_before_trailing_markers_is_compared(count: int) -> None:
    """Given an aborted transaction of that length / then the record before it is the last one."""
    target = log_of(samples(b"a"))
    add_markers(target, count)
    assert says(log_of(samples(b"a")), target) == (True, 0)
    assert says(log_of(samples(b"z")), target) == (False, 0)
    end = MirrorEnd(LogRange(Offset(0), Offset(target.end)), OffsetMap())
    answer = compare_ends({7: end}, batches_of({7: target}), batches_of({7: log_of(samples(b"a"))}))
    assert answer[7].has_them
    assert not answer[7].is_last


def test_a_hole_after_the_last_record_may_be_of_a_later_epoch() -> None:
    """Given the next leader's hole after a mirror's last record / then no epoch is returned."""
    target, source = log_of(samples(b"a")), log_of(samples(b"a"))
    source.lead(1)
    in_transaction(source, 9, 2)
    source.end_transaction(9, 3, 1_000, commit=False)
    add_markers(target, 2)
    assert says(source, target) == (True, 0)


@pytest.mark.parametrize("place", [*range(20), 150, 290, 298, 299])
def test_no_record_between_markers_is_skipped(place: int) -> None:
    """Given one record among 300 markers, and another at the source / then detected."""
    target, source = log_of(samples(b"a")), log_of(samples(b"a"))
    for log, value in ((target, b"b"), (source, b"x")):
        add_markers(log, place)
        log.append(encode(samples(value)))
        add_markers(log, 300 - place)
    assert says(source, target) == (False, 0)
    assert says(target, target) == (True, 0)


def test_markers_down_to_the_log_start_prove_nothing() -> None:
    target = log_of(samples(b"a"))
    add_markers(target, 100)
    target.delete_before(30)
    assert says(log_of(samples(b"a")), target) == NOTHING


@pytest.mark.parametrize("fails_from", range(1, 5))
def test_unreadable_markers_are_left_out(fails_from: int) -> None:
    target = log_of(samples(b"a"))
    add_markers(target, 1_000)
    looks: list[int] = []

    def read(places: Mapping[int, Offset], *room: int) -> Batches:
        looks.append(places[7])
        return batches_of({7: target})(places, *room) if len(looks) < fails_from else {}

    end = MirrorEnd(LogRange(Offset(0), Offset(target.end)), OffsetMap())
    assert compared({7: end}, read, batches_of({7: target})) == {}


@pytest.mark.parametrize("which", ["source begins behind", "source has less"])
def test_without_remaining_records_nothing_is_returned(which: str) -> None:
    target, source = (
        log_of(samples(b"a", b"b")),
        log_of(samples(b"a"), samples(b"b"), samples(b"c")),
    )
    if which == "source begins behind":
        source.delete_before(2)
    else:
        source = log_of(samples(b"a"))
    assert says(source, target) == NOTHING


def test_an_empty_mirror_has_nothing_to_compare() -> None:
    target = log_of(samples(b"a"))
    target.delete_before(1)
    assert says(log_of(samples(b"a")), target) == NOTHING


def test_unreadable_records_are_left_out() -> None:
    def nothing(_: Mapping[int, Offset], __: int = 0) -> Batches:
        return {}

    target = log_of(samples(b"a"))
    end = MirrorEnd(LogRange(Offset(0), Offset(1)), OffsetMap())
    logs = batches_of({7: target})
    assert compared({7: end}, nothing, logs) == {}
    assert compared({7: end}, logs, nothing) == {}


def test_a_damaged_batch_proves_nothing() -> None:
    def damaged(offsets: Mapping[int, Offset], _: int = 0) -> Batches:
        read = batches_of({7: log_of(samples(b"a"))})(offsets)[7]
        assert read is not None
        return {7: read[:-4] + b"\xff\xff\xff\xff"}

    end = MirrorEnd(LogRange(Offset(0), Offset(1)), OffsetMap())
    logs = batches_of({7: log_of(samples(b"a"))})
    assert compared({7: end}, logs, damaged) == {7: NOTHING}


def kept_of(log: PartitionLog, *offsets: int) -> PartitionLog:
    """What a cleaner leaves of it, which takes all but these."""
    log.batches = [each for each in log.batches if each.base_offset in offsets]
    return log


@pytest.mark.parametrize("kept", range(5))
def test_after_a_cleaner_removed_the_last_an_earlier_one_is_compared(kept: int) -> None:
    """Given six batches, at the source one of them, and a later one / then that one is compared."""
    values = [b"%d" % number for number in range(6)]
    target = log_of(*(samples(value) for value in values))
    source = log_of(*(samples(value) for value in [*values, b"since"]), epoch=5)
    other = log_of(*(samples(b"x" + value) for value in [*values, b"since"]), epoch=5)
    assert says(kept_of(source, kept, 6), target) == (True, -1)
    assert says(kept_of(other, kept, 6), target) == (False, 5)


@pytest.mark.parametrize(("doubted_from", "told"), [(3, (True, -1)), (4, NOTHING)])
def test_records_before_the_doubt_prove_nothing(
    doubted_from: int, told: tuple[bool | None, int]
) -> None:
    values = [b"%d" % number for number in range(6)]
    target = log_of(*(samples(value) for value in values))
    source = kept_of(log_of(*(samples(value) for value in [*values, b"since"])), 3, 6)
    end = MirrorEnd(LogRange(Offset(0), Offset(6)), OffsetMap(), Offset(doubted_from))
    assert compared({7: end}, batches_of({7: target}), batches_of({7: source})) == {7: told}


def test_within_a_batch_earlier_records_are_compared_too() -> None:
    target = log_of(samples(*[b"%d" % number for number in range(20)]))
    source = log_of(*(samples(b"%d" % number) for number in range(20)), samples(b"since"))
    assert says(kept_of(source, 16, 20), target) == (True, -1)  # 19, 18, 16


def map_says(
    source: PartitionLog, target: PartitionLog, known: OffsetMap, doubted_from: int = 0
) -> Says | None:
    """Compare the mirror with its map."""
    within = LogRange(Offset(target.start), Offset(target.end))
    end = MirrorEnd(within, known, Offset(doubted_from), asks_map=True)
    return compared({7: end}, batches_of({7: target}), batches_of({7: source})).get(7)


def test_if_the_source_ends_before_earlier_records_check_the_map() -> None:
    """Given a map that is ahead / then its end shows that the source was cut, but is not read."""
    target = log_of(samples(b"a"), samples(b"b"))
    source = log_of(samples(b"a"), samples(b"x"), samples(b"b"))
    ahead = OffsetMap.of([Break(0, 1), Break(1, 5)])
    assert says(source, target, ahead) == NOTHING
    assert map_says(source, target, ahead) == (False, 0)
    assert map_says(log_of(samples(b"a")), target, OffsetMap()) == (True, -1)


@pytest.mark.parametrize("left", range(12))
def test_any_remaining_record_checks_the_map(left: int) -> None:
    """Given a batch and one record of it at the source / then that one, though none is so far."""
    values = [b"%d" % number for number in range(12)]
    target = log_of(samples(*values))
    source = log_of(*(samples(value) for value in [*values, b"since"]))
    other = log_of(*(samples(b"x" + value) for value in [*values, b"since"]))
    for log, is_right in ((source, True), (other, False)):
        found = map_says(kept_of(log, left, 12), target, OffsetMap())
        assert found is not None
        assert found.has_them is is_right


def test_without_remaining_records_outside_holes_none_is_missing() -> None:
    target = log_of(samples(b"a"), samples(b"b"))
    source = log_of(*(samples(b"%d" % number) for number in range(9)))
    known = OffsetMap.of([Break(1, 7)])
    assert map_says(kept_of(source, 4, 8), target, known) == NOTHING
    assert map_says(kept_of(source, 8), target, known) == NOTHING


def test_the_last_remaining_record_decides() -> None:
    """Given records that only the first half of the mirror has / then the map is wrong."""
    values = [b"%d" % number for number in range(12)]
    target = log_of(samples(*values[:6], *[b"x"] * 6))
    source = log_of(*(samples(value) for value in [*values, b"since"]))
    assert map_says(kept_of(source, 1, 6, 12), target, OffsetMap()) == (False, -1)


def test_unreadable_remaining_records_are_read_again() -> None:
    target, source = log_of(samples(b"a", b"b", b"c")), log_of(samples(b"a"), samples(b"b"))
    looks: list[int] = []

    def read(offsets: Mapping[int, Offset], _: int = 0) -> Batches:
        looks.append(offsets[7])
        return batches_of({7: source})(offsets) if len(looks) < 3 else {}

    end = MirrorEnd(LogRange(Offset(0), Offset(3)), OffsetMap.of([Break(0, 5)]), asks_map=True)
    assert compared({7: end}, batches_of({7: target}), read) == {}
    assert len(looks) == 3


def test_a_mirror_of_markers_alone_is_compared_by_its_holes() -> None:
    """Given aborted transactions alone / then the source must have no record there either."""
    target = log_of()
    add_markers(target, 20)
    source = log_of()
    source.lead(1)
    in_transaction(source, 9, 19)
    source.end_transaction(9, 3, 1_000, commit=False)
    assert says(source, target) == (True, 1)
    assert says(log_of(samples(b"a"), samples(b"b")), target) == (False, 0)
    target.delete_before(5)
    assert says(source, target) == NOTHING


def of_a_hole(source: PartitionLog, doubted_from: int, end: int) -> Says | None:
    """Told where a mirror has a record at 0 and markers from 1 on."""
    target = log_of(samples(b"a"))
    for _ in range(end - 1):
        target.end_transaction(1, 0, 1_000, commit=True)
    there = MirrorEnd(LogRange(Offset(0), Offset(end)), OffsetMap(), Offset(doubted_from))
    return compared({7: there}, batches_of({7: target}), batches_of({7: source})).get(7)


def in_transaction(log: PartitionLog, pid: int, records: int) -> None:
    some = tuple(Record(1_000, b"k", b"%d" % number) for number in range(records))
    log.append(StoredBatch(0, some, more_attributes=TRANSACTIONAL, producer_id=pid).encode())


def test_where_neither_side_has_a_record_nothing_was_lost() -> None:
    """Given a marker of the next leader, a hole at the mirror / then the source lost nothing."""
    source = log_of(samples(b"a"))
    source.lead(5)
    source.end_transaction(1, 0, 1_000, commit=True)
    assert of_a_hole(source, 1, 2) == (True, 5)
    source.append(encode(samples(b"b")))
    assert of_a_hole(source, 1, 2) == (True, 5)


def test_a_source_record_in_a_hole_of_the_mirror_is_new() -> None:
    source = log_of(samples(b"a"))
    source.lead(5)
    source.append(encode(samples(b"b")))
    assert of_a_hole(source, 1, 2) == (False, 5)


def test_a_hole_left_by_a_cleaner_is_not_another_leaders() -> None:
    for kept, told in ((5, (True, -1)), (4, (False, 5))):
        source = log_of(*(samples(b"%d" % number) for number in range(6)), epoch=5)
        assert of_a_hole(kept_of(source, 0, kept), 1, 5) == told


@pytest.mark.parametrize("commit", [True, False])
def test_aborted_records_in_a_hole_do_not_count(commit: bool) -> None:
    """Given a transaction's records after the doubt, its marker anywhere / then that decides."""
    source = log_of(samples(b"a"))
    source.lead(5)
    in_transaction(source, 9, 2)
    source.end_transaction(8, 0, 1_000, commit=not commit)
    source.end_transaction(9, 3, 1_000, commit=commit)
    for end in (3, 4, 5):
        assert of_a_hole(source, 1, end) == ((not commit), 5)


@pytest.mark.parametrize("commit", [True, False])
def test_a_hole_of_many_batches_is_read_to_its_end(commit: bool) -> None:
    source = log_of(samples(b"a"))
    source.lead(5)
    for pid in range(100):
        in_transaction(source, pid, 1)
    for pid in range(100):
        source.end_transaction(pid, 3, 1_000, commit=commit and pid == 99)
    assert of_a_hole(source, 1, 102) == ((not commit), 5)


def test_a_hole_without_answer_of_the_source_proves_nothing() -> None:
    open_still = log_of(samples(b"a"))
    in_transaction(open_still, 9, 2)
    open_still.append(encode(samples(b"b")))
    begins_behind = log_of(samples(b"a"), samples(b"b"), samples(b"c"))
    begins_behind.delete_before(2)
    for source in (open_still, begins_behind, log_of(samples(b"a"))):
        assert of_a_hole(source, 1, 3) == NOTHING


def test_an_unreadable_hole_is_left_out() -> None:
    target = log_of(samples(b"a"))
    target.end_transaction(1, 0, 1_000, commit=True)
    end = MirrorEnd(LogRange(Offset(0), Offset(2)), OffsetMap(), Offset(1))
    assert compared({7: end}, batches_of({7: target}), lambda *_: {}) == {}


def says_behind_a_pipeline(
    source: PartitionLog, target: PartitionLog, kept: tuple[str, ...]
) -> Says | None:
    within = LogRange(Offset(target.start), Offset(target.end))
    end = MirrorEnd(within, OffsetMap(), kept=kept)
    return compared({7: end}, batches_of({7: target}), batches_of({7: source})).get(7)


def test_of_records_behind_a_pipeline_what_it_keeps_is_compared() -> None:
    source, target = log_of(samples(b"a"), epoch=5), log_of(samples(b"changed"))
    assert says_behind_a_pipeline(source, target, ("timestamp", "key", "headers")) == (True, 5)
    assert says_behind_a_pipeline(source, target, ("value",)) == (False, 5)


def test_what_a_pipeline_has_left_out_is_no_loss() -> None:
    target = log_of()
    add_markers(target, 2)
    assert says_behind_a_pipeline(log_of(samples(b"a", b"b")), target, ("key",)) == (True, -1)
