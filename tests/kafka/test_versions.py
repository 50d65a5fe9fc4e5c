"""Brokers from 2.8 to 4.3: each alone, and links across versions, proved by content."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as ClientPartition
from support.clusters import HEAP_MB, create_topic, fresh_name
from support.command import heliostat
from support.holes import read, transactions
from support.links import RunningLink, wait_for, wait_level, write_config
from support.records import GZIP, LZ4, NONE, SNAPPY, ZSTD, encode, odd_records, split, write_batches

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import KAFKA_2_8, KAFKA_3_9, KAFKA_4_3, Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.long]
VERSIONS = (KAFKA_2_8, KAFKA_3_9, KAFKA_4_3)


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, Cluster]]:
    """One cluster of each version."""
    started = start_many([ClusterSpec(f"v{v}", heap_mb=HEAP_MB, version=v) for v in VERSIONS])
    try:
        yield dict(zip(VERSIONS, started, strict=True))
    finally:
        for cluster in started:
            cluster.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_accepts_keeps_and_deletes_records(
    clusters: Mapping[str, Cluster], version: str
) -> None:
    cluster = clusters[version]
    topic = create_topic(cluster)
    samples = odd_records(random.Random(3), 200)
    write_batches(cluster.bootstrap, topic, [encode(part) for part in (samples[:90], samples[90:])])
    partition = TopicPartition(topic, PartitionId(0))
    with ClusterAdmin(cluster.bootstrap) as admin:
        assert admin.cluster_id() == cluster.cluster_id
        assert admin.list_offsets({partition: LATEST})[partition].offset == 200
        assert admin.list_log_ends([partition]) == {partition: 200}
        assert admin.delete_records({partition: Offset(50)}) == {partition: 50}
        assert isinstance(admin.init_producer_id(), int)
        has_ids = version != KAFKA_2_8 or admin.describe_topics([topic])[topic].topic_id
        assert has_ids, "topic ids came with 2.8"
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    try:
        consumer.assign([ClientPartition(topic, 0)])
        seen: list[bytes | None] = []
        wait_for("the records", lambda: _read(consumer, seen) or len(seen) >= 150, 90)
    finally:
        consumer.close()
    assert seen == [sample.value for sample in samples[50:]]


def _read(consumer: KafkaConsumer, seen: list[bytes | None]) -> None:
    for records in consumer.poll(timeout_ms=200).values():
        seen += [record.value for record in records]


@pytest.mark.spark
@pytest.mark.parametrize("version", [KAFKA_2_8, KAFKA_3_9])
def test_holes_are_filled_at_older_targets(
    clusters: Mapping[str, Cluster], tmp_path: Path, version: str
) -> None:
    """Given transactions and `offsets: exact` / when copied there / then offsets are equal."""
    source, target = clusters[KAFKA_4_3], clusters[version]
    topic = create_topic(source, fresh_name("filled"))
    transactions(source.bootstrap, topic, random.Random(8), 20)
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        topics={"include": [topic], "offsets": "exact"},
    )
    with RunningLink(config) as link:
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 1})
        assert link.stop() == 0
    there = read(source.bootstrap, topic, "read_committed")
    assert read(target.bootstrap, topic, "read_uncommitted") == there
    assert there


@pytest.mark.spark
@pytest.mark.parametrize(
    ("source_version", "target_version"),
    [
        (KAFKA_2_8, KAFKA_4_3),
        (KAFKA_4_3, KAFKA_3_9),
        (KAFKA_3_9, KAFKA_4_3),
        (KAFKA_4_3, KAFKA_2_8),
    ],
)
def test_a_link_copies_across_versions(
    clusters: Mapping[str, Cluster], tmp_path: Path, source_version: str, target_version: str
) -> None:
    """Given brokers of two versions / when a topic is copied, grown, configured / then equal."""
    source, target = clusters[source_version], clusters[target_version]
    rng = random.Random(5)
    topic = fresh_name("crossing")
    create_topic(source, topic, partitions=2, configs={"retention.ms": "90000000"})
    _write(source, topic, 0, rng)
    _write(source, topic, 1, rng)
    _delete_before(source, topic, 17)
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        topics={"include": [topic], "refresh_interval_s": 1},
    )
    with RunningLink(config) as link:
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 2})
        with ClusterAdmin(source.bootstrap) as admin:
            assert admin.grow_partitions({topic: 3}) == {topic: None}
            assert admin.alter_configs({topic: {"retention.ms": "80000000"}}) == {topic: None}
            wait_for("the new partition", lambda: _is_led(admin, topic, 3), 90)
        _write(source, topic, 2, rng)
        _write(source, topic, 0, rng)
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 3})
        with ClusterAdmin(target.bootstrap) as admin:
            wait_for("the setting", lambda: _retention(admin, topic) == "80000000", 90)
        assert _verified(config) == 4 * RECORDS - 17
        assert link.stop() == 0


RECORDS = 400


def _write(cluster: Cluster, topic: TopicName, partition: int, rng: random.Random) -> None:
    codecs = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
    parts = split(odd_records(rng, RECORDS), rng)
    batches = [encode(part, rng.choice(codecs)) for part in parts]
    write_batches(cluster.bootstrap, topic, batches, partition=partition)


def _delete_before(cluster: Cluster, topic: TopicName, offset: int) -> None:
    with ClusterAdmin(cluster.bootstrap) as admin:
        partition = TopicPartition(topic, PartitionId(0))
        assert admin.delete_records({partition: Offset(offset)}) == {partition: offset}


def _is_led(admin: ClusterAdmin, topic: TopicName, partitions: int) -> bool:
    found = admin.describe_topics([topic])[topic].partitions
    return len(found) == partitions and all(each.leader is not None for each in found)


def _retention(admin: ClusterAdmin, topic: TopicName) -> str | None:
    return admin.describe_configs([topic], ["retention.ms"])[topic]["retention.ms"].value


def _verified(config: Path) -> int:
    done = heliostat(config, "verify", "--json")
    assert done.returncode == 0, done.said
    answer = done.json
    answer = answer[0] if isinstance(answer, list) else answer
    return int(answer["records"])
