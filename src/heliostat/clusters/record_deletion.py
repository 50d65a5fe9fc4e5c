"""DeleteRecords (KIP-107): raises the log starts of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest

from heliostat.names import Offset, TopicName, TopicPartition


def deletion_request(before: Mapping[TopicPartition, Offset], timeout_ms: int) -> Any:
    """Request to delete the records before these offsets; one broker leads all partitions."""
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    topics: dict[TopicName, list[Any]] = defaultdict(list)
    for partition, offset in before.items():
        topics[partition.topic].append(
            kind.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        )
    return DeleteRecordsRequest(
        topics=[kind(name=name, partitions=rows) for name, rows in topics.items()],
        timeout_ms=timeout_ms,
    )
