"""Markers for holes: which, in which order, and what must be durable before records follow."""

from __future__ import annotations

import pytest

from heliostat.clusters.wire.markers import Markers, decode_markers, encode_markers
from heliostat.clusters.wire.primitives import compact_string, uvarint
from heliostat.errors import ProtocolError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.markers import (
    HOLE_MARKERS_MAX,
    MARKERS_MAX,
    Filling,
    filled_last_batch_is_ours,
    filler_of,
)
from heliostat.records.copier.mirror_map import MirrorMap
from heliostat.records.copier.network import LastBatch

MIRROR = TopicPartition(TopicName("t"), PartitionId(0))
SPEC = PartitionSpec(MIRROR, MIRROR, None, None, Offset(0), 1_000_000, is_compacted=False)
NOW_MS = 1_800_000_000_000
PID = 9


def begun(known: OffsetMap, end: int) -> tuple[Filling, MirrorMap]:
    offset_map = MirrorMap(SPEC, Stamp(1, 1))
    offset_map.begin(known, end, fills=True)
    filling = Filling(offset_map)
    filling.begin(end, NOW_MS)
    return filling, offset_map


def records(number: int, count: int, source: int, *breaks: Break) -> ConvertedBatch:
    places = ((0, source),)
    return ConvertedBatch(
        number, count, (), 0, NOW_MS, source_ahead=source - number, breaks=breaks, places=places
    )


def test_a_hole_is_filled_before_its_batch_without_a_break() -> None:
    filling, _ = begun(OffsetMap(), 3)
    batch = records(3, 2, 10, Break(3, 10))
    (markers,) = filling.before(batch, NOW_MS)
    assert markers.fills == range(3, 10)
    assert markers.breaks == (Break(3, 10),)
    assert not batch.breaks
    assert filling.queued_to == 12
    assert not list(filling.before(records(5, 1, 12), NOW_MS))


def test_a_large_hole_takes_several_requests_and_a_huge_one_none() -> None:
    filling, _ = begun(OffsetMap(), 0)
    assert filling.too_large(HOLE_MARKERS_MAX) is None
    stop = filling.too_large(HOLE_MARKERS_MAX + 1)
    assert stop is not None
    assert str(HOLE_MARKERS_MAX + 1) in stop.text
    parts = list(filling.after(2 * MARKERS_MAX + 1, NOW_MS))
    assert [len(part.fills) for part in parts] == [MARKERS_MAX, MARKERS_MAX, 1]
    assert [bool(part.breaks) for part in parts] == [True, False, False]


def test_the_first_marker_of_an_attempt_is_sent_alone_and_its_end_checked() -> None:
    filling, _ = begun(OffsetMap(), 3)
    (queued,) = filling.after(6, NOW_MS)
    first, is_all = filling.next_of(queued)
    assert (first.fills, is_all, filling.is_busy) == (range(3, 4), False, True)
    assert not filling.acknowledged(first)
    assert filling.check_end == 4
    filling.check_end = None
    rest, is_all = filling.next_of(queued)
    assert (rest.fills, is_all) == (range(4, 6), True)
    assert not filling.acknowledged(rest)  # with several, an answer does not show how many landed
    filling.check_end = None
    (queued,) = filling.after(7, NOW_MS)
    assert filling.next_of(queued) == (queued, True)
    assert filling.acknowledged(queued)


def test_epochs_increase_with_each_attempt_and_jump_when_refused() -> None:
    filling, _ = begun(OffsetMap(), 0)
    first = filling.coordinator_epoch
    filling.begin(0, NOW_MS)
    assert filling.coordinator_epoch == first + 1
    filling.refused()
    filling.begin(0, NOW_MS)
    second = filling.coordinator_epoch
    filling.refused()
    filling.begin(0, NOW_MS)
    assert filling.coordinator_epoch - first > second - first > 100
    assert filling.coordinator_epoch < 2**31


@pytest.mark.parametrize(("set_back_s", "refusals"), [(30, 1), (900, 2), (3600, 3), (172_800, 4)])
def test_a_clock_set_back_costs_a_few_attempts(set_back_s: int, refusals: int) -> None:
    """A round of 5 s has time for four, whose pauses double; the next round begins anew."""
    filling, _ = begun(OffsetMap(), 0)
    used, later = filling.coordinator_epoch, NOW_MS - set_back_s * 1000
    again, _ = begun(OffsetMap(), 0)
    again.coordinator_epoch = 0
    again.begin(0, later)
    for _ in range(refusals):
        assert again.coordinator_epoch <= used
        again.refused()
        again.begin(0, later)
    assert used < again.coordinator_epoch < 2**31


def test_epochs_have_a_maximum() -> None:
    filling, _ = begun(OffsetMap(), 0)
    for _ in range(9):
        filling.refused()
    filling.begin(0, NOW_MS)
    filling.begin(0, NOW_MS)
    assert filling.coordinator_epoch == 2**31 - 1


def test_a_map_of_record_numbers_counts_records_before_the_end() -> None:
    """Records 0 to 4 are at 0 to 4, the next at 10; the target ends at 6, 7, 10 or 12."""
    known = OffsetMap.of([Break(5, 10)])
    known.is_filled = True
    ours = filler_of(PID), 2**31 - 1
    for end in (6, 7, 10):
        assert filled_last_batch_is_ours(LastBatch(*ours), PID, known, end)
        assert not filled_last_batch_is_ours(LastBatch(PID, 4), PID, known, end)
        assert begun(known, end)[1].source_offset == 10
    assert filled_last_batch_is_ours(LastBatch(PID, 4), PID, known, 5)
    assert filled_last_batch_is_ours(LastBatch(PID, 6), PID, known, 12)
    assert not filled_last_batch_is_ours(LastBatch(*ours), PID, known, 12)  # a marker too many
    assert begun(known, 12)[1].next_target == 7


def test_users_see_equal_offsets_and_lanes_record_numbers() -> None:
    reader = MapReader()
    key = RowKey(MIRROR, "id", 5, Stamp(1, 1))
    row = MapRow(key, (Break(5, 10),), is_filled=True)
    assert MapRow.decode(key, row.encode()) == row
    reader.take(row)
    assert reader.of(MIRROR, "id").is_identity
    assert reader.is_filled(MIRROR, "id") is True
    assert reader.is_filled(MIRROR, "other") is None
    tail = reader.tail(MIRROR, "id", 10)
    assert tail is not None
    lane = MapReader()
    lane.begin(MIRROR, "id", tail)
    assert lane.maps[MIRROR, "id"].is_filled
    assert lane.maps[MIRROR, "id"].source_of(5) == 10


def test_a_part_of_a_map_of_record_numbers_reaches_back_to_source_offsets() -> None:
    known = OffsetMap.of([Break(5, 10), Break(8, 20)])
    known.is_filled, known.known_from = True, 5
    assert known.knows(10)
    assert not known.knows(9)
    assert OffsetMap().knows(0)


def test_markers_of_several_partitions_share_entries() -> None:
    body = encode_markers(7, [Markers("a", 0, 2, 5), Markers("b", 1, 1, 6)])
    assert body[0] == 3 + 1  # first marker of each epoch, second of `a`
    assert body.count(compact_string("a")) == 2
    assert encode_markers(7, []) == b"\x01\x00"


def test_an_answer_has_the_error_of_each_partition() -> None:
    row = uvarint(2) + b"\x00\x00\x00\x01\x00\x34\x00"
    topic = uvarint(2) + compact_string("a") + row + b"\x00"
    body = b"\x00" + uvarint(2) + bytes(8) + topic + b"\x00" + b"\x00"
    assert decode_markers(body, 0) == {("a", 1): 52}
    with pytest.raises(ProtocolError):
        decode_markers(body[:14], 0)
