"""An unclean election at the source puts other records where the target has some (KIP-320)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from support.clusters import HEAP_MB, create_topic, fresh_name
from support.command import said
from support.links import LinkProcess, RunningLink, ends_or_errors, wait_for, write_config
from support.provoked import Provoked
from support.records import Sample, encode, values_at, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat.sandbox import Broker, Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

REPLICAS = [2, 3]
"""Broker 1 is the controller and must stay."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    """Three brokers at the source, one at the target."""
    quick = {"replica.lag.time.max.ms": "2000", "offsets.topic.replication.factor": "1"}
    source, target = start_many(
        [
            ClusterSpec("source", brokers=3, settings=quick, heap_mb=HEAP_MB),
            ClusterSpec("target", heap_mb=HEAP_MB),
        ]
    )
    with source, target:
        yield source, target


def replicated_topic(cluster: Cluster) -> TopicName:
    """On brokers 2 and 3; an old replica may lead."""
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topic = create_topic(cluster, fresh_name("unclean"), replicas=2, configs=configs)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.alter_partition_reassignments({KafkaPartition(topic, 0): REPLICAS})
        wait_for("the reassignment", lambda: not admin.list_partition_reassignments())
    finally:
        admin.close()
    wait_for("both replicas", lambda: in_sync(cluster, topic) == set(REPLICAS))
    return topic


def partition_of(cluster: Cluster, topic: TopicName) -> Any:
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        return admin.describe_topics([topic])[topic].partitions[0]


def in_sync(cluster: Cluster, topic: TopicName) -> set[int]:
    return set(partition_of(cluster, topic).isr)


def broker(cluster: Cluster, number: int) -> Broker:
    return next(each for each in cluster.brokers if each.broker_id == number)


def write(cluster: Cluster, topic: TopicName, values: range) -> None:
    now_ms = int(time.time() * 1000)
    samples = [Sample(b"k", b"%d" % value, now_ms) for value in values]
    write_batches(cluster.bootstrap.split(","), topic, [encode(samples)])


def config_of(folder: Path, source: Cluster, target: Cluster, topic: TopicName) -> Path:
    topics = {"include": [topic], "refresh_interval_s": 0.5}
    return write_config(folder, source.bootstrap, target.bootstrap, topics=topics)


def wait_copied(target: Cluster, topic: TopicName, end: int) -> None:
    wait_for(
        f"a copy to {end}", lambda: ends_or_errors(target.bootstrap, {topic: 1})[topic] == [end]
    )


def stops_of(config: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said(config, "gaps")[0]["stopped"]
    return found


def leader_alone(cluster: Cluster, topic: TopicName) -> tuple[Broker, Broker]:
    """The leader, and the other replica: down, and without what is written from now on."""
    leader = broker(cluster, partition_of(cluster, topic).leader)
    old = broker(cluster, sum(REPLICAS) - leader.broker_id)
    old.kill()
    wait_for("one replica", lambda: in_sync(cluster, topic) == {leader.broker_id})
    return leader, old


def elect_uncleanly(cluster: Cluster, topic: TopicName, leader: Broker, old: Broker) -> None:
    """The old replica leads, and takes 80 records from offset 100 on: others than were copied."""
    leader.kill()
    old.start()
    wait_for("the old leader", lambda: partition_of(cluster, topic).leader == old.broker_id)
    write(cluster, topic, range(1000, 1080))


@pytest.mark.provokes("SOURCE_TRUNCATED", "gap:source_truncated")
def test_an_unclean_election_is_found_though_the_log_has_grown_again(
    clusters: tuple[Cluster, Cluster], tmp_path: Path, provoked: Provoked
) -> None:
    """Given copied records / when an old replica leads and takes others / then GAP, from where."""
    source, target = clusters
    topic = replicated_topic(source)
    config = config_of(tmp_path, source, target, topic)

    def copied_to(end: int) -> None:
        wait_copied(target, topic, end)

    def stops() -> list[dict[str, Any]]:
        return stops_of(config)

    with RunningLink(config) as link:
        write(source, topic, range(100))
        copied_to(100)
        leader, old = leader_alone(source, topic)
        write(source, topic, range(100, 150))
        copied_to(150)
        elect_uncleanly(source, topic, leader, old)
        try:
            wait_for("the stop", stops)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{link.text()[-3000:]}") from None
        (stopped,) = stops()
        assert (stopped["code"], stopped["state"]) == ("SOURCE_TRUNCATED", "gap")
        provoked("SOURCE_TRUNCATED", stopped)

        def explained_from() -> Any:
            (found,) = said(config, "resolve", topic)
            return found if found["facts"]["diverged_at"] == 100 else None

        explained = wait_for("where it parted", explained_from)
        said(config, "resolve", topic, "--choose", "continue", "--by", "ops", "--yes")
        end = explained["facts"]["target_end"]
        copied_to(end + 80)
        assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
        assert values_at(target.bootstrap, topic, end, 80) == list(range(1000, 1080))
        rows = said(config, "gaps")[0]["rows"]
        told = [(row["cause"], row["first"], row["count"]) for row in rows]
        provoked("gap:source_truncated", rows[0])
        assert told == [("source_truncated", 100, 0)], (rows, link.text()[-3000:])
        try:
            wait_for("no complaint", lambda: not stops())
        except AssertionError as error:
            raise AssertionError(f"{error}\n{stops()}\n{link.text()[-3000:]}") from None


def test_what_was_lost_is_found_by_a_driver_that_was_killed_before_it_had_noted_it(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given a power cut: the driver dies just after a copy, then an old replica leads / then GAP.

    How far was copied is noted once a minute: of the records lost the link knows nothing.
    """
    source, target = clusters
    for number in REPLICAS:
        if not broker(source, number).is_alive():
            broker(source, number).start()
    topic = replicated_topic(source)
    config = config_of(tmp_path, source, target, topic)
    with LinkProcess(config) as link:
        write(source, topic, range(100))
        wait_copied(target, topic, 100)
        leader, old = leader_alone(source, topic)
        write(source, topic, range(100, 150))
        wait_copied(target, topic, 150)
        link.kill_driver()
    elect_uncleanly(source, topic, leader, old)
    for run in ("first", "second"):  # what was found is known to the next one as well
        with RunningLink(config) as again:
            try:
                wait_for(f"the {run} stop", lambda: stops_of(config))
            except AssertionError as error:
                raise AssertionError(f"{error}\n{again.text()[-3000:]}") from None
            (stopped,) = stops_of(config)
            assert (stopped["code"], stopped["state"]) == ("SOURCE_TRUNCATED", "gap")
    assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
    (explained,) = said(config, "resolve", topic)
    assert explained["facts"]["diverged_at"] == 100
