"""What was observed at both clusters, and the link's records of its mirrors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from heliostat.clusters.admin import ConfigEntry, PartitionInfo
from heliostat.errors import BrokerError
from heliostat.names import (
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.given_starts import NO_STARTS, GivenStarts


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A selected topic at the source; `configs` are the settings in effect."""

    name: TopicName
    topic_id: TopicId | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]
    is_internal: bool = False

    @property
    def is_compacted(self) -> bool:
        """Whether records are removed that have a later one with their key."""
        policy = self.configs.get("cleanup.policy")
        return "compact" in ((policy.value if policy else None) or "")


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """The source, observed once.

    `names` are all topics there, selected or not; `unreadable` are selected ones that the source
    does not let us read; `at_beginning` those that existed when the link began, None if it begins
    now: topics that came later are copied from their beginning. `feeds` are topics there that other
    links write, `leaderless` links' state topics that no broker leads now. `given` is where new
    mirrors begin by a group or a file.
    """

    cluster_id: ClusterId
    names: tuple[TopicName, ...]
    topics: Mapping[TopicName, SourceTopic]
    unreadable: Mapping[TopicName, BrokerError] = field(default_factory=dict)
    at_beginning: frozenset[TopicName] | None = None
    feeds: tuple[Feed, ...] = ()
    leaderless: frozenset[TopicName] = frozenset()
    given: GivenStarts = NO_STARTS

    def is_later(self, topic: TopicName) -> bool:
        """Whether a topic came after the link began."""
        return self.at_beginning is not None and topic not in self.at_beginning


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic at the target; a partition's log end is missing if it was not read."""

    name: TopicName
    topic_id: TopicId | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]
    ends: Mapping[PartitionId, Offset]

    def is_known(self, slot: Slot = WHOLE_TOPIC) -> bool:
        """Whether the ends of all its partitions, or of a slot's, are known."""
        return all(number in self.ends for number in self._numbers(slot))

    def was_written(self, slot: Slot = WHOLE_TOPIC) -> bool:
        """Whether it, or a slot of it, has or had records; also if that is not known."""
        return not self.is_known(slot) or any(self.ends[n] > 0 for n in self._numbers(slot))

    def _numbers(self, slot: Slot) -> Iterator[PartitionId]:
        numbers = map(PartitionId, range(self.partitions))
        return (number for number in numbers if slot.source_partition(number) is not None)


@dataclass(frozen=True, slots=True)
class TargetTopics:
    """The target, observed once: those of the requested topics that exist.

    `inherited` are the settings that a new topic would have; empty if it does not report them.
    `colliding` are requested topics that can't be created, each with the existing one whose name
    differs only in `.` and `_`.
    """

    cluster_id: ClusterId
    broker_count: int
    topics: Mapping[TopicName, TargetTopic]
    inherited: Mapping[str, str | None] = field(default_factory=dict)
    unreadable: Mapping[TopicName, BrokerError] = field(default_factory=dict)
    colliding: Mapping[TopicName, TopicName] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """A topic of a cluster, by cluster id: links may use different aliases for it."""

    cluster: ClusterId
    topic: TopicName


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """A link's record of one mirror, by which it recognises its own.

    Parameters
    ----------
    source_id, target_id
        Ids of the topics; None before Kafka 2.8, and of a target topic that is not created yet.
    source_cluster
        The source that the records came from.
    start
        Start policy when the mirror was created: `earliest`, `latest` or ms since the epoch.
    given
        Where partitions begin instead, by a group's or a file's offsets.
    initial_partitions
        Partitions that the policy holds for; later ones are copied from their beginning.
    synced_configs
        Settings that this link set at the target, and may unset again.
    slot
        Which partitions of the target topic are the mirror's.
    through
        Where its records had been before the source, nearest first: the topics from which other
        links copied them.
    is_returned
        Whether the mirror is the topic that the source's was copied from, by `reverse`.
    is_merged
        Whether others write it as well: the target's producers, and links from other sites.
    """

    source: TopicName
    target: TopicName
    source_id: TopicId | None
    target_id: TopicId | None
    source_cluster: ClusterId
    start: str
    initial_partitions: int
    synced_configs: tuple[str, ...] = ()
    slot: Slot = WHOLE_TOPIC
    through: tuple[ClusterTopic, ...] = ()
    given: Mapping[PartitionId, Offset] = field(default_factory=dict)
    is_returned: bool = False
    is_merged: bool = False

    def mirror_of(self, partition: PartitionId) -> TopicPartition:
        """Target partition of a source partition."""
        return TopicPartition(self.target, self.slot.target_partition(partition))

    def own(self, targets: Iterable[PartitionInfo]) -> dict[TopicPartition, PartitionId]:
        """Partitions of the target topic that are the mirror's, each with its source partition."""
        pairs = (
            (partition.partition, self.slot.source_partition(partition.partition))
            for partition in targets
        )
        return {TopicPartition(self.target, n): source for n, source in pairs if source is not None}

    def to_json(self) -> dict[str, Any]:
        """As JSON, for the state topic."""
        return {
            "source": self.source,
            "target": self.target,
            "source_id": None if self.source_id is None else str(self.source_id),
            "target_id": None if self.target_id is None else str(self.target_id),
            "source_cluster": self.source_cluster,
            "start": self.start,
            "initial_partitions": self.initial_partitions,
            "synced_configs": list(self.synced_configs),
            **({"slot": [self.slot.number, self.slot.of]} if self.slot.is_shared else {}),
            **({"through": [[p.cluster, p.topic] for p in self.through]} if self.through else {}),
            **(
                {"given": {str(n): offset for n, offset in self.given.items()}}
                if self.given
                else {}
            ),
            **({"is_returned": True} if self.is_returned else {}),
            **({"is_merged": True} if self.is_merged else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MirrorRecord:
        """Parse what `to_json` returned."""
        return cls(
            source=TopicName(value["source"]),
            target=TopicName(value["target"]),
            source_id=None if value["source_id"] is None else UUID(value["source_id"]),
            target_id=None if value["target_id"] is None else UUID(value["target_id"]),
            source_cluster=ClusterId(value["source_cluster"]),
            start=str(value["start"]),
            initial_partitions=int(value["initial_partitions"]),
            synced_configs=tuple(value["synced_configs"]),
            slot=Slot(*value.get("slot", ())),
            through=tuple(
                ClusterTopic(ClusterId(cluster), TopicName(topic))
                for cluster, topic in value.get("through", ())
            ),
            given={
                PartitionId(int(n)): Offset(offset) for n, offset in value.get("given", {}).items()
            },
            is_returned=value.get("is_returned") is True,
            is_merged=value.get("is_merged") is True,
        )


@dataclass(frozen=True, slots=True)
class Feed:
    """A source topic that another link writes, by that link's state there.

    Parameters
    ----------
    link
        The link whose mirror it is.
    has_begun
        Whether records may have been copied; otherwise it is only claimed, or about to be created.
    """

    link: LinkName
    record: MirrorRecord
    has_begun: bool

    @property
    def places(self) -> tuple[ClusterTopic, ...]:
        """Where its records have been, nearest first."""
        return (ClusterTopic(self.record.source_cluster, self.record.source), *self.record.through)
