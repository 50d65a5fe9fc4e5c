"""Where both logs of partitions end now, asked by a status of a link that does not tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from heliostat.access import ClusterAccess
from heliostat.clusters.kafka_codes import CONSUMER, DEBUGGING_CONSUMER
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings, SignsOfLife
from heliostat.clusters.wire.leaders import TopicLeaders
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset, TopicName, TopicPartition
from heliostat.ops.asked import asked_at_once
from heliostat.records.copier.lane import PartitionReport
from heliostat.status.lag import BothEnds, Ends, position_of

ANSWER_S = 1.0
"""A person waits: a broker that is slower is not asked twice."""
AGES_MAX = 500
"""Most partitions whose oldest missing record is read."""
Topics = Mapping[TopicName, TopicLeaders]


def read_ends(
    source: ClusterAccess,
    target: ClusterAccess,
    reports: Sequence[PartitionReport],
    signs: SignsOfLife | None = None,
) -> Ends:
    """Return the ends of both logs of these partitions; those that can't be read are missing."""
    settings = DialSettings(
        "heliostat-status", request_timeout_s=ANSWER_S, signs=signs or SignsOfLife()
    )
    with (
        closing(WireCluster(source, settings)) as there,
        closing(WireCluster(target, settings)) as here,
    ):

        def theirs() -> tuple[Topics, dict[TopicPartition, Offset]]:
            topics = there.metadata(sorted({item.source.topic for item in reports}))
            return topics, _log_ends(there, topics, [item.source for item in reports], CONSUMER)

        def ours() -> tuple[Topics, dict[TopicPartition, Offset]]:
            mirrors = here.metadata(sorted({item.target.topic for item in reports}))
            targets = [item.target for item in reports]
            return mirrors, _log_ends(here, mirrors, targets, DEBUGGING_CONSUMER)

        try:
            both = asked_at_once({"source": theirs, "target": ours})
        except (ConnectionLost, BrokerError):
            return {}
        (topics, source_ends), (_, target_ends) = both["source"], both["target"]
        ends = {
            item.source: BothEnds(source_ends[item.source], target_ends[item.target])
            for item in reports
            if item.source in source_ends and item.target in target_ends
        }
        return ends | _with_ages(there, topics, reports, ends)


def _leader(topics: Topics, partition: TopicPartition) -> BrokerId | None:
    topic = topics.get(partition.topic)
    leader = topic.partitions.get(partition.partition) if topic and not topic.error else None
    return leader.broker if leader is not None and leader.broker >= 0 else None


def _log_ends(
    cluster: WireCluster, topics: Topics, partitions: Sequence[TopicPartition], replica_id: int
) -> dict[TopicPartition, Offset]:
    """Return where logs end, by their leaders."""
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        if (broker := _leader(topics, partition)) is not None:
            by_broker.setdefault(broker, []).append(partition)
    by_partition: dict[TopicPartition, Offset] = {}
    for answer in cluster.ranges_of(by_broker, replica_id=replica_id).values():
        if not isinstance(answer, ConnectionLost):
            ends = answer[1].items()
            by_partition |= {place: end for place, end in ends if not isinstance(end, BrokerError)}
    return by_partition


def _with_ages(
    cluster: WireCluster, topics: Topics, reports: Sequence[PartitionReport], ends: Ends
) -> dict[TopicPartition, BothEnds]:
    """Read the first missing record of partitions, for its timestamp."""
    from heliostat.records.transport.mirror_ends import times_at  # loads what copies records
    from heliostat.records.transport.single_batches import (
        SMALL_BATCH_BYTES,
        BatchAt,
        Batches,
        read_led,
    )

    places: dict[int, Offset] = {}
    for index, item in enumerate(reports):
        both_ends = ends.get(item.source)
        position = None if both_ends is None else position_of(item, both_ends.target)
        if both_ends is not None and position is not None and position < both_ends.source:
            places[index] = Offset(position)
    places = dict(list(places.items())[:AGES_MAX])
    brokers = {index: _leader(topics, reports[index].source) for index in places}
    leaders = {index: broker for index, broker in brokers.items() if broker is not None}

    def read(offsets: Mapping[int, Offset], room: int = SMALL_BATCH_BYTES) -> Batches:
        ids = {name: topic.topic_id for name, topic in topics.items()}
        of = {index: reports[index].source for index in offsets}
        asked = {i: BatchAt(of[i], ids[of[i].topic], offset) for i, offset in offsets.items()}
        return read_led(cluster, leaders, asked, room)

    times = times_at(places, read)
    return {
        reports[index].source: replace(ends[reports[index].source], written_ms=written_ms)
        for index, written_ms in times.items()
    }
