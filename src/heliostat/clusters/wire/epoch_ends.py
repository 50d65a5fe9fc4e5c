"""Where leader epochs ended, asked of the leader of partitions (OffsetForLeaderEpoch, KIP-101)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from heliostat.clusters.kafka_codes import CONSUMER
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition

VERSION_MAX = 4
NO_END = Offset(-1)
"""The leader knows no epoch so old."""


def epoch_ends(
    cluster: WireCluster, broker: BrokerId, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Offset]:
    """Return where these epochs, or the last ones before them, ended; refused ones are missing.

    Parameters
    ----------
    cluster, broker
        The cluster, and the leader of all these partitions.
    epochs
        The epoch of each.

    Raises
    ------
    ConnectionLost
        The broker did not answer.
    """
    if not epochs:
        return {}
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[TopicName, list[Any]] = defaultdict(list)
    for partition, epoch in epochs.items():
        topics[partition.topic].append(
            kind.OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=cluster.epochs.of(partition),
                leader_epoch=epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[kind(topic=name, partitions=rows) for name, rows in topics.items()],
    )
    [answer] = cluster.brokers.known(broker).exchange(
        [request], OffsetForLeaderEpochResponse, VERSION_MAX
    )
    return {
        TopicPartition(TopicName(topic.topic), PartitionId(row.partition)): Offset(row.end_offset)
        for topic in answer.topics
        for row in topic.partitions
        if not row.error_code
    }
