"""Answers of a lane with a pipeline go through it, and never past it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.batches import TRANSACTIONAL, Record, StoredBatch, header_of

from heliostat.errors import PipelineRefused
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.converted import ConvertedBatch, Stop, StopReason
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.lane import Pipeline as Hiding
from heliostat.records.copier.network import Fetched, Transformed, Want
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
    SetColumns,
    Step,
    Where,
)
from heliostat.records.copier.schema_gate import SchemaGate
from heliostat.records.copier.transform import PipelineWay
from heliostat.records.rows.to_rows import rows_of
from heliostat.records.transport.piped_answers import whole_of

P = TopicPartition(TopicName("t"), PartitionId(0))
STOP = Stop(StopReason.TRANSFORM_FAILED, 7, "no number")
NOW = 1_790_000_000_000


class Pipeline:
    """Takes answers, and gives none back."""

    def __init__(self) -> None:
        self.has: list[Fetched] = []

    def put(self, fetched: Fetched) -> None:
        self.has.append(fetched)


def partition(**spec: Any) -> PartitionCopy:
    """A partition that has taken all up to offset 7."""
    one = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False, **spec)
    item = PartitionCopy(0, one, CopySettings(), 1, NOW)
    item.phase = Phase.COPY
    item.fetches.offset = item.progress.position = 7
    return item


def answer(item: PartitionCopy, size: int = 5) -> Fetched:
    want = Want(0, item.attempt, 7, 1 << 20)
    return Fetched(want, 0, 9, bytearray(size), 0, size, 8)


def test_an_answer_goes_out_and_nothing_is_fetched_until_it_is_back() -> None:
    item, pipeline = partition(pipeline="hide"), Pipeline()
    way = PipelineWay([item], pipeline, SchemaGate())
    assert way.takes(answer(item), 0.0, NOW)
    assert pipeline.has == [answer(item)]
    assert item.want(0.0) is None
    assert (item.progress.high_watermark, item.progress.last_stable_offset) == (9, 8)
    assert not way.takes(answer(item, 0), 0.0, NOW)  # there is nothing to change


def test_no_answer_gets_past_a_pipeline() -> None:
    way = PipelineWay([partition()], None, SchemaGate())
    assert not way.takes(answer(partition()), 0.0, NOW)
    way = PipelineWay([partition(pipeline="hide")], None, SchemaGate())
    with pytest.raises(PipelineRefused, match="without pipeline hide"):
        way.takes(answer(partition()), 0.0, NOW)


def test_a_partition_stops_once_all_before_the_failing_record_has_landed() -> None:
    item = partition(pipeline="hide")
    way = PipelineWay([item], Pipeline(), SchemaGate())
    item.appends.put(ConvertedBatch(6, 1, (), 5, NOW))
    way.came_back(Transformed(answer(item, 0), STOP), NOW)
    assert item.phase is Phase.COPY
    assert item.fetches.stop is STOP
    item.appends.queue.clear()
    way.came_back(Transformed(answer(item, 0), STOP), NOW)
    assert item.phase is Phase.STOPPED
    assert item.standing.state is PartitionState.BLOCKED
    assert (item.standing.code, item.standing.reason) == ("TRANSFORM_FAILED", "no number")


def test_a_hole_before_the_failing_record_is_passed_once_two_answers_agree() -> None:
    """Given a record at which a pipeline fails, right behind a hole / when two answers say so /

    then the position is that record's; no checksum covers its offset, so one is not enough.
    """
    item = partition(pipeline="hide")
    way = PipelineWay([item], Pipeline(), SchemaGate())
    behind = replace(STOP, offset=12)
    for stop in (replace(STOP, offset=99), behind):  # the first answer was damaged
        way.came_back(Transformed(answer(item, 0), stop), NOW)
        assert item.phase is Phase.COPY
        assert item.fetches.stop is None
    way.came_back(Transformed(answer(item), behind), NOW)  # what is before it waits for a schema
    assert item.phase is Phase.COPY
    way.came_back(Transformed(answer(item, 0), behind), NOW)
    assert item.phase is Phase.STOPPED
    assert item.progress.position == 12


def test_a_hole_before_the_failing_record_is_filled_first() -> None:
    """Given a mirror with equal offsets, and a record before the hole that has not landed / when

    it lands / then markers go out, and the partition stops once the target ends at the failing one.
    """
    item = partition(pipeline="hide", fills=True)
    item.map.begin(OffsetMap(), 7, fills=True)
    item.filling.begin(7, NOW)
    way = PipelineWay([item], Pipeline(), SchemaGate())
    behind = replace(STOP, offset=8)
    for _ in range(2):
        way.came_back(Transformed(answer(item, 0), behind), NOW)
    assert item.phase is Phase.COPY
    (markers,) = item.appends.queue
    assert markers.fills == range(7, 8)
    send = item.next_send(0.0, NOW)
    assert send is None  # its row of the map is not durable yet
    row = item.map.row_to_write()
    assert row is not None
    item.map.written(row)
    send = item.next_send(0.0, NOW)
    assert send is not None
    item.appended(send.batch, 7, NOW)
    assert item.phase is Phase.COPY  # how many have landed is not known yet
    item.ends_at(8, 0.0, NOW)
    assert (item.phase, item.progress.position) == (Phase.STOPPED, 8)


def test_records_of_aborted_transactions_go_into_no_pipeline() -> None:
    item, pipeline = partition(pipeline="hide"), Pipeline()
    way = PipelineWay([item], pipeline, SchemaGate())
    seen = StoredBatch(7, (Record(NOW, b"k", b"v"),), more_attributes=TRANSACTIONAL, producer_id=5)
    data = bytearray(seen.encode() + replace(seen, base_offset=8, producer_id=6).encode())
    want = Want(0, item.attempt, 7, 1 << 20)
    event = Fetched(want, 0, 9, data, 0, len(data), 9, aborted=[Aborted(6, 8)])
    way.takes(event, 0.0, NOW)
    (taken,) = pipeline.has
    chunk, stop = whole_of(item.spec, taken)
    assert stop is None
    assert chunk is not None
    assert rows_of(chunk).column("offset").to_pylist() == [7]


def test_an_answer_that_is_outdated_or_not_taken_whole_stops_nothing() -> None:
    item = partition(pipeline="hide")
    way = PipelineWay([item], Pipeline(), SchemaGate())
    old = answer(item)
    old = old._replace(want=old.want._replace(attempt=item.attempt - 1))
    way.came_back(Transformed(old, STOP), NOW)
    item.fetches.offset = 6  # a schema is missing
    way.came_back(Transformed(answer(item), STOP), NOW)
    item.fetches.offset = 7
    way.came_back(Transformed(answer(item), None), NOW)
    assert item.fetches.stop is None
    assert item.phase is Phase.COPY


def test_what_a_pipeline_has_opened_is_compressed_again() -> None:
    """Given batches that have lost records, uncompressed / when they come back / then they are

    appended with the codec that they had; the next answer has its own.
    """
    item = partition(pipeline="hide")
    item.map.begin(OffsetMap(), 7, fills=False)
    records = tuple(Record(NOW, b"k", bytes(200)) for _ in range(9))
    for offset, codec in ((7, Codec.LZ4), (17, Codec.NONE)):
        data = bytearray(StoredBatch(offset, records, last_delta=9).encode())
        want = Want(0, item.attempt, offset, 1 << 20)
        event = Fetched(want, 0, 99, data, 0, len(data), 99, opened=codec)
        SchemaGate().fetched(item, event, 0.0, NOW)
        batch = item.appends.queue[-1]
        assert header_of(b"".join(map(bytes, batch.parts)))["attributes"] == codec.value
        assert (batch.records, item.fetches.offset) == (9, offset + 10)


def test_a_pipeline_keeps_the_columns_that_no_step_changes() -> None:
    steps: dict[tuple[Step, ...], tuple[str, ...]] = {
        (Where("true"),): ("timestamp", "key", "value", "headers"),
        (SetColumns((("value", "key"),)), Where("true")): ("timestamp", "key", "headers"),
        (JsonFields("value", schema="id int"),): ("timestamp", "key", "headers"),
        (JsonFields("value", schema="id int", key_fields=("id",)),): ("timestamp", "headers"),
        (CallFunction("a:b"),): (),
    }
    for each, kept in steps.items():
        assert Hiding("hide", each).kept == kept
