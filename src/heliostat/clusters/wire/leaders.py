"""Leaders of partitions by the metadata of one broker or of several; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from heliostat.clusters.kafka_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.leader_epochs import LeaderEpochs, agreeing
from heliostat.names import BrokerId, PartitionId, TopicId, TopicName, TopicPartition, id_text

NO_LEADER = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class Leader:
    """Leader of a partition; `error` is Kafka's code, 0 if there is a leader."""

    broker: BrokerId
    epoch: int
    error: int
    replicas: Sequence[BrokerId] = ()
    """Brokers that have, or should have, a replica."""
    offline: Sequence[BrokerId] = ()
    """Those of them that are gone."""


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """Metadata of one topic; `error` is Kafka's code for the whole topic."""

    topic_id: TopicId | None
    error: int
    partitions: Mapping[PartitionId, Leader]


def agreed_leaders(
    views: Sequence[Mapping[TopicName, TopicLeaders]],
) -> dict[TopicName, TopicLeaders]:
    """Return what most brokers say of each topic; of its leaders those of the newest epochs."""
    if len(views) == 1:
        return dict(views[0])
    names = dict.fromkeys(name for view in views for name in view)
    return {name: _agreed([view[name] for view in views if name in view]) for name in names}


def _agreed(views: Sequence[TopicLeaders]) -> TopicLeaders:
    alike = agreeing(views)
    if not alike:
        return views[0]
    partitions: dict[PartitionId, Leader] = {}
    for topic in alike:
        for number, leader in topic.partitions.items():
            newest = partitions.get(number)
            if newest is None or leader.epoch > newest.epoch:
                partitions[number] = leader
    return replace(alike[0], partitions=partitions)


def leader_in(
    topics: Mapping[TopicName, TopicLeaders], partition: TopicPartition
) -> tuple[int, BrokerId]:
    """Return Kafka's code (0: there is one), and the leader of a partition."""
    topic = topics[partition.topic]
    leader = topic.partitions.get(partition.partition)
    if topic.error or leader is None:
        return topic.error or UNKNOWN_TOPIC_OR_PARTITION, NO_LEADER
    return leader.error, leader.broker


def current_leaders(name: TopicName, topic: TopicLeaders, epochs: LeaderEpochs) -> TopicLeaders:
    """Return a topic without leaders of epochs that have ended, and note newer epochs."""
    topic_id = id_text(topic.topic_id)
    deposed = {
        number: replace(leader, broker=NO_LEADER, error=LEADER_NOT_AVAILABLE)
        for number, leader in topic.partitions.items()
        if not epochs.take(TopicPartition(name, number), topic_id, leader.epoch)
    }
    return replace(topic, partitions={**topic.partitions, **deposed}) if deposed else topic
