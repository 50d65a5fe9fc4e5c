"""One of three target brokers hangs: partitions of the others go on, and the broker is named."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import RunningLink, ends, wait_for, wait_level, write_config

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat.sandbox import Broker, Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 6
EVERY_S = 0.05
CALM_S = 10.0
HANGS_S = 45.0
"""Longer than an append may take (`produce_timeout_s` and some): all that follows on it is seen."""
STANDS_STILL_S_MAX = 3.0
"""Healthy partitions stood still for 61 s; a machine that is full takes some time for anything."""


@contextlib.contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in a thread, which ends at the event that it is given."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Watch:
    """How old records are when a reader of the target sees them."""

    def __init__(self, topic: str, partitions: list[int]) -> None:
        self._partitions = [KafkaPartition(topic, each) for each in partitions]
        self._seen: list[tuple[float, float]] = []
        """When (monotonic), and the age in s."""

    def of(self, bootstrap: str) -> Callable[[threading.Event], None]:
        """The work of a thread that reads."""
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        consumer.assign(self._partitions)
        consumer.seek_to_end()

        def read(over: threading.Event) -> None:
            while not over.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    now_s, now_ms = time.monotonic(), time.time() * 1000
                    self._seen += [(now_s, (now_ms - each.timestamp) / 1000) for each in records]
            consumer.close()

        return read

    def between(self, from_s: float, to_s: float) -> list[float]:
        return sorted(age_s for at_s, age_s in self._seen if from_s <= at_s < to_s)


def writing(bootstrap: str, topic: str) -> Callable[[threading.Event], None]:
    def write(over: threading.Event) -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
        while not over.wait(EVERY_S):
            for partition in range(PARTITIONS):
                producer.send(topic, b"value", partition=partition)
        producer.flush(30)
        producer.close()

    return write


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster.start("hanging", brokers=3, heap_mb=320) as cluster:
        yield cluster


def led_by(cluster: Cluster, topic: TopicName) -> dict[int, int]:
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        found = admin.describe_topics([topic])[topic].partitions
    return {int(each.partition): int(each.leader) for each in found}


def spare(cluster: Cluster, hung: Broker, topic: TopicName) -> None:
    """Let a broker lead of `topic` alone: lanes are what is tested, not the driver's own topics."""
    others = [int(each.broker_id) for each in cluster.brokers if each is not hung]
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        found = {n: one for n, one in admin.describe_topics().items() if n != topic}
    orders = {
        KafkaPartition(name, each.partition): [*others, int(hung.broker_id)]
        for name, one in found.items()
        for each in one.partitions
    }
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        answer = client.alter_partition_reassignments(orders)
        assert set(answer.values()) == {None}, answer
        wait_for("the reassignment", lambda: not client.list_partition_reassignments(), 120.0)
        client.elect_leaders(
            0,
            {name: [int(each.partition) for each in one.partitions] for name, one in found.items()},
        )
    finally:
        client.close()
    assert not [each for each in found if int(hung.broker_id) in led_by(cluster, each).values()]


@pytest.mark.usefixtures("spark")
def test_others_go_on(cluster_pair: ClusterPair, target: Cluster, tmp_path: Path) -> None:
    """Given partitions on three brokers / when one hangs / then the others' records arrive."""
    source = cluster_pair.source.bootstrap
    topic = create_topic(cluster_pair.source, fresh_name("hung"), partitions=PARTITIONS)
    config = write_config(tmp_path, source, target.bootstrap, topics={"include": [topic]})
    with RunningLink(config) as link:
        with beside(writing(source, topic)):
            wait_for("records", lambda: min(ends(target.bootstrap, {topic: PARTITIONS})[topic]) > 0)
            hung = target.brokers[-1]
            leaders = led_by(target, topic)
            healthy = [each for each, leader in leaders.items() if leader != hung.broker_id]
            assert 0 < len(healthy) < PARTITIONS
            spare(target, hung, topic)
            before, while_hung = aged(target, hung, Watch(topic, healthy), config)
        for what, ages_s in (("before", before), ("while it hangs", while_hung)):
            p99_s, most_s = ages_s[len(ages_s) * 99 // 100], ages_s[-1]
            print(f"{what}: {len(ages_s)} records, p99 {p99_s:.3f} s, most {most_s:.3f} s")
        assert len(while_hung) > len(healthy) * HANGS_S / EVERY_S / 2
        assert while_hung[-1] < STANDS_STILL_S_MAX
        wait_level(link, source, target.bootstrap, {topic: PARTITIONS})
        assert link.stop() == 0


def aged(
    target: Cluster, hung: Broker, watch: Watch, config: Path
) -> tuple[list[float], list[float]]:
    """Ages of healthy partitions' records as they were seen: before, and while a broker hangs."""
    others = ",".join(str(each.endpoint) for each in target.brokers if each is not hung)
    with beside(watch.of(others)):
        began_s = time.monotonic()
        time.sleep(CALM_S)
        hung_s = time.monotonic()
        hung.pause()
        try:
            wait_for("the broker's name", lambda: str(hung.endpoint) in told(config), 30.0)
            print(f"named after {time.monotonic() - hung_s:.1f} s")
            time.sleep(max(0.0, hung_s + HANGS_S - time.monotonic()))
        finally:
            hung.resume()
        over_s = time.monotonic()
    return watch.between(began_s, hung_s), watch.between(hung_s, over_s)


def told(config: Path) -> str:
    return heliostat(config, "status", "--json").stdout
