"""The map of one partition while it is copied: what must be durable first, what replaces what."""

from __future__ import annotations

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import Break, MapRow, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.mirror_map import MirrorMap

P = TopicPartition(TopicName("t"), PartitionId(0))
SPEC = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)


def begun(known: OffsetMap, end: int) -> MirrorMap:
    made = MirrorMap(SPEC, Stamp(1, 4))
    made.begin(known, end)
    return made


def batch(target: int, count: int, ahead: int, *breaks: Break) -> ConvertedBatch:
    return ConvertedBatch(target, count, (), 0, 0, source_ahead=ahead, breaks=breaks)


def row_of(made: MirrorMap) -> MapRow:
    row = made.row_to_write()
    assert row is not None
    return row


def test_a_batch_waits_for_the_last_of_its_breaks() -> None:
    """Given a batch behind two holes / when its row is durable / then it may go (I3)."""
    made = begun(OffsetMap(), 0)
    first = batch(0, 5, 0)
    second = batch(5, 5, 9, Break(5, 8), Break(7, 16))
    for each in (first, second):
        made.queued(each)
    assert made.is_durable_for(first)
    assert not made.is_durable_for(second)
    row = row_of(made)
    assert row.breaks == (Break(5, 8), Break(7, 16))
    assert not made.is_durable_for(second)
    made.written(row)
    assert made.is_durable_for(second)
    assert made.row_to_write() is None


def test_rows_written_ahead_by_an_earlier_round_stay_while_both_agree() -> None:
    made = begun(OffsetMap.of([Break(5, 8)]), 3)
    made.queued(batch(3, 2, 0))
    agreed = batch(5, 1, 3, Break(5, 8))
    made.queued(agreed)
    assert made.is_durable_for(agreed)
    assert made.row_to_write() is None


def test_an_earlier_rounds_break_without_a_hole_is_revoked() -> None:
    """Given a break never reached / when the source has no hole there / then a row revokes it."""
    made = begun(OffsetMap.of([Break(5, 8)]), 3)
    dense = batch(3, 5, 0)
    made.queued(dense)
    assert dense.breaks == (Break(5, 5),)
    known = OffsetMap.of([Break(5, 8)])
    known.apply(row_of(made))
    assert known.source_of(7) == 7


def test_a_hole_noted_from_a_truncated_log_is_read_again() -> None:
    """Given a hole written ahead of a mirror's end / when the source lost that part / then read.

    If the mirror has copied further since, the row written then still holds.
    """
    known = OffsetMap.of([Break(33, 37)])
    made = begun(known, 0)
    made.begin(known, 33, fills=True)
    assert (made.source_offset, made.ahead) == (37, 4)
    made.read_again(33, Offset(36))
    made.begin(known, 33, fills=True)
    assert (made.source_offset, made.ahead) == (36, None)
    made.begin(known, 34, fills=True)
    assert made.source_offset == 37
    made.read_again(33, Offset(40))
    made.begin(known, 33, fills=True)
    assert (made.source_offset, made.ahead) == (37, 4)


def test_each_attempt_of_a_round_has_a_later_stamp() -> None:
    """Given a row that was lost / when it is written again / then the first may land late."""
    made = begun(OffsetMap(), 0)
    stamps = []
    for _ in range(3):
        made.queued(batch(0, 1, 4, Break(0, 4)))
        stamps.append(row_of(made).key.stamp)
        made.begin(OffsetMap(), 0)
    assert stamps == sorted(set(stamps))
    assert all(Stamp(1, 4) < stamp < Stamp(1, 5) for stamp in stamps)


def test_a_record_behind_a_hole_needs_a_break_first() -> None:
    """Given a mirror that ends at 6, three behind its source / then only source 9 goes on (I3)."""
    made = begun(OffsetMap.of([Break(5, 8)]), 6)
    assert made.goes_on_at(9)
    assert not made.goes_on_at(10)
    assert not made.goes_on_at(8)
