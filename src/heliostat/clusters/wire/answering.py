"""Which brokers of a cluster answer, for those who watch it."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliostat.clusters.wire.cluster import METADATA_VERSION_MAX, WireCluster
from heliostat.names import BrokerId


def answering(cluster: WireCluster) -> dict[BrokerId, bool]:
    """Return whether each broker that metadata have named so far answers; all asked at once."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return cluster.brokers.answering(request, MetadataResponse, METADATA_VERSION_MAX)
