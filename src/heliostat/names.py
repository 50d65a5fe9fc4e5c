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
"""The cluster's id, generated when it was formatted."""
GroupId = NewType("GroupId", str)
"""A consumer group's id."""
LinkName = NewType("LinkName", str)
LaneId = NewType("LaneId", int)
TopicId = UUID
"""KIP-516: unlike its name, a topic's id does not survive deletion and recreation."""


def id_text(topic_id: TopicId | None) -> str:
    """A topic id as state topics hold it; empty before Kafka 2.8, which has none.

    Rows of state topics are matched by it, with `==`. To check whether a cluster's topic is still
    the one that a row names, use `is_another` or `is_still`.
    """
    return "" if topic_id is None else str(topic_id)


def metric_name(topic: str) -> str:
    """Return a topic's name as metrics spell it: brokers refuse a second topic of the same one.

    Names that differ only in `.` and `_` collide (`Topic.hasCollision`); case makes no difference
    to brokers, nor do other characters.
    """
    return topic.replace(".", "_")


_UNKNOWN = frozenset({None, UUID(int=0), "", str(UUID(int=0))})
"""Values of an unknown id: None, the zeros of responses, and both as text."""


def is_another(was: TopicId | str | None, now: TopicId | str | None) -> bool:
    """Whether a topic of this name was certainly recreated: both ids are known and differ.

    An id is unknown before Kafka 2.8, with an older `inter.broker.protocol.version`, or if nobody
    has asked yet. It proves nothing, so the answer is no. This is for work that continues by name
    unless there is evidence against it: copying (which I1 also protects), claims, and what is
    shown. Code that deletes or appends by name, or publishes positions, uses `is_still`.
    """
    return was not in _UNKNOWN and now not in _UNKNOWN and was != now


def is_still(was: TopicId | str | None, now: TopicId | str | None) -> bool:
    """Whether a topic of this name is still the same as when a decision about it was made.

    An id that was known must be seen again: one that is unknown now proves nothing, and a wrong no
    costs a wait, a wrong yes may cost records. If no id was known, only the name can be compared.
    """
    return was in _UNKNOWN or was == now


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
    """Host and port of a broker's listener."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
