"""Where both logs of partitions end now, asked by a status of a link that does not tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clusters.kafka_codes import CONSUMER, DEBUGGING_CONSUMER
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset, TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.status.lag import BothEnds, Ends

CLIENT_ID = "heliostat-status"
ANSWER_S = 1.0
"""A person waits: a broker that is slower is not asked twice."""


def read_ends(
    source: ClusterAccess, target: ClusterAccess, reports: Sequence[PartitionReport]
) -> Ends:
    """Return the ends of both logs of these partitions; those that can't be read are missing."""
    theirs = log_ends(source, [item.source for item in reports], CONSUMER)
    ours = log_ends(target, [item.target for item in reports], DEBUGGING_CONSUMER) if theirs else {}
    return {
        item.source: BothEnds(theirs[item.source], ours[item.target])
        for item in reports
        if item.source in theirs and item.target in ours
    }


def log_ends(
    access: ClusterAccess, partitions: Sequence[TopicPartition], replica_id: int
) -> Mapping[TopicPartition, Offset]:
    """Return where logs end, by their leaders; a cluster that does not answer tells nothing."""
    settings = DialSettings(CLIENT_ID, request_timeout_s=ANSWER_S)
    found: dict[TopicPartition, Offset] = {}
    with closing(WireCluster(access, settings)) as cluster:
        try:
            topics = cluster.metadata(sorted({each.topic for each in partitions}))
        except (ConnectionLost, BrokerError):
            return found
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for each in partitions:
            topic = topics.get(each.topic)
            leader = topic.partitions.get(each.partition) if topic and not topic.error else None
            if leader is not None and leader.broker >= 0:
                by_broker.setdefault(leader.broker, []).append(each)
        for answer in cluster.ranges_of(by_broker, replica_id=replica_id).values():
            if not isinstance(answer, ConnectionLost):
                ends = answer[1].items()
                found |= {at: end for at, end in ends if not isinstance(end, BrokerError)}
    return found
