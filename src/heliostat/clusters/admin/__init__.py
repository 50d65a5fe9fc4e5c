"""Requests to a cluster outside the hot path: topics, settings, offsets, groups, ids.

`ClusterAdmin` sends them over lent connections. Answers are frozen values of ours; an item that
failed has a `BrokerError` in its place, and the other items have their answers.
"""

from heliostat.clusters.admin.cluster_admin import LATELY_S, ClusterAdmin
from heliostat.clusters.admin.group_values import (
    CommittedOffset,
    GroupListing,
    GroupMember,
    ListedGroup,
)
from heliostat.clusters.admin.values import (
    NO_OFFSET,
    ActiveProducer,
    BrokerInfo,
    ConfigEntry,
    ConfigSource,
    EpochEnd,
    ListedOffset,
    NewTopic,
    OpenTransaction,
    PartitionInfo,
    TopicInfo,
    TransactionNames,
)
from heliostat.clusters.kafka_codes import EARLIEST, LATEST

__all__ = [
    "EARLIEST",
    "LATELY_S",
    "LATEST",
    "NO_OFFSET",
    "ActiveProducer",
    "BrokerInfo",
    "ClusterAdmin",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigSource",
    "EpochEnd",
    "GroupListing",
    "GroupMember",
    "ListedGroup",
    "ListedOffset",
    "NewTopic",
    "OpenTransaction",
    "PartitionInfo",
    "TopicInfo",
    "TransactionNames",
]
