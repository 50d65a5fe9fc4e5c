"""Where leader epochs ended, asked of the leader of partitions (OffsetForLeaderEpoch, KIP-101)."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from heliostat.clusters.epoch_request import epoch_end_request
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition

VERSION_MAX = 4


def epoch_ends(
    cluster: WireCluster, broker: BrokerId, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Offset]:
    """Return where these epochs, or the last ones before them, ended; refused ones are missing.

    -1: the leader knows no epoch so old.

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
    request = epoch_end_request(epochs, cluster.epochs.of)
    [answer] = cluster.brokers.known(broker).exchange(
        [request], OffsetForLeaderEpochResponse, VERSION_MAX
    )
    return {
        TopicPartition(TopicName(topic.topic), PartitionId(row.partition)): Offset(row.end_offset)
        for topic in answer.topics
        for row in topic.partitions
        if not row.error_code
    }
