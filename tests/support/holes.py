"""Topics whose offsets have holes, compacted or transactional: as read, and their mirrors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaTimeoutError
from support.clusters import HEAP_MB, ClusterPair, fresh_name
from support.consumers import open_consumer

from heliostat.access import access_of
from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.offsets.store import read_maps
from heliostat_sandbox import Cluster, ClusterSpec, start_many

EAGER_CLEANER = {
    "log.retention.ms": "-1",  # some records are old
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "1000",
}
LEFT_MOST = 6_500
"""Most records of `write_compacted` after cleaning, whatever the active segment holds."""
Seen = tuple[int, bytes | None, bytes | None, int, tuple[Any, ...]]


def eager_pair() -> Iterator[ClusterPair]:
    """Give two clusters whose cleaners check for work all the time; for a fixture."""
    specs = [
        ClusterSpec(name, settings=EAGER_CLEANER, heap_mb=HEAP_MB) for name in ("source", "target")
    ]
    source, target = start_many(specs)
    with source, target:
        yield ClusterPair(source, target)


def read(bootstrap: str, topic: str, isolation: str) -> list[Seen]:
    """Read all records of partition 0: offset, key, value, timestamp, headers."""
    consumer = open_consumer(bootstrap, enable_auto_commit=False, isolation_level=isolation)
    try:
        partition = KafkaPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        seen: list[Seen] = []
        while consumer.position(partition) < end:
            for rows in consumer.poll(timeout_ms=500).values():
                seen += [(r.offset, r.key, r.value, r.timestamp, tuple(r.headers)) for r in rows]
        return seen
    finally:
        consumer.close()


def read_if_there(bootstrap: str, topic: str) -> list[Seen]:
    """As `read`, all records; none while the topic is not there yet.

    kafka-python asks for its end again until its patience is over, 10 s: on a slow day a link takes
    longer to create it.
    """
    try:
        return read(bootstrap, topic, "read_uncommitted")
    except KafkaTimeoutError:
        return []


def transactions(bootstrap: str, topic: str, rng: random.Random, count: int) -> int:
    """Write transactions of 1 to 5 records, a third aborted; return the committed count."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        transactional_id=fresh_name("tx"),
        acks="all",
        linger_ms=0,
    )
    producer.init_transactions()
    seen = 0
    for number in range(count):
        producer.begin_transaction()
        size = rng.randint(1, 5)
        for part in range(size):
            producer.send(topic, key=b"k", value=b"%d-%d" % (number, part), partition=0)
        producer.flush()
        if rng.random() < 0.33:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            seen += size
    producer.close()
    return seen


def write_compacted(bootstrap: str, rng: random.Random, topic: str, rounds: int) -> None:
    """Write keys again and again and delete some, so that the cleaner has work.

    How many records are in closed segments depends on how long writing takes; of `rounds` times
    2,000, no more than 6,000 are left: a segment of 1 MiB holds 5,400, and there are 500 keys.
    """
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), linger_ms=5)
    for number in range(rounds):
        for _ in range(2_000):
            value = None if rng.random() < 0.1 else b"%d" % number + bytes(200)
            producer.send(topic, key=b"k%d" % rng.randrange(500), value=value, partition=0)
    producer.flush()
    producer.close()


def map_of(target: Cluster, topic: TopicName) -> OffsetMap:
    """The map of partition 0 as it is durable now."""
    with ClusterAdmin([target.bootstrap]) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
    reader = read_maps(access_of([target.bootstrap]), LinkName("east-to-west"))
    return reader.of(TopicPartition(topic, PartitionId(0)), str(topic_id))


def assert_same(pair: ClusterPair, topic: TopicName) -> OffsetMap:
    """Both sides' readers see the same; the map is exact in both directions."""
    there = read(pair.source.bootstrap, topic, "read_committed")
    here = read(pair.target.bootstrap, topic, "read_uncommitted")
    assert [row[1:] for row in here] == [row[1:] for row in there]
    found = map_of(pair.target, topic)
    for source, target in zip(there, here, strict=True):
        assert found.source_of(target[0]) == source[0]
        assert found.target_of(source[0]) == target[0]
        assert found.holds(source[0])
    return found


def assert_none_lost(pair: ClusterPair, topic: TopicName) -> None:
    """The mirror, which is not cleaned, has each record of a compacted topic once, by the map.

    Records that the cleaner took after they were copied are at the target only.
    """
    there = read(pair.source.bootstrap, topic, "read_committed")
    here = read(pair.target.bootstrap, topic, "read_uncommitted")
    offsets = map_of(pair.target, topic)
    assert len(offsets) > 0
    copied = {int(offsets.source_of(row[0])): row[1:] for row in here}
    assert len(copied) == len(here)
    assert list(copied) == sorted(copied)
    for row in there:
        assert copied[row[0]] == row[1:]
