"""Clusters of three brokers: leaders move, brokers are lost, too few replicas are in sync."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from pyspark.sql import SparkSession
from support.clusters import create_topic, fresh_name
from support.faults import Stage, Trial, small_load, stage_of
from support.links import looking_at, wait_for, write_config

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Broker, Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 3
SLOW_S = 300.0
"""For a broker to be back in sync where three brokers a side share two cores."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("replicas")
    insync = {"min.insync.replicas": "2"}
    topics = {"include": ["fault-.*"], "refresh_interval_s": 1, "replication_factor": 3}
    link = {"topics": topics}
    with stage_of(folder, spark, at_target=3, target=insync, link=link) as made:
        yield made


@contextlib.contextmanager
def the_other_way(stage: Stage, folder: Path) -> Iterator[Stage]:
    """A link from the cluster of three brokers to the one of a single broker."""
    topics = {"include": ["back-.*"], "refresh_interval_s": 1}
    config = write_config(
        folder, stage.target.bootstrap, stage.source.bootstrap, name="west-to-east", topics=topics
    )
    back = Stage(stage.target, stage.source, config, stage.spark)
    with back.start_link():
        yield back


def replicated(stage: Stage, prefix: str = "fault") -> Trial:
    """Load on a topic that each of the source's brokers has."""
    replicas = len(stage.source.brokers)
    topic = create_topic(stage.source, fresh_name(prefix), partitions=PARTITIONS, replicas=replicas)
    return Trial(stage, small_load(topic, partitions=PARTITIONS), acks=-1)


def leaders(cluster: Cluster, topic: TopicName) -> list[int]:
    found = looking_at(cluster.bootstrap, lambda admin: admin.describe_topics([topic]))
    return [each.leader for each in found[topic].partitions]


def leader_of(cluster: Cluster, topic: TopicName) -> Broker:
    """The broker that leads partition 0."""
    leader = leaders(cluster, topic)[0]
    return next(broker for broker in cluster.brokers if broker.broker_id == BrokerId(leader))


def move_leaders(cluster: Cluster, topic: TopicName) -> None:
    """Make the next broker the leader of each partition: preferred replica, then election."""
    before = leaders(cluster, topic)
    wanted = [leader % 3 + 1 for leader in before]
    orders = {
        KafkaPartition(topic, number): [first, first % 3 + 1, (first + 1) % 3 + 1]
        for number, first in enumerate(wanted)
    }
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        answer = admin.alter_partition_reassignments(orders)
        assert set(answer.values()) == {None}, answer
        wait_for("the reassignment", lambda: not admin.list_partition_reassignments())
        admin.elect_leaders(0, {topic: list(range(PARTITIONS))})
        wait_for("other leaders", lambda: leaders(cluster, topic) == wanted)
    finally:
        admin.close()


@pytest.mark.parametrize("side", ["source", "target"])
def test_leaders_move_and_a_broker_is_lost(stage: Stage, tmp_path: Path, side: str) -> None:
    """Given three brokers / when leaders move and one is killed -9 / then exact on the others."""
    cluster = stage.target
    with contextlib.ExitStack() as stack:
        if side == "source":
            back = stack.enter_context(the_other_way(stage, tmp_path))
            trial = stack.enter_context(replicated(back, "back"))
        else:
            trial = stack.enter_context(replicated(stage))
        move_leaders(cluster, trial.topic)
        trial.wait_copied(100)
        lost = leader_of(cluster, trial.topic)
        lost.kill()
        trial.wait_copied(300)  # all three partitions get records, the lost broker's too
        wait_for("leaders", lambda: lost.broker_id not in leaders(cluster, trial.topic))
        lost.start()


def test_too_few_replicas_in_sync_for_a_while(stage: Stage) -> None:
    """Given three replicas required and one lost / when it is back / then nothing is missing."""
    with replicated(stage) as trial:
        with ClusterAdmin(stage.target.bootstrap.split(",")) as admin:
            demand = {"min.insync.replicas": "3"}
            assert admin.alter_configs({trial.topic: demand}) == {trial.topic: None}
        lost = leader_of(stage.target, trial.topic)
        lost.kill()

        def refused() -> bool:
            try:
                said = stage.said_of(trial.topic)
            except ConnectionLost:
                return False  # the lost broker led a state topic, too
            return len([text for text in said if "NOT_ENOUGH_REPLICAS" in text]) == PARTITIONS

        wait_for("word of too few replicas", refused)
        before = trial.copied()
        trial.wait_sent(600)
        assert trial.copied() == before
        lost.start()
        trial.wait_normal()


def test_target_without_majority_for_a_while(stage: Stage) -> None:
    """Given two of three brokers lost / when they are back / then nothing is missing."""
    with replicated(stage) as trial:
        lost = [broker for broker in stage.target.brokers if broker.broker_id != 1]
        for broker in lost:
            broker.kill()
        trial.wait_sent(600)
        for broker in lost:
            broker.launch()
        for broker in lost:
            broker.wait_ready()
        trial.wait_copied(300)


def test_a_client_finds_a_broker_that_returned_after_its_first_metadata(stage: Stage) -> None:
    """Given a client started while a broker was down / when that one leads again / then asked."""
    cluster = stage.target
    topic = create_topic(cluster, partitions=PARTITIONS, replicas=3)
    asked = {TopicPartition(topic, PartitionId(number)): LATEST for number in range(PARTITIONS)}
    before = leaders(cluster, topic)
    lost = leader_of(cluster, topic)
    lost.kill()
    wait_for("other leaders", lambda: lost.broker_id not in leaders(cluster, topic), SLOW_S)
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        assert lost.broker_id not in {broker.broker_id for broker in admin.brokers()}
        lost.start()
        elect_first_replicas(cluster, topic, before)

        def offsets() -> list[object]:
            answers = admin.list_offsets(asked).values()
            return [getattr(answer, "offset", answer) for answer in answers]

        # A broker may answer from metadata of before the election once more.
        wait_for("all partitions' ends", lambda: offsets() == [0] * PARTITIONS, SLOW_S)


def elect_first_replicas(cluster: Cluster, topic: TopicName, wanted: list[int]) -> None:
    """Let the first replica of each partition lead, as soon as it is in sync again."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def are_elected() -> bool:
        with contextlib.suppress(KafkaError):  # one is not in sync yet
            admin.elect_leaders(0, {topic: list(range(PARTITIONS))})
        return leaders(cluster, topic) == wanted

    try:
        wait_for("the first leaders", are_elected, SLOW_S)
    finally:
        admin.close()
