"""A controller's answers about topics in memory: created, grown, deleted, configured."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping

from sim.partition_log import PartitionLog
from support.simulated_cluster import SimulatedCluster, SimulatedTopic, error
from support.simulated_settings import is_refused

from heliostat.clusters.admin import NewTopic
from heliostat.errors import BrokerError
from heliostat.names import PartitionId, TopicId, TopicName

UNKNOWN_TOPIC, INVALID_TOPIC, NO_RIGHT, EXISTS = 3, 17, 29, 36
INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_CONFIG, INVALID_REQUEST = 37, 38, 40, 42
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def create(
    cluster: SimulatedCluster, topics: Iterable[NewTopic], *, validate_only: bool
) -> Mapping[TopicName, TopicId | BrokerError | None]:
    """Create topics, or refuse them one by one."""
    asked = list(topics)
    names = [topic.name for topic in asked]
    failed = cluster.take("create_topics", names)
    answers: dict[TopicName, TopicId | BrokerError | None] = {}
    for topic in asked:
        code = INVALID_REQUEST if names.count(topic.name) > 1 else _refusal(cluster, topic)
        if topic.name in failed:
            answers[topic.name] = failed[topic.name]
        elif code:
            answers[topic.name] = error(code, f"create topic {topic.name}")
        else:
            replicas = topic.replicas.get(PartitionId(0), ())
            made = cluster.create(
                topic.name,
                max(1, topic.partitions, len(topic.replicas)),
                topic.configs,
                replication_factor=max(1, topic.replication_factor, len(replicas)),
            )
            made.replicas = replicas or made.replicas
            answers[topic.name] = made.topic_id
            if validate_only:
                cluster.delete(topic.name)
    return answers


def _refusal(cluster: SimulatedCluster, topic: NewTopic) -> int:
    """Return the error code, in the order of `ReplicationControlManager`'s checks; 0: created."""
    taken = {name.replace(".", "_") for name in cluster.topics}
    looks = (
        (not _is_name(topic.name), INVALID_TOPIC),
        (topic.name in cluster.topics, EXISTS),
        (topic.name.replace(".", "_") in taken, INVALID_TOPIC),
        (is_refused(topic.configs), INVALID_CONFIG),
        (topic.replication_factor == 0 or topic.replication_factor < -1, INVALID_REPLICATION),
        (topic.partitions == 0 or topic.partitions < -1, INVALID_PARTITIONS),
        (topic.replication_factor > len(cluster.brokers), INVALID_REPLICATION),
    )
    return next((code for is_so, code in looks if is_so), 0)


def grow(
    cluster: SimulatedCluster, partitions: Mapping[TopicName, int]
) -> Mapping[TopicName, BrokerError | None]:
    """Add empty partitions."""
    failed = cluster.take("grow_partitions", sorted(partitions))
    answers: dict[TopicName, BrokerError | None] = {}
    for name, count in sorted(partitions.items()):
        topic = cluster.topics.get(name)
        code = UNKNOWN_TOPIC if topic is None else INVALID_PARTITIONS
        if name in failed:
            answers[name] = failed[name]
        elif topic is None or count <= len(topic.logs):
            answers[name] = error(code, f"add partitions to topic {name}")
        else:
            topic.logs += [PartitionLog() for _ in range(count - len(topic.logs))]
            answers[name] = None
    return answers


def delete(
    cluster: SimulatedCluster, topics: Iterable[TopicName]
) -> Mapping[TopicName, BrokerError | None]:
    """Delete topics at once."""
    asked = sorted(set(topics))
    failed = cluster.take("delete_topics", asked)
    answers: dict[TopicName, BrokerError | None] = {}
    for name in asked:
        answers[name] = failed.get(name)
        if name not in cluster.topics:
            answers[name] = error(UNKNOWN_TOPIC, f"delete topic {name}")
        elif name not in failed:
            cluster.delete(name)
    return answers


def alter(
    cluster: SimulatedCluster,
    changes: Mapping[TopicName, Mapping[str, str | None]],
    *,
    validate_only: bool,
) -> Mapping[TopicName, BrokerError | None]:
    """Apply all changes of a topic, or none."""
    asked = {name: values for name, values in sorted(changes.items()) if values}
    failed = cluster.take("alter_configs", asked)
    answers: dict[TopicName, BrokerError | None] = {}
    for name, values in asked.items():
        what = "change settings of topic"
        topic = known_topic(cluster, name, what, failed)
        if isinstance(topic, BrokerError):
            answers[name] = topic if name else error(INVALID_REQUEST, what)
        elif is_refused(values):
            answers[name] = error(INVALID_CONFIG, f"{what} {name}")
        else:
            answers[name] = None
            if not validate_only:
                topic.change(values)
    return answers


def known_topic(
    cluster: SimulatedCluster, name: TopicName, what: str, failed: Mapping[Hashable, BrokerError]
) -> SimulatedTopic | BrokerError:
    """Return a visible topic, or the error."""
    if name in failed:
        return failed[name]
    if name in cluster.hidden:
        return error(NO_RIGHT, f"{what} {name}")
    return cluster.topics.get(name) or error(missing(name), f"{what} {name}")


def _is_name(name: str) -> bool:
    return TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


def missing(name: str) -> int:
    """Return the error code for a name that no topic has."""
    return UNKNOWN_TOPIC if _is_name(name) else INVALID_TOPIC
