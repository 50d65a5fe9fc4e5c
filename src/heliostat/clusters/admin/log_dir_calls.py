"""Sizes of partitions' logs, as each broker has them on its disks (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.protocol.admin import DescribeLogDirsRequest

from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.each_broker import each_broker
from heliostat.errors import HeliostatError
from heliostat.names import BrokerId, PartitionId, TopicName, TopicPartition

Sizes = Mapping[TopicPartition, int]
"""Bytes of segments by partition; what is tiered away is not among them."""


def log_sizes(caller: Caller) -> dict[BrokerId, Sizes | HeliostatError]:
    """Return the sizes of all replicas that each broker has, or why it does not tell.

    It needs Describe on the cluster: without, brokers answer that nothing is there.

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    return each_broker(caller, lambda broker: _of_broker(caller, broker))


def _of_broker(caller: Caller, broker: BrokerId) -> Sizes:
    answer = caller.send(DescribeLogDirsRequest(topics=None), broker)
    error = error_of(getattr(answer, "error_code", 0), "describe log folders")
    if error is not None:
        raise error
    return {
        TopicPartition(TopicName(topic.name), PartitionId(part.partition_index)): (
            part.partition_size
        )
        for folder in answer.results
        for topic in folder.topics
        for part in topic.partitions
        if not part.is_future_key
    }
