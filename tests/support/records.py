"""Records of every shape, written to real topics as given raw batches."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from support.consumers import open_consumer

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire import markers, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.clusters.wire.primitives import request_header
from heliostat.names import BrokerId, PartitionId, TopicName

Headers = Sequence[tuple[str, bytes | None]]
READ_WITHIN_S = 30.0
TRANSACTION_MS = 600_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


@dataclass(frozen=True, slots=True)
class Sample:
    """One record; a timestamp of -1 is written as it is."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = field(default=())


def odd_records(rng: random.Random, count: int, *, now_ms: int | None = None) -> list[Sample]:
    """Return null and empty keys and values, repeated and null headers, odd timestamps."""
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    found: list[Sample] = []
    for number in range(count):
        key = rng.choice([None, b"", b"k%d" % (number % 7), rng.randbytes(20)])
        value = rng.choice([None, b"", b"v%d" % number, rng.randbytes(rng.randrange(1, 400))])
        headers = rng.choice(
            [(), (("a", b"1"),), (("a", b"1"), ("a", b"2"), ("b", None)), (("", b""),)]
        )
        at_ms = now_ms + rng.randrange(-100_000, 1000)
        found.append(Sample(key, value, rng.choice([at_ms, at_ms, 0]), headers))
    return found


def encode(samples: Sequence[Sample], codec: int = NONE) -> bytes:
    """Encode one batch."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for delta, item in enumerate(samples):
        builder.append(delta, item.timestamp_ms, item.key, item.value, list(item.headers))
    return bytes(builder.build())


def write_batches(
    cluster: Reachable, topic: str, batches: Sequence[bytes], *, partition: int = 0
) -> None:
    """Append each batch, in order."""
    name = TopicName(topic)
    with closing(WireCluster(cluster, DialSettings())) as wire:
        leaders = wire.metadata([name])[name]
        broker = leaders.partitions[PartitionId(partition)].broker
        with closing(wire.open_data(broker)) as connection:
            for data in batches:
                item = produce.ProducePartition(
                    name, leaders.topic_id, partition, [data], len(data)
                )
                _append(connection, wire.produce_version(broker), [item])


def write_everywhere(cluster: Reachable, topics: Mapping[str, int], batch: bytes) -> None:
    """Append a batch to each partition of topics, in one request to each leader; a client of
    Kafka's waits for metadata topic by topic."""
    names = [TopicName(topic) for topic in topics]
    items: dict[BrokerId, list[produce.ProducePartition]] = {}
    with closing(WireCluster(cluster, DialSettings())) as wire:
        found = wire.metadata(names)
        for name in names:
            for number in range(topics[name]):
                items.setdefault(found[name].partitions[PartitionId(number)].broker, []).append(
                    produce.ProducePartition(
                        name, found[name].topic_id, number, [batch], len(batch)
                    )
                )
        for broker, its_items in items.items():
            with closing(wire.open_data(broker)) as connection:
                _append(connection, wire.produce_version(broker), its_items)


def write_marked(cluster: Reachable, topic: str, count: int, *, now_ms: int | None = None) -> None:
    """Append records to partition 0, each with a marker after it, as transactions of one record.

    All requests at once: `support.holes.transactions` waits for a coordinator several times each.
    """
    name, at_ms = TopicName(topic), now_ms or int(time.time() * 1000)
    with ClusterAdmin(cluster) as admin:
        producer = admin.init_producer_id()
    with closing(WireCluster(cluster, DialSettings())) as wire:
        leaders = wire.metadata([name])[name]
        broker = leaders.partitions[PartitionId(0)].broker
        version = wire.produce_version(broker)
        marker = markers.encode_markers(producer, [markers.Markers(topic, 0, 1, 0)])
        with closing(wire.open_data(broker)) as connection:
            for number in range(count):
                data = encode([Sample(b"k", b"%d" % number, at_ms)])
                item = produce.ProducePartition(name, leaders.topic_id, 0, [data], len(data))
                _send_append(connection, version, [item])
                _send(connection, markers.API_KEY, markers.VERSIONS[0], [marker])
            for _ in range(count):
                _receive_append(connection, version, 1)
                errors = markers.decode_markers(connection.receive(READ_WITHIN_S).buffer, 4)
                assert set(errors.values()) == {0}, errors


def _append(
    connection: Connection, version: int, items: Sequence[produce.ProducePartition]
) -> None:
    _send_append(connection, version, items)
    _receive_append(connection, version, len(items))


def _send_append(
    connection: Connection, version: int, items: Sequence[produce.ProducePartition]
) -> None:
    body = produce.encode_produce(version, items, timeout_ms=20_000)
    _send(connection, produce.API_KEY, version, body)


def _send(
    connection: Connection,
    api_key: int,
    version: int,
    body: Sequence[bytes | bytearray | memoryview],
) -> None:
    number = connection.next_correlation_id()
    connection.send([request_header(api_key, version, number, "test", flexible=True), *body])


def _receive_append(connection: Connection, version: int, partitions: int) -> None:
    answers, _ = produce.decode_produce(version, connection.receive(READ_WITHIN_S).buffer, 4)
    assert len(answers) == partitions
    assert {answer.error for answer in answers} == {0}, [answer.message for answer in answers]


def split(samples: Sequence[Sample], rng: random.Random) -> list[list[Sample]]:
    """Split into batches as producers might: many of one record, some of many."""
    cut: list[list[Sample]] = []
    at = 0
    while at < len(samples):
        size = rng.choice([1, 1, 1, 2, 10, 100])
        cut.append(list(samples[at : at + size]))
        at += size
    return cut


def write_transaction(bootstrap: str, topic: str, records: int, *, commit: bool) -> None:
    """Write one transaction with a real transactional producer."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id=f"tx-{topic}", acks="all"
    )
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(records):
        producer.send(topic, key=b"k", value=b"tx%d" % number, partition=0)
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    producer.close()


@contextlib.contextmanager
def open_transaction(
    bootstrap: str, topic: str, name: str, *, timestamp_ms: int | None = None
) -> Iterator[None]:
    """Write to partition 0 in a transaction, open during the block and committed at its end."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        transactional_id=name,
        transaction_timeout_ms=TRANSACTION_MS,
        acks="all",
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0, timestamp_ms=timestamp_ms).get(READ_WITHIN_S)
        yield
        producer.commit_transaction()
    finally:
        producer.close()


def values_at(bootstrap: str, topic: str, start: int, count: int) -> list[int]:
    """Return the numeric values of `count` records of partition 0 from an offset on."""
    partition = KafkaPartition(topic, 0)
    consumer = open_consumer(bootstrap, enable_auto_commit=False, auto_offset_reset="none")
    try:
        consumer.assign([partition])
        consumer.seek(partition, start)
        found: list[int] = []
        deadline_s = time.monotonic() + READ_WITHIN_S
        while len(found) < count and time.monotonic() < deadline_s:
            for records in consumer.poll(timeout_ms=500).values():
                found += [int(record.value) for record in records]
    finally:
        consumer.close()
    return found[:count]
