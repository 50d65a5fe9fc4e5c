"""Answers of clusters, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError
from heliostat.names import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    ProducerId,
    TopicId,
    TopicName,
)

NO_OFFSET = Offset(-1)
"""ListOffsets by time: there is no record at or after it."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that is alive, and its address for clients."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition in the cluster's metadata.

    While there is no leader, `leader` is None and `error` says why.
    """

    partition: PartitionId
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    error: BrokerError | None = None


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic; with an `error` (forbidden, no such topic) nothing else is known.

    `topic_id` is None on brokers older than 2.8, which have none (KIP-516).
    """

    name: TopicName
    topic_id: TopicId | None
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool
    error: BrokerError | None = None

    @property
    def replication_factor(self) -> int:
        """Replicas of the partition that has the most; 0 without partitions."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def is_missing(self) -> bool:
        """Whether there is no such topic, by the word of whoever was asked."""
        return self.error is not None and self.error.kafka_code == UNKNOWN_TOPIC_OR_PARTITION


class ConfigSource(IntEnum):
    """Where a setting's value comes from (`DescribeConfigsResponse.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    OTHER = 6


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting in effect; `value` is None if it is secret."""

    value: str | None
    source: ConfigSource
    is_default: bool
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_own(self) -> bool:
        """Whether the topic itself sets it, rather than inheriting it."""
        return self.source is ConfigSource.TOPIC


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker's defaults."""

    name: TopicName
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[PartitionId, tuple[BrokerId, ...]] = field(default_factory=dict)
    """The brokers of each partition, in place of both numbers."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """Answer of ListOffsets; `offset` is `NO_OFFSET` if no record is young enough."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A producer's transaction that has not ended yet at a partition's leader (KIP-664)."""

    producer_id: ProducerId
    first: Offset
    """Offset of its first record in the partition."""
    last_timestamp_ms: int
    """Timestamp of the producer's last batch there."""


@dataclass(frozen=True, slots=True, order=True)
class ActiveProducer:
    """An idempotent producer as a partition's leader remembers it (KIP-664)."""

    producer_id: ProducerId
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_from: Offset | None = None
    """Offset of the first record of its open transaction there; None: none is open."""


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """Transactional ids that a cluster's brokers list, and what of them may be missing.

    Parameters
    ----------
    names
        By producer id.
    failed
        Brokers that list none, and why.
    """

    names: Mapping[ProducerId, str]
    failed: Mapping[BrokerId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Answer of OffsetForLeaderEpoch: the newest epoch up to the requested one, and its end.

    Both are -1 if the broker knows no epoch that old.
    """

    epoch: LeaderEpoch
    end: Offset
