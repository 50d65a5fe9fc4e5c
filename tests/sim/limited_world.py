"""Two clusters whose line to the source has a bandwidth, and topics that are written steadily.

Answers of the source come one behind the other over one line, so that a large one delays those
behind it, as it does in a lane's thread. There are no faults.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from sim.partition_log import PartitionLog
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import PRODUCER, World
from sim.test_copy_simulation import WALL_MS, granted
from typing_extensions import override

from heliostat.access import ClusterAccess
from heliostat.names import LaneId, LinkName, Offset, PartitionId, ProducerId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import CopySettings, LaneSpec, PartitionSpec
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.records.copier.network import (
    Channel,
    Event,
    Fetched,
    GroupAnswer,
    Send,
    Traffic,
    Want,
)

LINE_BYTES_PER_S = 50_000_000
ROUND_TRIP_S = 0.004
NEVER_S = 1e9


@lru_cache(maxsize=64)
def batch_of(size: int, timestamp_ms: int) -> bytes:
    """One record of about this many bytes."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    builder.append(0, timestamp_ms, b"k", b"v" * (size - 80), [])
    return bytes(builder.build())


@dataclass(slots=True)
class LimitedWorld(World):
    """Notes what lands, and when."""

    landed: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Second, partition's index, bytes, and age in ms."""

    @override
    def serve(self, send: Send, data: bytes) -> tuple[int, int]:
        now_s, now_ms = self.clock.now_s, self.clock.wall_ms()
        self.landed.append((now_s, send.index, len(data), now_ms - send.batch.max_timestamp))
        return World.serve(self, send, data)


class LineNetwork(SimNetwork):
    """Answers what is asked for, over one line."""

    def __init__(self, world: World) -> None:
        super().__init__(world, 5)
        self.is_target_far = False
        self._line_free_s = 0.0
        self.read = 0
        """Bytes that the source has sent."""
        self.largest = 0
        """Most bytes that were held at a time."""

    @override
    def _limits(self, wants: Sequence[Want], bytes_max: int) -> tuple[list[int], int]:
        return [want.bytes_max for want in wants], bytes_max or 8 << 20

    @override
    def _push(self, at_s: float, answer: Sequence[Event], channel: Channel) -> None:
        size = sum(
            len(each.data) if isinstance(each, GroupAnswer) else each.end
            for each in answer
            if isinstance(each, GroupAnswer | Fetched)
        )
        self.read += size
        now_s = self.world.clock.now_s
        self._line_free_s = max(now_s, self._line_free_s) + size / LINE_BYTES_PER_S
        waits_s = 0.0 if size or channel.traffic is not Traffic.BACKLOG else 0.05
        super()._push(self._line_free_s + ROUND_TRIP_S + waits_s, answer, channel)

    @override
    def held_bytes(self) -> int:
        size = super().held_bytes()
        self.largest = max(self.largest, size)
        return size


class LimitedScene:
    """A lane with partitions of several topics, each one partition."""

    def __init__(
        self,
        topics: Mapping[str, Priority],
        limits: ByteLimits,
        *,
        batch_bytes_max: int = 1 << 20,
        partitions: int = 1,
    ) -> None:
        names = [(name, number) for name in topics for number in range(partitions)]
        count = len(names)
        self.names = [name for name, _ in names]
        self.world = LimitedWorld(
            random.Random(1),
            SimClock(WALL_MS),
            [PartitionLog() for _ in range(count)],
            [PartitionLog() for _ in range(count)],
            0.0,
            identities=[0] * count,
        )
        places = [Partition(TopicName(name), PartitionId(number)) for name, number in names]
        lane = LaneSpec(
            link=LinkName("sim"),
            lane=LaneId(0),
            generation=1,
            round_number=0,
            lease_s=NEVER_S,
            source_access=ClusterAccess(()),
            target_access=ClusterAccess(()),
            producer_id=ProducerId(PRODUCER),
            partitions=tuple(
                PartitionSpec(
                    *(at, at, None, None, Offset(0), batch_bytes_max),
                    is_compacted=False,
                    priority=topics[at.topic],
                )
                for at in places
            ),
            control_topic="c",
            progress_topic="p",
            settings=CopySettings(),
            limits=limits,
        )
        self.network = LineNetwork(self.world)
        self.copier = Copier(lane, self.network, self.world.clock)
        granted(self.copier)
        self.begin_s = self.world.clock.now_s
        self.limits = limits
        self._hooks = Hooks(
            lambda: False,
            lambda: False,
            lambda _: None,
            answered=lambda: 1,
            limits=lambda: self.limits,
        )

    def write(self, topic: str, size: int, count: int = 1) -> None:
        """Append batches of about this many bytes to each partition of a topic, of now."""
        data = batch_of(size, self.world.clock.wall_ms())
        for index, name in enumerate(self.names):
            for _ in range(count if name == topic else 0):
                self.world.source[index].append(data)

    def run(self, seconds: float, topic: str = "", every_s: float = 0.05, size: int = 500) -> None:
        """Copy for so long; a topic gets a record now and then meanwhile."""
        clock = self.world.clock
        until_s = next_s = clock.now_s + seconds
        next_s = clock.now_s if topic else NEVER_S
        while clock.now_s < until_s:
            if clock.now_s >= next_s:
                self.write(topic, size)
                next_s += every_s
            self.copier.step(self._hooks)

    def bytes_of(self, topic: str, since_s: float = 0.0, until_s: float = NEVER_S) -> int:
        """Bytes of a topic that landed in some seconds since the begin."""
        return sum(
            size
            for at_s, index, size, _ in self.world.landed
            if self.names[index] == topic and since_s <= at_s - self.begin_s < until_s
        )

    def ages_ms(self, topic: str) -> list[int]:
        """How old records of a topic were when they landed, sorted."""
        landed = self.world.landed
        return sorted(age for _, index, _, age in landed if self.names[index] == topic)

    def checked(self) -> None:
        """Nothing is missing in between, and nothing is there twice."""
        for source, target in zip(self.world.source, self.world.target, strict=True):
            assert target.end <= source.end
            for item in self.copier.partitions:
                assert not item.standing.state.is_stopped, item.standing.reason
