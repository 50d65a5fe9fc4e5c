"""Topics: describe, create, grow, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.metadata import MetadataResponse

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.controller_quota import sent_patiently
from heliostat.clusters.admin.large_answers import LargeAnswer
from heliostat.clusters.admin.values import NewTopic, PartitionInfo, TopicInfo
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName

NO_ID = TopicId(int=0)
PROBE_TOPIC = "heliostat.probe"  # only validated, never created


def describe(
    caller: Caller, names: Iterable[TopicName] | None, broker: BrokerId | None = None
) -> dict[TopicName, TopicInfo]:
    """Metadata of the named topics, or of all that we may see; by any broker, or by this one."""
    asked = None if names is None else tuple(sorted(set(names)))
    answer = caller.metadata_undecoded(asked, broker)
    return dict(caller.remembered.decoded(("topics", asked), answer, _topics))


def _topics(answer: LargeAnswer) -> dict[TopicName, TopicInfo]:
    response = MetadataResponse.decode(answer.body, version=answer.version)
    return {TopicName(row.name): _topic(row) for row in response.topics}


def _topic(row: Any) -> TopicInfo:
    name = TopicName(row.name)
    partitions = sorted((_partition(name, part) for part in row.partitions), key=_number)
    topic_id = getattr(row, "topic_id", None)
    return TopicInfo(
        name=name,
        topic_id=None if topic_id in {None, NO_ID} else topic_id,
        partitions=tuple(partitions),
        is_internal=bool(row.is_internal),
        error=error_of(row.error_code, f"describe topic {name}"),
    )


def _partition(topic: TopicName, row: Any) -> PartitionInfo:
    return PartitionInfo(
        partition=PartitionId(row.partition_index),
        leader=BrokerId(row.leader_id) if row.leader_id >= 0 else None,
        leader_epoch=LeaderEpoch(getattr(row, "leader_epoch", -1)),
        replicas=tuple(BrokerId(node) for node in row.replica_nodes),
        isr=tuple(BrokerId(node) for node in row.isr_nodes),
        error=error_of(row.error_code, f"describe partition {topic}-{row.partition_index}"),
    )


def _number(partition: PartitionInfo) -> int:
    return partition.partition


def create(
    caller: Caller, topics: Iterable[NewTopic], *, validate_only: bool
) -> dict[TopicName, TopicId | BrokerError | None]:
    """Create topics; each with its new id (None before Kafka 2.8) or its error."""
    kind = CreateTopicsRequest.CreatableTopic
    rows = [
        kind(
            name=topic.name,
            num_partitions=-1 if topic.replicas else topic.partitions,
            replication_factor=-1 if topic.replicas else topic.replication_factor,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
                for number, brokers in sorted(topic.replicas.items())
            ],
            configs=[
                kind.CreatableTopicConfig(name=key, value=value)
                for key, value in sorted(topic.configs.items())
            ],
        )
        for topic in topics
    ]
    if not rows:
        return {}

    def send(some: Sequence[Any]) -> Any:
        wait_ms = caller.timeout_ms
        request = CreateTopicsRequest(topics=some, timeout_ms=wait_ms, validate_only=validate_only)
        return caller.send_to_controller(request)

    answers = sent_patiently(rows, send, lambda response: response.topics)
    return {TopicName(row.name): _created(row) for row in answers}


def _created(row: Any) -> TopicId | BrokerError | None:
    error = error_of(row.error_code, f"create topic {row.name}", row.error_message)
    if error is not None:
        return error
    topic_id: TopicId | None = getattr(row, "topic_id", None)
    return None if topic_id == NO_ID else topic_id


def grow(
    caller: Caller, partitions: Mapping[TopicName, int]
) -> dict[TopicName, BrokerError | None]:
    """Increase topics to a number of partitions."""
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    if not partitions:
        return {}
    rows = [kind(name=name, count=n, assignments=None) for name, n in sorted(partitions.items())]

    def send(some: Sequence[Any]) -> Any:
        wait_ms = caller.timeout_ms
        request = CreatePartitionsRequest(topics=some, timeout_ms=wait_ms, validate_only=False)
        return caller.send_to_controller(request)

    return {
        TopicName(row.name): error_of(
            row.error_code, f"add partitions to topic {row.name}", row.error_message
        )
        for row in sent_patiently(rows, send, lambda response: response.results)
    }


def delete(caller: Caller, topics: Iterable[TopicName]) -> dict[TopicName, BrokerError | None]:
    """Delete topics with all their records."""
    kind = DeleteTopicsRequest.DeleteTopicState
    rows = [kind(name=name) for name in sorted(set(topics))]
    if not rows:
        return {}

    def send(some: Sequence[Any]) -> Any:
        request = DeleteTopicsRequest(topics=some, timeout_ms=caller.timeout_ms)
        return caller.send_to_controller(request)

    return {
        TopicName(row.name): error_of(
            row.error_code, f"delete topic {row.name}", getattr(row, "error_message", None)
        )
        for row in sent_patiently(rows, send, lambda response: response.responses)
    }


def inherited_configs(caller: Caller) -> dict[str, str | None] | BrokerError:
    """Settings that a new topic would inherit from the brokers; nothing is created.

    CreateTopics returns them since Kafka 2.4 (KIP-525), also when it only validates.
    """
    kind = CreateTopicsRequest.CreatableTopic
    row = kind(name=PROBE_TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])

    def send(some: Sequence[Any]) -> Any:
        request = CreateTopicsRequest(topics=some, timeout_ms=caller.timeout_ms, validate_only=True)
        return caller.send_to_controller(request)

    (answer,) = sent_patiently([row], send, lambda response: response.topics)
    error = error_of(answer.error_code, "ask for the settings of a new topic", answer.error_message)
    return error or {config.name: config.value for config in answer.configs or ()}
