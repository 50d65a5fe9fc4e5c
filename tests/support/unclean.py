"""Unclean elections: a replica that lacks records becomes leader, and gets others instead.

Broker 1 is the controller and must stay up: such topics are on the other two.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from support.clusters import create_topic
from support.links import looking_at, wait_for
from support.records import Sample, encode, write_batches

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Broker, Cluster
from heliostat_sandbox.load import wait_until_led

REPLICAS = [2, 3]
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
"""Settings of a topic that allows unclean elections."""


def replicated_topic(cluster: Cluster, name: str) -> TopicName:
    """Create a topic on brokers 2 and 3 that allows unclean elections."""
    (topic,) = replicated_topics(cluster, name)
    return topic


def replicated_topics(cluster: Cluster, *names: str) -> list[TopicName]:
    """Create topics on brokers 2 and 3 that allow unclean elections."""
    topics = [create_topic(cluster, name, replicas=2, configs=UNCLEAN) for name in names]
    put_on_replicas(cluster, *topics)
    return topics


def put_on_replicas(cluster: Cluster, *topics: TopicName) -> None:
    """Reassign the one partition of each to brokers 2 and 3."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.alter_partition_reassignments(
            {KafkaPartition(topic, 0): REPLICAS for topic in topics}
        )
        wait_for("the reassignment", lambda: not admin.list_partition_reassignments())
    finally:
        admin.close()
    for topic in topics:
        wait_for("both replicas", partial(_has_both, cluster, topic))


def _has_both(cluster: Cluster, topic: TopicName) -> bool:
    return in_sync(cluster, topic) == set(REPLICAS)


def first_leads(cluster: Cluster, topics: Sequence[TopicName]) -> None:
    """Make the first of both replicas the leader of all of these."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def leads_all() -> bool:
        with contextlib.suppress(KafkaError):  # it already leads some, or is not in sync yet
            admin.elect_leaders(0, {topic: [0] for topic in topics})
        return {partition_of(cluster, topic).leader for topic in topics} == {REPLICAS[0]}

    try:
        wait_for("the first replica to lead", leads_all)
    finally:
        admin.close()


def partition_of(cluster: Cluster, topic: TopicName) -> Any:
    found = looking_at(cluster.bootstrap, lambda admin: admin.describe_topics([topic]))
    return found[topic].partitions[0]


def in_sync(cluster: Cluster, topic: TopicName) -> set[int]:
    return set(partition_of(cluster, topic).isr)


def broker(cluster: Cluster, number: int) -> Broker:
    return next(each for each in cluster.brokers if each.broker_id == number)


def write(cluster: Cluster, topic: TopicName, values: range) -> None:
    now_ms = int(time.time() * 1000)
    samples = [Sample(b"k", b"%d" % value, now_ms) for value in values]
    write_batches(cluster.bootstrap.split(","), topic, [encode(samples)])


def leader_alone(cluster: Cluster, topic: TopicName) -> tuple[Broker, Broker]:
    """Stop the other replica, so that it lacks later records; return the leader and it."""
    leader = broker(cluster, partition_of(cluster, topic).leader)
    old = broker(cluster, sum(REPLICAS) - leader.broker_id)
    old.kill()
    wait_for("one replica", lambda: in_sync(cluster, topic) == {leader.broker_id})
    return leader, old


def wait_led(cluster: Cluster, topic: TopicName, by: Broker) -> None:
    wait_for("the leader", lambda: partition_of(cluster, topic).leader == by.broker_id)
    wait_until_led(cluster.bootstrap, [TopicPartition(topic, PartitionId(0))])


def elect_uncleanly(cluster: Cluster, leader: Broker, old: Broker, *topics: TopicName) -> None:
    """Make the old replica leader, with 80 records from offset 100 on other than were copied."""
    leader.kill()
    old.start()
    for topic in topics:
        wait_led(cluster, topic, old)
        write(cluster, topic, range(1000, 1080))
