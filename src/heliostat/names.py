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
    """A topic id as state topics hold it; empty before Kafka 2.8, which has none.

    Rows of ours are found by it, with `==`. Whether a cluster's topic is still the one that they
    speak of is another question: see `is_another` and `is_still`.
    """
    return "" if topic_id is None else str(topic_id)


_UNKNOWN = frozenset({None, UUID(int=0), "", str(UUID(int=0))})
"""An id that is not known: decoded, as responses have it, and both as text."""


def is_another(was: TopicId | str | None, now: TopicId | str | None) -> bool:
    """Whether a topic of this name is proved to be another one now: both ids are known and differ.

    An id is unknown before Kafka 2.8, with an older `inter.broker.protocol.version`, or where
    nobody has asked yet. It proves nothing, so the answer is no: for what goes on by name unless
    there is a reason not to (copying, which has I1 besides, claims, what is shown). What deletes
    or appends by name, or tells others where to go on, asks `is_still`.
    """
    return was not in _UNKNOWN and now not in _UNKNOWN and was != now


def is_still(was: TopicId | str | None, now: TopicId | str | None) -> bool:
    """Whether a topic of this name is still the one that something was decided about.

    An id that was known must be there again: one that is unknown now proves nothing, and a no costs
    a wait, a yes may cost records. Where none was known the name is all that there is to go by.
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
    """Where a broker listens."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
