"""After a recorded gap the mirror continues at another source offset, and its map has it."""

from __future__ import annotations

from typing import Any

import pytest
from support.records import Sample, encode

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapRow, OffsetMap
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.network import LastBatch, LogRange
from heliostat.records.copier.partition_copy import PartitionCopy

P = TopicPartition(TopicName("t"), PartitionId(0))


def copy_with(**fields: Any) -> PartitionCopy:
    fields.setdefault("is_compacted", False)
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, **fields)
    return PartitionCopy(0, spec, CopySettings(), 7, 0)


def begin(copy: PartitionCopy, end: int, known: OffsetMap | None = None) -> None:
    copy.begin_at(LogRange(Offset(0), Offset(end)), LastBatch(7, end - 1), known or OffsetMap(), 0)


@pytest.mark.parametrize("source", [150, 30], ids=["behind a gap", "back to where it diverged"])
def test_at_the_recorded_offset_it_continues_elsewhere(source: int) -> None:
    copy = copy_with(jump=Break(100, source))
    begin(copy, 100)
    want = copy.want(0.0)
    assert want is not None
    assert (want.offset, copy.progress.position, copy.standing.state) == (
        source,
        source,
        PartitionState.COPYING,
    )
    answer = bytearray(encode([Sample(b"k", b"v", 5)]))
    answer[:8] = source.to_bytes(8, "big")
    copy.fetched(answer, 0, len(answer), high_watermark=source + 1, now_s=0.0, now_ms=0)
    assert copy.appends.queue[0].breaks == (Break(100, source),)
    assert copy.next_send(0.0, 0) is None  # not before the break is durable (I3)


def test_the_first_record_after_a_jump_waits_until_nothing_else_can_land() -> None:
    """Given appends of a killed round that may still land / then it goes once they can't.

    The broker would take it for a repetition of theirs, which has the same sequence.
    """
    copy = copy_with(jump=Break(100, 150))
    copy.appends.may_land(10.0)

    def fetched(now_s: float) -> None:
        end = LogRange(Offset(0), Offset(100))
        copy.begin(end, LastBatch(7, 99), OffsetMap(), 0, now_s=now_s)
        answer = bytearray((150).to_bytes(8, "big") + encode([Sample(b"k", b"v", 5)])[8:])
        copy.fetched(answer, 0, len(answer), high_watermark=151, now_s=now_s, now_ms=0)
        row = copy.map.row_to_write()
        assert row is not None
        copy.map.written(row)

    fetched(11.0)
    assert copy.next_send(12.0, 0) is None
    late_s = copy.appends.may_land_until_s
    assert copy.next_send(late_s, 0) is None
    assert copy.must_find_end  # to see whether something has landed
    fetched(late_s)
    assert copy.next_send(late_s, 0) is not None


@pytest.mark.parametrize("end", [99, 101])
def test_at_any_other_offset_it_does_not_jump(end: int) -> None:
    copy = copy_with(jump=Break(100, 150))
    begin(copy, end)
    assert copy.progress.position == end


def test_a_jump_in_the_map_is_not_written_again() -> None:
    copy = copy_with(jump=Break(100, 150))
    begin(copy, 100, OffsetMap.of([Break(100, 150)]))
    assert copy.progress.position == 150
    answer = bytearray(encode([Sample(b"k", b"v", 5)]))
    answer[:8] = (150).to_bytes(8, "big")
    copy.fetched(answer, 0, len(answer), high_watermark=151, now_s=0.0, now_ms=0)
    assert copy.appends.queue[0].breaks == ()


def test_a_source_known_to_be_truncated_is_not_read() -> None:
    copy = copy_with(truncated="it lost records")
    begin(copy, 100)
    assert (copy.standing.state, copy.standing.code) == (PartitionState.GAP, "SOURCE_TRUNCATED")
    assert copy.want(0.0) is None


def test_a_break_that_goes_back_replaces_breaks_of_lost_records() -> None:
    found = OffsetMap.of([Break(10, 20), Break(50, 80), Break(100, 70)])
    assert found.source_of(100) == 70
    assert found.target_of(70) == 100
    assert found.target_of(75) == 105
    assert found.target_of(69) == 59  # before it nothing has changed
    row = MapRow(RowKey(P, "", 10, Stamp(1, 1)), (Break(10, 20), Break(50, 80), Break(100, 70)))
    again = OffsetMap()
    again.apply(MapRow.decode(row.key, row.encode()))
    assert list(again.breaks()) == list(found.breaks())


def test_a_restarted_mirror_knows_no_older_records() -> None:
    found = OffsetMap.of([Break(100, 0)])
    assert (found.source_of(100), found.target_of(0), found.target_of(5)) == (0, 100, 105)
