"""Appends batches as they are.

kafka-python's producer refuses null headers, and null keys without a value: both are records like
any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.producer import ProduceRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.leaders import OffsetLeaders
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, Offset, TopicName, TopicPartition

ALL_IN_SYNC = -1
TOPIC_NAMES_UP_TO = 12
"""Version of Produce; later ones name topics by id (KIP-516)."""


def append(
    caller: Caller, leaders: OffsetLeaders, batches: Mapping[TopicPartition, bytes]
) -> dict[TopicPartition, Offset | BrokerError]:
    """Append a batch to each partition, durable on all replicas in sync; see `ClusterAdmin`."""

    def ask(
        leader: BrokerId, those: list[TopicPartition]
    ) -> dict[TopicPartition, Offset | BrokerError]:
        kind = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=None,
            acks=ALL_IN_SYNC,
            timeout_ms=caller.timeout_ms,
            topic_data=[
                kind(
                    name=partition.topic,
                    partition_data=[
                        kind.PartitionProduceData(
                            index=partition.partition, records=batches[partition]
                        )
                    ],
                )
                for partition in those
            ],
            max_version=TOPIC_NAMES_UP_TO,
        )
        answers: dict[TopicPartition, Offset | BrokerError] = {}
        for topic in caller.send(request, leader).responses:
            for row in topic.partition_responses:
                partition = TopicPartition(TopicName(topic.name), row.index)
                error = error_of(row.error_code, f"append to {partition}", row.error_message)
                answers[partition] = error or Offset(row.base_offset)
        return answers

    return leaders.ask_each(batches, ask)
