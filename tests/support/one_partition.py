"""One partition of a mirror, copied in this process between real brokers until a condition holds.

It is the copier of the product with the product's connections, without Spark and without a driver:
what a driver would find out is in the `PartitionSpec`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.clusters import ClusterPair, create_topic, fresh_name
from support.records import Sample, encode, write_batches

from heliostat.access import ClusterAccess, access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.connection import DialSettings
from heliostat.names import (
    LaneId,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicId,
    TopicPartition,
)
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import CopySettings, LaneSpec, PartitionReport, PartitionSpec
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import report_of
from heliostat.records.spark.copy_round import network_of
from heliostat_sandbox import Cluster

ROUND_S = 30.0
"""Limit of a round, which normally ends as soon as the partition meets the condition."""


def lane_spec(source: ClusterAccess, target: ClusterAccess, *specs: PartitionSpec) -> LaneSpec:
    """Return the spec of a lane's round, of a link without a driver."""
    return LaneSpec(
        link=LinkName("codes"),
        lane=LaneId(0),
        generation=1,
        round_number=0,
        lease_s=2 * ROUND_S,
        source_access=source,
        target_access=target,
        producer_id=ProducerId(-1),
        partitions=specs,
        control_topic="",
        progress_topic="",
        settings=CopySettings(),
    )


class OnePartition:
    """A fresh topic of one partition at both sides, and rounds that copy it.

    Parameters
    ----------
    target_replicas
        Number of replicas of the mirror.
    source_configs
        Settings of the source topic.
    options
        Fields of the partition's spec, see `PartitionSpec`.
    """

    def __init__(
        self,
        pair: ClusterPair,
        *,
        target_replicas: int = 1,
        source_configs: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.pair = pair
        self.topic = create_topic(pair.source, configs=source_configs)
        create_topic(pair.target, self.topic, replicas=target_replicas)
        access = [access_of(cluster.bootstrap.split(",")) for cluster in (pair.source, pair.target)]
        ids: list[TopicId] = []
        for one in access:
            with ClusterAdmin(one) as admin:
                topic_id = admin.describe_topics([self.topic])[self.topic].topic_id
            assert topic_id is not None
            ids.append(topic_id)
        with ClusterAdmin(access[1]) as target:
            producer = target.init_producer_id()
        self.maps = fresh_name("heliostat.maps")
        """Name of the topic of its offset map."""
        with KeyedTopic(access[1], self.maps) as topic:
            topic.ensure(1)
        self.partition = TopicPartition(self.topic, PartitionId(0))
        settings: dict[str, Any] = {"is_compacted": False, **options}
        spec = PartitionSpec(
            self.partition, self.partition, ids[0], ids[1], Offset(0), 1024 * 1024, **settings
        )
        lane = lane_spec(access[0], access[1], spec)
        self._lane = replace(lane, producer_id=producer, offsets_topic=self.maps)

    def write(self, cluster: Cluster, count: int, *, value: bytes = b"value") -> None:
        """Append one batch of `count` records, by a foreign producer."""
        batch = encode([Sample(b"k", value, int(time.time() * 1000)) for _ in range(count)])
        write_batches(cluster.bootstrap.split(","), self.topic, [batch])

    def write_source(self, count: int) -> None:
        """Append records to copy."""
        self.write(self.pair.source, count)

    def write_target(self, count: int) -> None:
        """Append records of another producer to the mirror."""
        self.write(self.pair.target, count)

    def copy_to(self, position: int, **lane: Any) -> PartitionReport:
        """Copy until the mirror has all below a source offset."""
        return self.copy(
            lambda item: item.progress.position >= position and not item.appends.in_flight, **lane
        )

    def copy_until(self, code: str, **lane: Any) -> PartitionReport:
        """Copy until the partition shows a code."""
        return self.copy(lambda item: item.standing.code == code, **lane)

    def copy(
        self, is_over: Callable[[PartitionCopy], object], *, spec: Any = None, **lane: Any
    ) -> PartitionReport:
        """Run one round until `is_over`; `spec` and `lane` change its partition and lane specs."""
        partitions = (replace(self._lane.partitions[0], **(spec or {})),)
        told = replace(self._lane, partitions=partitions, **lane)
        clock = SystemClock()
        network = network_of(told, clock, DialSettings(client_id="one-partition"))
        with contextlib.closing(network):
            copier = Copier(told, network, clock)
            (item,) = copier.partitions
            seen: list[PartitionReport] = []

            until_s = clock.monotonic_s() + ROUND_S

            def is_superseded() -> bool:
                if not seen and is_over(item):
                    seen.append(report_of(item))
                return bool(seen) or clock.monotonic_s() > until_s

            hooks = Hooks(is_superseded, lambda: True, lambda _: None, answered=lambda: 1)
            report = copier.run(hooks)
        (last,) = seen or report.partitions
        assert seen, f"it did not come to that: {last}"
        return last


def segment_of(cluster: Cluster, partition: TopicPartition) -> Path:
    """Return the file of a partition's first segment."""
    name = f"{partition.topic}-{partition.partition}"
    (found,) = cluster.folder.rglob(f"{name}/00000000000000000000.log")
    return found


def damage(segment: Path) -> None:
    """Change a segment's last byte, in the last record of its last batch."""
    with segment.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 0x55]))
