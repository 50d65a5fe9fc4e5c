"""The controller's clock, by DescribeQuorum (KIP-836), and how old a cluster's brokers are."""

from __future__ import annotations

import time

from kafka.protocol.admin import DescribeQuorumRequest

from heliostat.clusters.admin.caller import Caller
from heliostat.errors import BrokerError

TOPIC = "__cluster_metadata"
RELEASES = (
    # API key, version of the request, and the first release that has it (Kafka's own schemas).
    (0, 13, "4.1"),  # Produce with topic ids
    (0, 12, "4.0"),  # Produce, KIP-890
    (1, 17, "3.9"),  # Fetch, as below
    (1, 16, "3.7"),
    (1, 15, "3.5"),
    (61, 0, "2.8"),  # DescribeProducers
    (3, 10, "2.8"),  # Metadata with topic ids
    (50, 0, "2.7"),  # DescribeUserScramCredentials
    (48, 0, "2.6"),  # DescribeClientQuotas
    (19, 5, "2.4"),  # CreateTopics with the new topic's settings
    (44, 0, "2.3"),  # IncrementalAlterConfigs
)
"""Newest first: a broker is at least of the first release whose request it knows."""


def clock_ahead_s(caller: Caller) -> float:
    """Return how far the active controller's clock is ahead of ours, in seconds, to half a trip.

    Raises
    ------
    BrokerError
        We may not see it (Describe on the cluster), or the cluster is older than 3.3.
    """
    kind = DescribeQuorumRequest.TopicData
    part = kind.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[kind(topic_name=TOPIC, partitions=[part])], min_version=1
    )
    began_ns = time.time_ns()
    answer = caller.send(request)
    ended_ns = time.time_ns()
    rows = [row for topic in answer.topics for row in topic.partitions]
    code = answer.error_code or next((row.error_code for row in rows), -1)
    times = [
        voter.last_fetch_timestamp
        for row in rows
        for voter in row.current_voters
        if voter.replica_id == row.leader_id
    ]
    if code or not times:
        raise BrokerError("the controller's clock is not shown", kafka_code=code or -1)
    return float(times[0]) / 1e3 - (began_ns + ended_ns) / 2e9


def oldest_release(caller: Caller) -> str:
    """Return a release that the broker which answers is not older than; empty: older than 2.3."""
    versions = caller.versions()
    return next(
        (name for key, version, name in RELEASES if versions.get(key, (0, -1))[1] >= version), ""
    )
