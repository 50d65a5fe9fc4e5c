"""A partition without leader is retried until it has one, at either side, and says whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.sim_clock import SimClock

from heliostat.clusters.kafka_codes import LEADER_NOT_AVAILABLE
from heliostat.clusters.wire.leaders import NO_LEADER, Leader, TopicLeaders
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.lane_leaders import LEADERS_EVERY_S, LaneLeaders
from heliostat.records.copier.network import LogRange
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.transport.queries import WireQuestions

P = TopicPartition(TopicName("t"), PartitionId(0))
NOW_MS = 1_800_000_000_000
LED = Leader(BrokerId(1), 0, 0)
ALONE = Leader(NO_LEADER, 0, LEADER_NOT_AVAILABLE, (BrokerId(2), BrokerId(3)), (BrokerId(2),))


class Cluster:
    """Metadata of one cluster."""

    def __init__(self) -> None:
        self.leader: Leader | None = LED

    def metadata(self, topics: Sequence[TopicName]) -> dict[TopicName, TopicLeaders]:
        if self.leader is None:
            raise ConnectionLost("no broker of it answers")
        return dict.fromkeys(topics, TopicLeaders(None, 0, {P.partition: self.leader}))


class Lane:
    """One partition that has copied all there is."""

    def __init__(self) -> None:
        self.clock = SimClock(NOW_MS)
        self.source, self.target = Cluster(), Cluster()
        sides: Any = (self.source, self.target)
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
        self.copy = PartitionCopy(0, spec, CopySettings(), 7, NOW_MS)
        network: Any = WireQuestions([spec], *sides, 7)
        self.leaders = LaneLeaders([self.copy], network, self.clock)
        self.look()
        self.copy.begin(LogRange(Offset(0), Offset(0)), None, OffsetMap(), NOW_MS, now_s=0.0)
        self.fetch()

    def look(self) -> str:
        """Ask for the leaders; the state as told."""
        self.clock.sleep(LEADERS_EVERY_S)
        self.leaders.may_be_others()
        self.leaders.find(self.clock.monotonic_s())
        return self.state

    def fetch(self) -> str:
        """Have the source answer; the state as told."""
        self.copy.fetched(bytearray(), 0, 0, high_watermark=0, now_s=0.0, now_ms=NOW_MS)
        return self.state

    @property
    def state(self) -> str:
        return self.copy.standing.state.value


def test_a_mirror_without_leader_is_retried_though_the_source_answers() -> None:
    """Given no leader, or no broker, at the target / when the source answers / then still so."""
    lane = Lane()
    for leader in (ALONE, None):
        lane.target.leader = leader
        assert lane.look() == PartitionState.RETRYING.value
        assert lane.fetch() == PartitionState.RETRYING.value
        assert not lane.copy.progress.is_end_old  # what is missing is known
        lane.target.leader = LED
        assert lane.look() == PartitionState.COPYING.value


def test_the_brokers_of_a_partition_without_leader_are_named() -> None:
    lane = Lane()
    lane.target.leader = ALONE
    lane.look()
    assert "side='target' brokers='2, 3 (2 offline)'" in lane.copy.standing.reason


def test_a_source_without_leader_is_over_when_it_answers() -> None:
    lane = Lane()
    for leader in (ALONE, None):
        lane.source.leader = leader
        assert lane.look() == PartitionState.RETRYING.value
        assert lane.copy.progress.is_end_old
        lane.source.leader = LED
        assert lane.look() == PartitionState.RETRYING.value
        assert lane.fetch() == PartitionState.COPYING.value
        assert not lane.copy.progress.is_end_old
