"""Kafka's nouns as types. Ranges of offsets are half-open: `[start, end)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

from typing_extensions import override

TopicName = NewType("TopicName", str)
PartitionId = NewType("PartitionId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
Alias = NewType("Alias", str)
"""The operator's name for a cluster, e.g. `summit`."""
ClusterId = NewType("ClusterId", str)
"""The id a cluster gave itself when it was formatted."""
GroupId = NewType("GroupId", str)
"""A group of consumers, by the name it gives itself."""
LinkName = NewType("LinkName", str)
LaneId = NewType("LaneId", int)
TopicId = UUID
"""KIP-516: unlike its name, a topic's id does not survive deletion and re-creation."""


def id_text(topic_id: TopicId | None) -> str:
    """A topic id as state topics hold it; empty before Kafka 2.8, which has none."""
    return "" if topic_id is None else str(topic_id)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic on one side of a link."""

    topic: TopicName
    partition: PartitionId

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[start, end)` of one partition; `end` itself is not in it."""

    partition: TopicPartition
    start: Offset
    end: Offset

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
