"""Source data with holes: transactions of real producers, and a log that a cleaner compacted."""

from __future__ import annotations

import random
import struct
import time

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from clusters import admin
from fill import IN_FLIGHT, REPEATED, SEED
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from wire import Connection

TRANSACTIONS, COMPACTION = "transactions", "compaction"
VERSIONS_OF_A_KEY = 10
"""Values written per key; the cleaner leaves about one in so many records."""
CLEANED_WITHIN_S = 300.0
CLEANER = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
FROZEN = {"max.compaction.lag.ms": str(2**63 - 1), "min.compaction.lag.ms": str(10**12)}
"""Stops the cleaner: all replicators copy the same log."""
_HEADER = struct.Struct(">qi11xi30xi")
"""Base offset, length, last offset delta, records; the length counts what follows it."""
_LENGTH_ENDS_AT, _HEADER_BYTES = 12, 61
FETCH_BYTES = 8 << 20


def fill_transactions(
    bootstrap: str, topic: str, *, partitions: int, records: int, record_bytes: int, each: int
) -> int:
    """Write committed transactions of `each` records per partition; return how many records."""
    values = random.Random(SEED)  # noqa: S311 - seeded, to be the same each time
    tail = (REPEATED * record_bytes)[: record_bytes - record_bytes // 2]
    distinct = [values.randbytes(record_bytes // 2) + tail for _ in range(64)]
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=f"fill-{topic}",
        acks="all",
        linger_ms=1000,  # so that a transaction's records are one batch
        batch_size=2 * record_bytes * each,
    )
    producer.init_transactions()
    sent = 0
    while sent < records:
        producer.begin_transaction()
        for number in range(each):
            for partition in range(partitions):
                producer.send(topic, distinct[number % len(distinct)], partition=partition)
        producer.flush()
        producer.commit_transaction()
        sent += each * partitions
    producer.close()
    return sent


def fill_compacted(
    bootstrap: str, topic: str, *, partitions: int, records: int, record_bytes: int, each: int
) -> int:
    """Write keyed records in batches of `each`, compact them; return how many are left."""
    chance = random.Random(SEED)  # noqa: S311 - as above
    _set(bootstrap, topic, CLEANER)
    keys = records // partitions // VERSIONS_OF_A_KEY
    body = (REPEATED * record_bytes)[:record_bytes]
    under_way = 0
    with Connection(bootstrap) as source:
        for _ in range(records // partitions // each):
            if under_way >= IN_FLIGHT:
                source.receive_produce()
                under_way -= 1
            batches = [(p, _keyed(chance, keys, each, body)) for p in range(partitions)]
            source.send_produce(topic, batches)
            under_way += 1
        for _ in range(under_way):
            source.receive_produce()
    left = [0, 0]

    def is_cleaned() -> bool:
        with Connection(bootstrap) as source:
            # The active segment is never cleaned: more records make it roll.
            source.send_produce(topic, [(p, _keyed(chance, 1, 1, body)) for p in range(partitions)])
            source.receive_produce()
        left[:] = [left[1], count_records(bootstrap, topic, partitions)]
        is_steady = abs(left[0] - left[1]) <= partitions
        return is_steady and left[1] < 2 * records // VERSIONS_OF_A_KEY

    deadline_s = time.monotonic() + CLEANED_WITHIN_S
    while not is_cleaned():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the cleaner left {left[1]:,} of {records:,} records in time")
        time.sleep(2.0)
    _set(bootstrap, topic, {**CLEANER, **FROZEN})
    return count_records(bootstrap, topic, partitions)


def _keyed(chance: random.Random, keys: int, count: int, body: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        key = b"%08d" % chance.randrange(keys)
        builder.append(number, now_ms, key, body, [])
    return bytes(builder.build())


def _set(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    with admin(bootstrap) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])


def count_records(bootstrap: str, topic: str, partitions: int) -> int:
    """Count records by the headers of their batches."""
    found = 0
    with Connection(bootstrap) as source:
        ends = source.ends({topic: partitions})[topic]
        for partition, end in ends.items():
            offset = 0
            while offset < end:
                data = source.fetch(topic, partition, offset, FETCH_BYTES)
                at = 0
                while len(data) - at >= _HEADER_BYTES:
                    base, length, last, count = _HEADER.unpack_from(data, at)
                    if at + _LENGTH_ENDS_AT + length > len(data):
                        break
                    found += count if base >= offset else 0
                    at += _LENGTH_ENDS_AT + length
                    following = base + last + 1
                if at == 0:
                    break  # nothing is left up to the end
                offset = following
    return found
