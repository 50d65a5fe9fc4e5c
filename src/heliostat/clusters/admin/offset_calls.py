"""Requests that only a partition's leader answers, about offsets; producer ids; markers."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.producer import InitProducerIdRequest, WriteTxnMarkersRequest

from heliostat.clusters.admin import topic_calls
from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.leaders import Answers, OffsetLeaders
from heliostat.clusters.admin.values import EpochEnd, ListedOffset
from heliostat.clusters.epoch_request import epoch_end_request
from heliostat.clusters.kafka_codes import CONSUMER, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.record_deletion import deletion_request
from heliostat.errors import BrokerError
from heliostat.names import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)

LOAD_IN_PROGRESS = 14  # a broker that was just started first fetches a block of ids
PRODUCER_ID_TRIES = 100  # 10 s, far more than fetching a block takes
PRODUCER_ID_PAUSE_S = 0.1
NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1  # ignored without a transactional id, must be positive


def list_offsets(
    caller: Caller,
    leaders: OffsetLeaders,
    specs: Mapping[TopicPartition, int],
    *,
    replica_id: int = CONSUMER,
    confirmed: bool = False,
) -> Answers[ListedOffset]:
    """ListOffsets by spec: `EARLIEST`, `LATEST` or a time in ms."""

    def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Answers[ListedOffset]:
        kind = ListOffsetsRequest.ListOffsetsTopic
        topics: dict[TopicName, list[Any]] = defaultdict(list)
        for partition in partitions:
            topics[partition.topic].append(
                kind.ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=leaders.epochs.of(partition),
                    timestamp=specs[partition],
                )
            )
        request = ListOffsetsRequest(
            replica_id=replica_id,
            isolation_level=0,
            topics=[kind(name=name, partitions=rows) for name, rows in topics.items()],
            timeout_ms=caller.timeout_ms,
            min_version=1,
        )
        return {
            TopicPartition(TopicName(topic.name), PartitionId(row.partition_index)): _listed(
                topic.name, row
            )
            for topic in caller.send(request, leader).topics
            for row in topic.partitions
        }

    return leaders.ask_each(specs, ask, confirmed=confirmed)


def _listed(topic: str, row: Any) -> ListedOffset | BrokerError:
    error = error_of(row.error_code, f"list offsets of {topic}-{row.partition_index}")
    return error or ListedOffset(
        offset=Offset(row.offset),
        timestamp_ms=row.timestamp,
        leader_epoch=LeaderEpoch(getattr(row, "leader_epoch", -1)),
    )


def delete_records(
    caller: Caller, leaders: OffsetLeaders, before: Mapping[TopicPartition, Offset]
) -> Answers[Offset]:
    """Delete records before an offset; return the new start of each log."""

    def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Answers[Offset]:
        asked = {partition: before[partition] for partition in partitions}
        request = deletion_request(asked, caller.timeout_ms)
        return {
            TopicPartition(TopicName(topic.name), PartitionId(row.partition_index)): error_of(
                row.error_code, f"delete records of {topic.name}-{row.partition_index}"
            )
            or Offset(row.low_watermark)
            for topic in caller.send(request, leader).topics
            for row in topic.partitions
        }

    return leaders.ask_each(before, ask)


def epoch_ends(
    caller: Caller,
    leaders: OffsetLeaders,
    epochs: Mapping[TopicPartition, int],
    *,
    confirmed: bool = False,
) -> Answers[EpochEnd]:
    """OffsetForLeaderEpoch (KIP-101): end offsets of leader epochs."""

    def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Answers[EpochEnd]:
        asked = {partition: epochs[partition] for partition in partitions}
        request = epoch_end_request(asked, leaders.epochs.of)
        return {
            TopicPartition(TopicName(topic.topic), PartitionId(row.partition)): error_of(
                row.error_code, f"ask {topic.topic}-{row.partition} for a leader epoch's end"
            )
            or EpochEnd(LeaderEpoch(row.leader_epoch), Offset(row.end_offset))
            for topic in caller.send(request, leader).topics
            for row in topic.partitions
        }

    return leaders.ask_each(epochs, ask, confirmed=confirmed)


def init_producer_id(caller: Caller) -> ProducerId:
    """A producer id that no other producer of this cluster has.

    Raises
    ------
    BrokerError
        The broker returned none.
    """
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    response = caller.send(request)
    for _ in range(PRODUCER_ID_TRIES):
        if response.error_code != LOAD_IN_PROGRESS:
            break
        time.sleep(PRODUCER_ID_PAUSE_S)
        response = caller.send(request)
    error = error_of(response.error_code, "get a producer id")
    if error is not None:
        raise error
    return ProducerId(response.producer_id)


def check_markers(caller: Caller) -> BrokerError | None:
    """None if we may write transaction markers (WriteTxnMarkers), else why not.

    It names a topic that never exists: who has the permission gets UNKNOWN_TOPIC_OR_PARTITION.
    """
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    marker = kind(
        producer_id=0,
        producer_epoch=0,
        transaction_result=True,
        topics=[kind.WritableTxnMarkerTopic(name=topic_calls.PROBE_TOPIC, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    answer = caller.send(WriteTxnMarkersRequest(markers=[marker], max_version=1))
    codes = {row.error_code for m in answer.markers for t in m.topics for row in t.partitions}
    code = max(codes - {UNKNOWN_TOPIC_OR_PARTITION}, default=0)
    return error_of(code, "write transaction markers")
