"""A record that the target refuses: all before it is copied, and it is named (I6)."""

from __future__ import annotations

import pytest
from support.records import Sample, encode

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.network import LastBatch, LogRange, Send
from heliostat.records.copier.partition_copy import PartitionCopy

P = TopicPartition(TopicName("t"), PartitionId(0))
INVALID_TIMESTAMP, INVALID_RECORD = 32, 87
RECORDS = 6


class OnePartition:
    """A copy of a source with six records in one batch, at offset 10."""

    def __init__(self) -> None:
        spec = PartitionSpec(P, P, None, None, Offset(10), 1 << 20, is_compacted=True)
        self.copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
        self.now_s = 0.0
        self.begin(10)

    def begin(self, end: int) -> None:
        self.copy.begin_at(LogRange(Offset(10), Offset(end)), LastBatch(7, end - 1), OffsetMap(), 0)

    def fetch(self) -> None:
        want = self.copy.want(self.now_s)
        assert want is not None
        answer = bytearray(encode([Sample(b"k", b"%d" % n, 5) for n in range(RECORDS)]))
        answer[:8] = (10).to_bytes(8, "big")
        self.copy.fetched(answer, 0, len(answer), high_watermark=16, now_s=self.now_s, now_ms=0)

    def send(self) -> Send:
        send = self.copy.next_send(0.0, 0)
        assert send is not None
        return send

    def refuse(self, error: int, number: int) -> None:
        batch = self.send().batch
        self.copy.append_failed(batch, error, "no", self.now_s, 0, refused=number)
        self.now_s += 10.0


@pytest.mark.parametrize("error", [INVALID_TIMESTAMP, INVALID_RECORD])
@pytest.mark.parametrize("number", [0, 2, RECORDS - 1])
def test_it_stops_exactly_before_the_record(error: int, number: int) -> None:
    """Given a batch refused for one record / when read again / then what precedes it lands."""
    one = OnePartition()
    one.fetch()
    one.refuse(error, number)
    assert one.copy.standing.state is PartitionState.RETRYING
    one.begin(10)
    one.fetch()
    if number:
        batch = one.send().batch
        assert (batch.base_offset, batch.records) == (10, number)
        assert one.copy.appended(batch, 10, 0)
    assert (one.copy.standing.state, one.copy.standing.code) == (
        PartitionState.BLOCKED,
        "RECORD_REFUSED",
    )
    assert one.copy.progress.position == 10 + number
    assert f"source offset {10 + number}" in one.copy.standing.reason


def test_without_record_errors_the_batch_is_reported() -> None:
    """Given no record errors in the answer / then BLOCKED by Kafka's code: nothing is guessed."""
    one = OnePartition()
    one.fetch()
    one.refuse(INVALID_RECORD, -1)
    assert (one.copy.standing.state, one.copy.standing.code) == (
        PartitionState.BLOCKED,
        "INVALID_RECORD",
    )


def test_a_part_that_is_refused_again_is_not_split_for_ever() -> None:
    one = OnePartition()
    one.fetch()
    one.refuse(INVALID_RECORD, 3)
    one.begin(10)
    one.fetch()
    one.refuse(INVALID_RECORD, 1)
    assert (one.copy.standing.state, one.copy.standing.code) == (
        PartitionState.BLOCKED,
        "INVALID_RECORD",
    )


def test_a_refused_record_has_its_source_offset_also_after_holes() -> None:
    batch = ConvertedBatch(100, 6, (), 0, 0, 30, places=((0, 110), (2, 122), (4, 134)))
    assert [batch.source_of(number) for number in range(6)] == [110, 111, 122, 123, 134, 135]
    assert batch.source_offset == 110
    assert ConvertedBatch(100, 3, (), 0, 0).source_of(2) == 102
