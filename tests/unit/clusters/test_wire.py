"""Fetch and produce bytes against kafka-python's message classes, and against damage."""

from __future__ import annotations

import contextlib
import random
import uuid

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from heliostat.clusters.wire import fetch, produce
from heliostat.errors import ProtocolError
from heliostat.names import TopicId

TOPIC_ID = TopicId(bytes=uuid.UUID(int=77).bytes)


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_a_fetch_request_is_what_the_schema_says(version: int) -> None:
    """Given partitions of two topics / when encoded / then another decoder reads the same."""
    wanted = [fetch.FetchPartition("a", TOPIC_ID, n, 100 + n, 5000) for n in range(3)]
    wanted.append(fetch.FetchPartition("b", TopicId(int=5), 0, 7, 9))
    body = fetch.encode_fetch(
        version, wanted, max_wait_ms=500, min_bytes=1, max_bytes=10**6, read_committed=True
    )
    read = FetchRequest.decode(memoryview(body), version=version)
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (500, 1, 10**6)
    assert (read.isolation_level, read.session_id, read.session_epoch) == (1, 0, -1)
    rows = [(p.partition, p.fetch_offset, p.partition_max_bytes) for p in read.topics[0].partitions]
    assert rows == [(0, 100, 5000), (1, 101, 5000), (2, 102, 5000)]
    assert len(read.topics) == 2


def answer(version: int) -> bytes:
    kind = FetchResponse.FetchableTopicResponse
    partition = kind.PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=50,
        last_stable_offset=49,
        log_start_offset=4,
        aborted_transactions=[kind.PartitionData.AbortedTransaction(producer_id=1, first_offset=2)],
        preferred_read_replica=-1,
        records=b"batches",
    )
    topic = kind(topic="a", topic_id=TOPIC_ID, partitions=[partition])
    body = FetchResponse(throttle_time_ms=9, error_code=0, session_id=0, responses=[topic])
    return bytes(4) + b"\x00" + bytes(body.encode(version=version))


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_a_fetch_answer_is_read_to_its_records(version: int) -> None:
    """Given an answer of another encoder / when decoded / then offsets and records are found."""
    buffer = bytearray(answer(version))
    read = fetch.decode_fetch(version, buffer, 4)
    [got] = read.partitions
    assert (read.throttle_ms, got.partition, got.high_watermark, got.log_start) == (9, 3, 50, 4)
    assert (got.last_stable_offset, got.aborted) == (49, ((1, 2),))
    assert bytes(buffer[got.start : got.end]) == b"batches"
    assert got.topic == (TOPIC_ID if version >= fetch.BY_ID_FROM else "a")


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_a_damaged_fetch_answer_is_a_protocol_error_or_nothing(version: int) -> None:
    """Given cut and altered answers / when decoded / then no other exception, no endless loop."""
    whole = answer(version)
    rng = random.Random(version)
    for _ in range(3000):
        damaged = bytearray(whole[: rng.randrange(15, len(whole) + 1)])
        damaged[rng.randrange(14, len(damaged))] = rng.randrange(256)
        with contextlib.suppress(ProtocolError):
            for got in fetch.decode_fetch(version, damaged, 4).partitions:
                assert got.end <= len(damaged)


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_a_produce_request_is_what_the_schema_says(version: int) -> None:
    """Given batches in parts / when encoded / then another decoder reads them whole."""
    items = [
        produce.ProducePartition("a", TOPIC_ID, 0, [b"head", b"body"], 8),
        produce.ProducePartition("b", TopicId(int=5), 4, [b"x" * 300], 300),
        produce.ProducePartition("a", TOPIC_ID, 1, [b"more"], 4),
    ]
    body = b"".join(bytes(part) for part in produce.encode_produce(version, items, timeout_ms=77))
    read = ProduceRequest.decode(memoryview(body), version=version)
    assert (read.acks, read.timeout_ms, read.transactional_id) == (-1, 77, None)
    rows = [(p.index, bytes(p.records)) for t in read.topic_data for p in t.partition_data]
    assert rows == [(0, b"headbody"), (1, b"more"), (4, b"x" * 300)]


def test_the_isolation_level_is_requested() -> None:
    for read_committed in (False, True):
        body = fetch.encode_fetch(
            12, [], max_wait_ms=0, min_bytes=0, max_bytes=1, read_committed=read_committed
        )
        read = FetchRequest.decode(memoryview(body), version=12)
        assert read.isolation_level == int(read_committed)


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_an_encoded_request_is_changed_in_place(version: int) -> None:
    """Given a fetch that is sent again / when changed / then only that partition's part differs."""
    wanted = [fetch.FetchPartition("a", TOPIC_ID, n, 100 + n, 5000, 3) for n in range(2)]
    at: list[int] = []
    body = fetch.encode_fetch(
        version,
        wanted,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        read_committed=True,
        offsets_at=at,
    )
    fetch.aim(body, at[1], 777, 9, 4)
    [topic] = FetchRequest.decode(memoryview(body), version=version).topics
    rows = [(p.fetch_offset, p.last_fetched_epoch, p.partition_max_bytes) for p in topic.partitions]
    assert rows == [(100, 3, 5000), (777, 4, 9)]


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_a_produce_answer_names_the_first_refused_record(version: int) -> None:
    """Given several refused records in any order / when decoded / then the first one is named."""
    kind = ProduceResponse.TopicProduceResponse
    row = kind.PartitionProduceResponse
    errors = [
        row.BatchIndexAndErrorMessage(batch_index=n, batch_index_error_message=f"no {n}")
        for n in (7, 2, 5)
    ]
    partitions = [
        row(index=1, error_code=87, base_offset=-1, log_append_time_ms=-1, log_start_offset=0),
        row(index=2, error_code=0, base_offset=55, log_append_time_ms=-1, log_start_offset=0),
    ]
    partitions[0].record_errors = errors
    topic = kind(name="a", topic_id=TOPIC_ID, partition_responses=partitions)
    body = ProduceResponse(responses=[topic], throttle_time_ms=9).encode(version=version)
    buffer = bytearray(bytes(4) + b"\x00" + bytes(body))
    [refused, landed], throttle_ms = produce.decode_produce(version, buffer, 4)
    assert (refused.partition, refused.error, refused.refused) == (1, 87, 2)
    assert "no 2" in refused.message
    assert (landed.error, landed.base_offset, landed.refused) == (0, 55, -1)
    assert throttle_ms == 9
