"""What a lane keeps in memory while a partition waits, measured against brokers."""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from dataclasses import dataclass, field, replace

import pytest
from support.cleaning import read_committed
from support.clusters import ClusterPair, create_topic, fresh_name
from support.one_partition import lane_spec
from support.records import Sample, encode, write_batches

from heliostat.access import access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.connection import DialSettings
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import CopySettings, LaneSpec, PartitionSpec
from heliostat.records.spark.copy_round import network_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

MB = 1 << 20
PARTITIONS = 6
STEPS = 10
VALUE_BYTES = 900_000
BOUND = 12 * MB
FETCH_WAIT_MS = 50
ANSWERED_S = 0.2
"""After this a fetch that waited has been answered, with nothing, and none is under way."""
ROUND_S = 120.0
ALLOWED = BOUND + 2 * PARTITIONS * MB
"""One answer beyond the bound, and what the writing of a step leaves; without a bound it is that
of all steps, 50 MiB and more."""
DAY_MS = 86_400_000


@dataclass
class Steps:
    """Writes a batch to each partition at a time, once the lane has copied those before.

    The first partition's are so old that the lane must not send them before the round that it
    waits for has ended.
    """

    source: str
    topic: str
    now_ms: int
    copier: Copier
    done: int = 0
    alive: list[int] = field(default_factory=list)
    values: random.Random = field(default_factory=lambda: random.Random(1))

    def is_over(self) -> bool:
        """Called on each turn."""
        slow, *others = self.copier.partitions
        if self.done == STEPS:
            return slow.progress.position == STEPS
        if slow.fetches.offset < self.done or any(
            item.progress.position < self.done for item in others
        ):
            return False
        if self.done:
            self.alive.append(tracemalloc.get_traced_memory()[0])
        time.sleep(ANSWERED_S)
        for partition in range(PARTITIONS):
            value = self.values.randbytes(VALUE_BYTES) if partition else b"%d" % self.done
            at_ms = self.now_ms if partition else self.now_ms - DAY_MS
            batch = encode([Sample(b"k", value, at_ms)])
            write_batches(self.source.split(","), self.topic, [batch], partition=partition)
        self.done += 1
        return False

    def running(self, lane: LaneSpec) -> frozenset[str]:
        """The round before ends when all is written and measured."""
        is_alone = len(self.alive) == STEPS - 1 and self.done == STEPS
        return frozenset([lane.round_id] if is_alone else [lane.round_id, *lane.waits_for])


def lane_of(pair: ClusterPair) -> LaneSpec:
    """A lane over a fresh topic with a mirror; the bound is small."""
    configs = {"retention.ms": "-1"}
    topic = create_topic(pair.source, partitions=PARTITIONS, configs=configs)
    create_topic(pair.target, topic, partitions=PARTITIONS, configs=configs)
    access = [access_of(cluster.bootstrap.split(",")) for cluster in (pair.source, pair.target)]
    ids = []
    for one in access:
        with ClusterAdmin(one) as admin:
            ids.append(admin.describe_topics([topic])[topic].topic_id)
    with ClusterAdmin(access[1]) as target:
        producer = target.init_producer_id()
    maps = fresh_name("heliostat.maps")
    with KeyedTopic(access[1], maps) as made:
        made.ensure(1)
    names = [TopicPartition(topic, PartitionId(number)) for number in range(PARTITIONS)]
    specs = [PartitionSpec(at, at, *ids, Offset(0), MB, is_compacted=False) for at in names]
    return replace(
        lane_spec(*access, *specs),
        producer_id=producer,
        offsets_topic=maps,
        waits_for=("codes/0/0",),
        lease_s=ROUND_S,
        settings=CopySettings(
            join_below_bytes=0, fetch_wait_ms=FETCH_WAIT_MS, lane_queued_bytes_max=BOUND
        ),
    )


def test_a_waiting_partition_keeps_no_more_memory_than_the_lanes_bound(
    cluster_pair: ClusterPair,
) -> None:
    """Given batches of 80 bytes that wait, each in an answer of 5 MB / when

    the others are copied / then the answers are freed, and the waiting batches arrive unchanged.
    """
    lane = lane_of(cluster_pair)
    clock = SystemClock()
    topic = lane.partitions[0].source.topic
    tracemalloc.start()
    try:
        with contextlib.closing(network_of(lane, clock, DialSettings("lane-memory"))) as network:
            copier = Copier(lane, network, clock)
            steps = Steps(cluster_pair.source.bootstrap, topic, clock.wall_ms(), copier)
            before, _ = tracemalloc.get_traced_memory()
            copier.run(
                Hooks(
                    steps.is_over,
                    lambda: False,
                    lambda _: None,
                    lambda: steps.running(lane),
                    lambda: 1,
                )
            )
    finally:
        tracemalloc.stop()
    assert [item.progress.position for item in copier.partitions] == [STEPS] * PARTITIONS, [
        (item.standing.code, item.standing.reason) for item in copier.partitions
    ]
    assert max(steps.alive) - before <= ALLOWED, [each - before for each in steps.alive]
    arrived = read_committed(cluster_pair.target.bootstrap, topic)
    assert [seen[3] for seen in arrived] == [b"%d" % number for number in range(STEPS)]
