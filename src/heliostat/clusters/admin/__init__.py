"""Everything asked of a cluster that is not the hot path: topics, settings, offsets, ids.

`ClusterAdmin` is the door and the one adapter over kafka-python; answers are frozen values of ours
and an item that failed is a `BrokerError` in its place, never the failure of its neighbours.
"""

from heliostat.clusters.admin.cluster_admin import ClusterAdmin
from heliostat.clusters.admin.group_values import (
    CommittedOffset,
    GroupListing,
    GroupMember,
    ListedGroup,
)
from heliostat.clusters.admin.values import (
    NO_OFFSET,
    BrokerInfo,
    ConfigEntry,
    ConfigSource,
    EpochEnd,
    ListedOffset,
    NewTopic,
    OpenTransaction,
    PartitionInfo,
    TopicInfo,
)
from heliostat.clusters.kafka_codes import EARLIEST, LATEST

__all__ = [
    "EARLIEST",
    "LATEST",
    "NO_OFFSET",
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
]
