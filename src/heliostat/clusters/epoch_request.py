"""OffsetForLeaderEpoch (KIP-101): where leader epochs ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from heliostat.clusters.kafka_codes import CONSUMER
from heliostat.names import TopicName, TopicPartition


def epoch_end_request(
    epochs: Mapping[TopicPartition, int], current_of: Callable[[TopicPartition], int]
) -> Any:
    """Request of a consumer for where these epochs ended; one broker leads all partitions.

    Parameters
    ----------
    current_of
        Returns the leader epoch that the leader must have now (-1: any).
    """
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[TopicName, list[Any]] = defaultdict(list)
    for partition, epoch in epochs.items():
        topics[partition.topic].append(
            kind.OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=current_of(partition),
                leader_epoch=epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[kind(topic=name, partitions=rows) for name, rows in topics.items()],
        min_version=2,  # the first one with the leader's own epoch
    )
