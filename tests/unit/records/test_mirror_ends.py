"""What a mirror ends with, looked for at the source."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sim.partition_log import PartitionLog
from sim.sim_network import batches_of
from support.records import Sample, encode

from heliostat.names import Offset
from heliostat.records.mirror_ends import STEPS_MAX, compare_ends
from heliostat.records.network import LogRange, MirrorEnd, SourceSays
from heliostat.records.offset_map import Break, OffsetMap
from heliostat.records.single_batches import Batches

ABORT, COMMIT = False, True
NOTHING = SourceSays(None, -1)


def log_of(*batches: list[Sample], epoch: int = 0) -> PartitionLog:
    made = PartitionLog()
    made.lead(epoch)
    for batch in batches:
        made.append(encode(batch))
    return made


def samples(*values: bytes, at_ms: int = 1_000) -> list[Sample]:
    return [Sample(b"k", value, at_ms) for value in values]


def says(
    source: PartitionLog, target: PartitionLog, known: OffsetMap | None = None
) -> SourceSays | None:
    end = MirrorEnd(LogRange(Offset(target.start), Offset(target.end)), known or OffsetMap())
    return compare_ends({7: end}, batches_of({7: target}), batches_of({7: source})).get(7)


def test_the_same_record_is_there_and_in_which_epoch() -> None:
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
def test_another_record_is_told_by_each_of_its_parts(other: Sample) -> None:
    target = log_of(samples(b"a", b"b"))
    source = log_of(samples(b"a"), [other], epoch=5)
    assert says(source, target) == (False, 5)


def test_where_it_is_at_the_source_says_the_map() -> None:
    """Given a hole of 10 offsets before the mirror's second record / then 11 is compared."""
    target = log_of(samples(b"a", b"b"))
    source = log_of(samples(b"a"), samples(*[b"x"] * 10), samples(b"b"))
    assert says(source, target, OffsetMap.of([Break(1, 11)])) == (True, 0)
    assert says(source, target) == (False, 0)


def test_behind_markers_the_record_before_them_is_compared() -> None:
    target = log_of(samples(b"a"))
    for _ in range(STEPS_MAX - 1):
        target.end_transaction(1, 0, 1_000, commit=True)
    assert says(log_of(samples(b"a")), target) == (True, 0)
    assert says(log_of(samples(b"z")), target) == (False, 0)
    target.end_transaction(1, 0, 1_000, commit=True)  # one step more than is gone
    assert says(log_of(samples(b"a")), target) == NOTHING


@pytest.mark.parametrize("which", ["source begins behind", "source has less", "only markers"])
def test_where_nothing_is_left_nothing_is_told(which: str) -> None:
    target, source = (
        log_of(samples(b"a", b"b")),
        log_of(samples(b"a"), samples(b"b"), samples(b"c")),
    )
    if which == "source begins behind":
        source.delete_before(2)
    elif which == "source has less":
        source = log_of(samples(b"a"))
    else:
        target = log_of()
        target.end_transaction(1, 0, 1_000, commit=True)
    assert says(source, target) == NOTHING


def test_an_empty_mirror_has_nothing_to_compare() -> None:
    target = log_of(samples(b"a"))
    target.delete_before(1)
    assert says(log_of(samples(b"a")), target) == NOTHING


def test_what_can_not_be_read_now_is_left_out() -> None:
    def nothing(_: Mapping[int, Offset]) -> Batches:
        return {}

    target = log_of(samples(b"a"))
    end = MirrorEnd(LogRange(Offset(0), Offset(1)), OffsetMap())
    logs = batches_of({7: target})
    assert compare_ends({7: end}, nothing, logs) == {}
    assert compare_ends({7: end}, logs, nothing) == {}


def test_a_damaged_batch_tells_nothing() -> None:
    def damaged(offsets: Mapping[int, Offset]) -> Batches:
        read = batches_of({7: log_of(samples(b"a"))})(offsets)[7]
        assert read is not None
        return {7: read[:-4] + b"\xff\xff\xff\xff"}

    end = MirrorEnd(LogRange(Offset(0), Offset(1)), OffsetMap())
    logs = batches_of({7: log_of(samples(b"a"))})
    assert compare_ends({7: end}, logs, damaged) == {7: NOTHING}


def kept_of(log: PartitionLog, *offsets: int) -> PartitionLog:
    """What a cleaner leaves of it, which takes all but these."""
    log.batches = [each for each in log.batches if each.base_offset in offsets]
    return log


@pytest.mark.parametrize("kept", range(5))
def test_where_a_cleaner_took_the_last_an_earlier_one_is_compared(kept: int) -> None:
    """Given six batches of which the source has one, and a later one / then that one tells."""
    values = [b"%d" % number for number in range(6)]
    target = log_of(*(samples(value) for value in values))
    source = log_of(*(samples(value) for value in [*values, b"since"]), epoch=5)
    other = log_of(*(samples(b"x" + value) for value in [*values, b"since"]), epoch=5)
    assert says(kept_of(source, kept, 6), target) == (True, -1)
    assert says(kept_of(other, kept, 6), target) == (False, -1)


@pytest.mark.parametrize(("doubted_from", "told"), [(3, (True, -1)), (4, NOTHING)])
def test_what_stands_before_the_doubt_tells_nothing(
    doubted_from: int, told: tuple[bool | None, int]
) -> None:
    values = [b"%d" % number for number in range(6)]
    target = log_of(*(samples(value) for value in values))
    source = kept_of(log_of(*(samples(value) for value in [*values, b"since"])), 3, 6)
    end = MirrorEnd(LogRange(Offset(0), Offset(6)), OffsetMap(), Offset(doubted_from))
    assert compare_ends({7: end}, batches_of({7: target}), batches_of({7: source})) == {7: told}


def test_within_a_batch_earlier_records_are_compared_too() -> None:
    target = log_of(samples(*[b"%d" % number for number in range(20)]))
    source = log_of(*(samples(b"%d" % number) for number in range(20)), samples(b"since"))
    assert says(kept_of(source, 16, 20), target) == (True, -1)  # 19, 18, 16
