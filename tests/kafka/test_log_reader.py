"""Reading a topic of one partition over lent connections, on a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer
from support.clusters import ClusterPair, create_topic, fresh_name

from heliostat.access import access_of
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.log_reader import LogReader
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.names import PartitionId, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.core]


@pytest.fixture(scope="module")
def clusters(cluster_pair: ClusterPair) -> Iterator[LentClusters]:
    access = access_of(cluster_pair.target.bootstrap)
    with closing(LentClusters(access, DialSettings("log-reader-test"))) as lent:
        yield lent


def read_all(reader: LogReader) -> list[tuple[bytes | None, bytes | None]]:
    start, end = reader.bounds()
    reader.position = start
    rows = []
    while reader.position < end:
        rows += reader.poll(1.0)
    return [(row.key, row.value) for row in rows]


def write(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, key=b"key")
    assert producer.flush(20) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_records_are_read_as_written_and_then_those_that_come(
    cluster_pair: ClusterPair, clusters: LentClusters, codec: str
) -> None:
    topic = create_topic(cluster_pair.target)
    values = [b"%d" % number * 50 for number in range(300)]
    write(cluster_pair.target.bootstrap, topic, values, **{"compression.type": codec})
    reader = LogReader(clusters, topic)
    assert reader.exists()
    assert read_all(reader) == [(b"key", value) for value in values]
    assert reader.poll(0.0) == []
    began_s = time.monotonic()
    if codec == "none":  # longer than the broker is waited for
        assert reader.poll(2.5) == []
        assert time.monotonic() - began_s >= 2.5
    late = threading.Timer(0.1, write, (cluster_pair.target.bootstrap, topic, [b"late"]))
    late.start()
    assert [row.value for row in reader.poll(1.5)] == [b"late"]
    late.join()


def test_only_committed_records_are_read_if_asked_for(
    cluster_pair: ClusterPair, clusters: LentClusters
) -> None:
    """Given commit, abort, and open / then the first alone is read, and the end is the open one."""
    topic = create_topic(cluster_pair.target)
    bootstrap = cluster_pair.target.bootstrap
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0}
    producer = Producer({**settings, "transactional.id": fresh_name("id")})
    producer.init_transactions(20)
    for value, ends in (
        (b"aborted", producer.abort_transaction),
        (b"kept", producer.commit_transaction),
        (b"gone", producer.abort_transaction),
        (b"open", None),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        if ends is not None:
            ends(20)
    write(bootstrap, topic, [b"behind"])
    committed = LogReader(clusters, topic, committed=True)
    assert [value for _, value in read_all(committed)] == [b"kept"]
    assert committed.bounds()[1] == 6
    everything = read_all(LogReader(clusters, topic))
    assert [value for _, value in everything] == [b"aborted", b"kept", b"gone", b"open", b"behind"]
    producer.abort_transaction(20)
    assert [row.value for row in committed.poll(1.0)] == [b"behind"]


def test_places_by_time_and_behind_deleted_records(
    cluster_pair: ClusterPair, clusters: LentClusters
) -> None:
    topic = create_topic(cluster_pair.target)
    producer = Producer({"bootstrap.servers": cluster_pair.target.bootstrap})
    for number in range(10):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number)
    producer.flush(20)
    reader = LogReader(clusters, topic)
    assert reader.first_since(1_700_000_000_004) == 4
    assert reader.first_since(1_800_000_000_000) == 10
    with ClusterAdmin(cluster_pair.target.bootstrap) as admin:
        place = TopicPartition(topic, PartitionId(0))
        admin.delete_records({place: 7})
    assert reader.bounds() == (7, 10)
    reader.position = 2
    rows = reader.poll(1.0) or reader.poll(1.0)
    assert [row.value for row in rows] == [b"7", b"8", b"9"]


def test_a_topic_that_does_not_exist(clusters: LentClusters) -> None:
    assert not LogReader(clusters, fresh_name()).exists()
