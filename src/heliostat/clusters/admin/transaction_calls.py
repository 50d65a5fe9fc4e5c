"""Open transactions of partitions, and their transactional ids (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.leaders import OffsetLeaders
from heliostat.clusters.admin.values import ActiveProducer, OpenTransaction, TransactionNames
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.kafka_error_names import KAFKA_ERROR_NAMES
from heliostat.names import BrokerId, Offset, PartitionId, ProducerId, TopicName, TopicPartition

Open = tuple[OpenTransaction, ...]
Active = tuple[ActiveProducer, ...]
_Read = TypeVar("_Read")


class TransactionAdmin:
    """Queries about producers and their transactions; `ClusterAdmin` is one."""

    _caller: Caller
    _leaders: OffsetLeaders

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Open | BrokerError]:
        """Transactions that have not ended yet, oldest first; brokers from 2.8 on report them."""
        return open_transactions(self._caller, self._leaders, partitions)

    def active_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Active | BrokerError]:
        """Idempotent producers that leaders remember, from 2.8 on."""
        return active_producers(self._caller, self._leaders, partitions)

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        """Transactional ids of these producers, without those that brokers don't show us."""
        return self.transaction_names(producers).names

    def transaction_names(self, producers: Iterable[ProducerId]) -> TransactionNames:
        """As `transactional_ids`, with the brokers that don't list any."""
        brokers = sorted(BrokerId(row.node_id) for row in self._caller.about(0.0).brokers)
        return transaction_names(self._caller, brokers, producers)


def open_transactions(
    caller: Caller, leaders: OffsetLeaders, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Open | BrokerError]:
    """Open transactions by partition, oldest first; brokers from 2.8 on report them."""
    return _described(caller, leaders, partitions, _open_of)


def active_producers(
    caller: Caller, leaders: OffsetLeaders, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Active | BrokerError]:
    """Producers by partition, by id."""
    return _described(caller, leaders, partitions, _active_of)


def _described(
    caller: Caller,
    leaders: OffsetLeaders,
    partitions: Iterable[TopicPartition],
    read: Callable[[Any], _Read],
) -> dict[TopicPartition, _Read | BrokerError]:
    """Ask the leaders for producers, and read each partition's row."""

    def ask(
        leader: BrokerId, some: list[TopicPartition]
    ) -> dict[TopicPartition, _Read | BrokerError]:
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


def _active_of(row: Any) -> Active:
    return tuple(
        sorted(
            ActiveProducer(
                ProducerId(producer.producer_id),
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                None
                if producer.current_txn_start_offset < 0
                else Offset(producer.current_txn_start_offset),
            )
            for producer in row.active_producers
        )
    )


def _open_of(row: Any) -> Open:
    transactions = [
        OpenTransaction(
            ProducerId(producer.producer_id),
            Offset(producer.current_txn_start_offset),
            producer.last_timestamp,
        )
        for producer in row.active_producers
        if producer.current_txn_start_offset >= 0
    ]
    return tuple(sorted(transactions, key=lambda transaction: transaction.first))


def transaction_names(
    caller: Caller, brokers: Iterable[BrokerId], producers: Iterable[ProducerId]
) -> TransactionNames:
    """Transactional ids of these producers, without those that brokers don't show us.

    Each broker lists those that it coordinates (ListTransactions, Kafka 3.0), of which we may
    describe. A broker that is down or older lists none, and callers have only the producer id.
    """
    wanted = sorted(set(producers))
    names: dict[ProducerId, str] = {}
    failed: dict[BrokerId, str] = {}
    for broker in brokers if wanted else ():
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=wanted, max_version=0
        )
        try:
            answer = caller.send(request, broker)
        except (BrokerError, ConnectionLost) as error:
            failed[broker] = error.text
            continue
        if answer.error_code:
            failed[broker] = KAFKA_ERROR_NAMES.get(answer.error_code, str(answer.error_code))
        for row in answer.transaction_states:
            names[ProducerId(row.producer_id)] = row.transactional_id
    return TransactionNames(names, failed)
