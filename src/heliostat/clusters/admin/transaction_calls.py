"""Open transactions of partitions, and their transactional ids (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.leaders import OffsetLeaders
from heliostat.clusters.admin.values import OpenTransaction
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, ProducerId, TopicName, TopicPartition

Open = tuple[OpenTransaction, ...]
_Value = TypeVar("_Value")


def open_transactions(
    caller: Caller, leaders: OffsetLeaders, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Open | BrokerError]:
    """Open transactions by partition, oldest first; brokers from 2.8 on report them."""
    return _describe_producers(caller, leaders, partitions, _open_of)


def last_sequences(
    caller: Caller, leaders: OffsetLeaders, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Mapping[ProducerId, int] | BrokerError]:
    """Last sequence of each producer that the leader remembers, by partition."""

    def read(row: Any) -> Mapping[ProducerId, int]:
        return {ProducerId(each.producer_id): each.last_sequence for each in row.active_producers}

    return _describe_producers(caller, leaders, partitions, read)


def _describe_producers(
    caller: Caller,
    leaders: OffsetLeaders,
    partitions: Iterable[TopicPartition],
    read: Callable[[Any], _Value],
) -> dict[TopicPartition, _Value | BrokerError]:
    def ask(
        leader: BrokerId, some: list[TopicPartition]
    ) -> dict[TopicPartition, _Value | BrokerError]:
        numbers: dict[TopicName, list[int]] = defaultdict(list)
        for partition in some:
            numbers[partition.topic].append(partition.partition)
        kind = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[kind(name=name, partition_indexes=rows) for name, rows in numbers.items()]
        )
        return {
            TopicPartition(TopicName(topic.name), PartitionId(row.partition_index)): error_of(
                row.error_code,
                f"ask {topic.name}-{row.partition_index} for producers",
                row.error_message,
            )
            or read(row)
            for topic in caller.send(request, leader).topics
            for row in topic.partitions
        }

    return leaders.ask_each(partitions, ask)


def _open_of(row: Any) -> Open:
    found = [
        OpenTransaction(
            ProducerId(producer.producer_id),
            Offset(producer.current_txn_start_offset),
            producer.last_timestamp,
        )
        for producer in row.active_producers
        if producer.current_txn_start_offset >= 0
    ]
    return tuple(sorted(found, key=lambda each: each.first))


def transactional_ids(
    caller: Caller, brokers: Iterable[BrokerId], producers: Iterable[ProducerId]
) -> dict[ProducerId, str]:
    """Transactional ids of these producers, without those that brokers don't show us.

    Each broker lists those that it coordinates (ListTransactions, Kafka 3.0). A broker that is down
    or older lists none, and callers have only the producer id.
    """
    wanted = sorted(set(producers))
    found: dict[ProducerId, str] = {}
    for broker in brokers if wanted else ():
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=wanted, max_version=0
        )
        try:
            answer = caller.send(request, broker)
        except (BrokerError, ConnectionLost):
            continue
        for row in answer.transaction_states:
            found[ProducerId(row.producer_id)] = row.transactional_id
    return found
