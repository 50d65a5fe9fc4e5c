"""Whether brokers let us do an operation on a resource, asked without changing anything.

Brokers tell what we may do with a topic that exists (KIP-430). For everything else a request is
sent that could do nothing even if it was allowed, as brokers decide about the right first
(`KafkaApis`): it names a partition that no topic has, an id that no producer has, or asks for
validation only. Any other answer than the refusal of the right means that it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from heliostat.clusters.acl import Operation, ResourceKind
from heliostat.clusters.admin import config_calls, offset_calls, quota_calls
from heliostat.clusters.admin.acl_calls import OPERATION_CODES
from heliostat.clusters.admin.append_calls import ALL_IN_SYNC, TOPIC_NAMES_UP_TO
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.clusters.kafka_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    CONSUMER,
    GROUP_AUTHORIZATION_FAILED,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, TopicName

NO_PARTITION = 2**31 - 1
"""No topic has it: Kafka allows fewer partitions in a whole cluster."""
NO_PRODUCER = 2**63 - 1
"""A producer id that no broker has given."""
NOBODY = "heliostat.probe"
"""A member, and a user, that nobody is."""
_REFUSED = frozenset(
    {
        TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_UNCLEAR = frozenset({-1, REQUEST_TIMED_OUT})
_WAIT_MS = 100
MAY_NAMES = 1000
"""Topics in a request."""


class Right(NamedTuple):
    """An operation on one resource."""

    kind: ResourceKind
    name: str
    operation: Operation


May = Mapping[Right, bool | None]
"""Whether we have each right; None: brokers don't show it."""
_Codes = dict[str, int]


def may(caller: Caller, rights: Iterable[Right]) -> dict[Right, bool | None]:
    """Return whether we have each right; changes nothing.

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    asked: dict[tuple[ResourceKind, Operation], list[str]] = defaultdict(list)
    for right in sorted(set(rights), key=_order):
        asked[right.kind, right.operation].append(right.name)
    topics = {
        name for (kind, _), names in asked.items() if kind is ResourceKind.TOPIC for name in names
    }
    shown = _shown_topics(caller, sorted(topics)) if topics else {}
    answers: dict[Right, bool | None] = {}
    for (kind, operation), names in asked.items():
        left = []
        for name in names:
            allowed = operation in shown.get(name, ()) if kind is ResourceKind.TOPIC else False
            if allowed or (name in shown and operation is not Operation.CREATE):
                answers[Right(kind, name, operation)] = allowed
            else:
                left.append(name)
        for name, is_allowed in _asked(caller, kind, operation, left).items():
            answers[Right(kind, name, operation)] = is_allowed
    return answers


def _order(right: Right) -> tuple[str, str, str]:
    return right.kind.value, right.name, right.operation.value


def _shown_topics(caller: Caller, names: Sequence[str]) -> dict[str, frozenset[Operation]]:
    """Operations on those topics that exist and that we may describe."""
    kind = MetadataRequest.MetadataRequestTopic
    shown: dict[str, frozenset[Operation]] = {}
    for some in _parts(names):
        request = MetadataRequest(
            topics=[kind(name=name) for name in some],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            min_version=8,
        )
        for row in caller.send(request).topics:
            if row.error_code == 0:
                bits = row.authorized_operations or ()
                shown[row.name] = frozenset(
                    operation for operation, code in OPERATION_CODES.items() if code in bits
                )
    return shown


def _asked(
    caller: Caller, kind: ResourceKind, operation: Operation, names: Sequence[str]
) -> dict[str, bool | None]:
    ask = _PROBES.get((kind, operation))
    if not names or ask is None:
        return dict.fromkeys(names)
    answers: dict[str, bool | None] = dict.fromkeys(names)
    for some in _parts(names):
        try:
            codes = ask(caller, some)
        except BrokerError as error:
            codes = dict.fromkeys(some, error.kafka_code)
        for name, code in codes.items():
            if name in answers and code not in _UNCLEAR:
                answers[name] = code not in _REFUSED
    return answers


def _parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[first : first + MAY_NAMES] for first in range(0, len(names), MAY_NAMES))


def _code(answer: object) -> int:
    return answer.kafka_code if isinstance(answer, BrokerError) else 0


def _describe_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    return {row.name: row.error_code for row in caller.metadata(names).topics}


def _read_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    kind = FetchRequest.FetchTopic
    part = kind.FetchPartition(
        partition=NO_PARTITION,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )
    request = FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=name, partitions=[part]) for name in names],
        forgotten_topics_data=[],
        rack_id="",
        max_version=12,  # later ones name topics by id (KIP-516)
    )
    answer = caller.send(request)
    return {row.topic: part.error_code for row in answer.responses for part in row.partitions}


def _write_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1024)
    builder.append(0, 0, None, b"", [])
    batch = bytes(builder.build())
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=NO_PARTITION, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=ALL_IN_SYNC,
        timeout_ms=_WAIT_MS,
        topic_data=[kind(name=name, partition_data=[part]) for name in names],
        max_version=TOPIC_NAMES_UP_TO,
    )
    answer = caller.send(request)
    return {
        row.name: part.error_code for row in answer.responses for part in row.partition_responses
    }


def _delete_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    """Delete records of a partition that is not: it needs the right to delete the topic."""
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    part = kind.DeleteRecordsPartition(partition_index=NO_PARTITION, offset=0)
    request = DeleteRecordsRequest(
        topics=[kind(name=name, partitions=[part]) for name in names], timeout_ms=_WAIT_MS
    )
    answer = caller.send(request)
    return {row.name: part.error_code for row in answer.topics for part in row.partitions}


def _create_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    kind = CreateTopicsRequest.CreatableTopic
    rows = [
        kind(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    request = CreateTopicsRequest(topics=rows, timeout_ms=caller.timeout_ms, validate_only=True)
    return {row.name: row.error_code for row in caller.send_to_controller(request).topics}


def _alter_topics(caller: Caller, names: Sequence[str]) -> _Codes:
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    rows = [kind(name=name, count=1, assignments=None) for name in names]
    request = CreatePartitionsRequest(topics=rows, timeout_ms=caller.timeout_ms, validate_only=True)
    return {row.name: row.error_code for row in caller.send_to_controller(request).results}


def _describe_configs(caller: Caller, names: Sequence[str]) -> _Codes:
    answers = config_calls.describe_topics(caller, map(TopicName, names), ["cleanup.policy"])
    return {name: _code(answer) for name, answer in answers.items()}


def _alter_configs(caller: Caller, names: Sequence[str]) -> _Codes:
    changes = {TopicName(name): {"retention.ms": None} for name in names}
    answers = config_calls.alter_topics(caller, changes, validate_only=True)
    return {name: _code(answer) for name, answer in answers.items()}


def _describe_groups(caller: Caller, names: Sequence[str]) -> _Codes:
    """Ask any broker: it refuses before it says that another one coordinates the group."""
    request = DescribeGroupsRequest(groups=list(names))
    return {row.group_id: row.error_code for row in caller.send(request).groups}


def _read_groups(caller: Caller, names: Sequence[str]) -> _Codes:
    """Send the heartbeat of a member that no group has."""
    return {
        name: caller.send(
            HeartbeatRequest(group_id=name, generation_id=0, member_id=NOBODY)
        ).error_code
        for name in names
    }


def _write_ids(caller: Caller, names: Sequence[str]) -> _Codes:
    """End a transaction of a producer that is not."""
    return {
        name: caller.send(
            EndTxnRequest(
                transactional_id=name,
                producer_id=NO_PRODUCER,
                producer_epoch=0,
                committed=False,
                max_version=3,
            )
        ).error_code
        for name in names
    }


def _describe_ids(caller: Caller, names: Sequence[str]) -> _Codes:
    answer = caller.send(DescribeTransactionsRequest(transactional_ids=list(names)))
    return {row.transactional_id: row.error_code for row in answer.transaction_states}


def _of_cluster(operation: Operation) -> Callable[[Caller, Sequence[str]], _Codes]:
    code = 7 if operation is Operation.ALTER else 8

    def ask(caller: Caller, names: Sequence[str]) -> _Codes:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=1)
        shown: Any = caller.send(request)
        is_there = code in (shown.authorized_operations or ())
        return dict.fromkeys(names, 0 if is_there else CLUSTER_AUTHORIZATION_FAILED)

    return ask


def _describe_broker(caller: Caller, names: Sequence[str]) -> _Codes:
    broker = BrokerId(caller.about(0.0).brokers[0].node_id)
    config_calls.describe_broker(caller, broker)  # raises the refusal
    return dict.fromkeys(names, 0)


def _alter_quotas(caller: Caller, names: Sequence[str]) -> _Codes:
    nobody = QuotaEntity.of({"user": NOBODY})
    changes = {nobody: {"consumer_byte_rate": 1e9}}
    answers = quota_calls.alter(caller, changes, validate_only=True)
    return dict.fromkeys(names, max(map(_code, answers.values()), default=0))


def _write_markers(caller: Caller, names: Sequence[str]) -> _Codes:
    return dict.fromkeys(names, _code(offset_calls.check_markers(caller)))


_PROBES: Mapping[tuple[ResourceKind, Operation], Callable[[Caller, Sequence[str]], _Codes]] = {
    (ResourceKind.TOPIC, Operation.DESCRIBE): _describe_topics,
    (ResourceKind.TOPIC, Operation.READ): _read_topics,
    (ResourceKind.TOPIC, Operation.WRITE): _write_topics,
    (ResourceKind.TOPIC, Operation.DELETE): _delete_topics,
    (ResourceKind.TOPIC, Operation.CREATE): _create_topics,
    (ResourceKind.TOPIC, Operation.ALTER): _alter_topics,
    (ResourceKind.TOPIC, Operation.DESCRIBE_CONFIGS): _describe_configs,
    (ResourceKind.TOPIC, Operation.ALTER_CONFIGS): _alter_configs,
    (ResourceKind.GROUP, Operation.DESCRIBE): _describe_groups,
    (ResourceKind.GROUP, Operation.READ): _read_groups,
    (ResourceKind.TRANSACTIONAL_ID, Operation.DESCRIBE): _describe_ids,
    (ResourceKind.TRANSACTIONAL_ID, Operation.WRITE): _write_ids,
    (ResourceKind.CLUSTER, Operation.ALTER): _of_cluster(Operation.ALTER),
    (ResourceKind.CLUSTER, Operation.DESCRIBE): _of_cluster(Operation.DESCRIBE),
    (ResourceKind.CLUSTER, Operation.DESCRIBE_CONFIGS): _describe_broker,
    (ResourceKind.CLUSTER, Operation.ALTER_CONFIGS): _alter_quotas,
    (ResourceKind.CLUSTER, Operation.CLUSTER_ACTION): _write_markers,
}
