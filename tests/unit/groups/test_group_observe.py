"""Reading mirrors for groups: in which order, and what a silent broker means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.admin import EARLIEST, CommittedOffset, GroupListing, ListedOffset
from heliostat.errors import BrokerError
from heliostat.groups.observe import observe_target
from heliostat.groups.values import MirrorPartition, SourceGroups
from heliostat.names import (
    ClusterId,
    GroupId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.landed import Landed
from heliostat.offsets.offset_map import MapReader
from heliostat.topics.values import MirrorRecord

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
SOURCE_ID, TARGET_ID, OTHER_ID = UUID(int=1), UUID(int=2), UUID(int=3)
RECORD = MirrorRecord(T, T, SOURCE_ID, TARGET_ID, ClusterId("c"), "earliest", 1)
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5


class Side:
    """A cluster of one topic with records 10 to 99; what it is asked is noted in `asked`."""

    def __init__(self, topic_id: UUID, asked: list[str]) -> None:
        self.topic_id, self.asked = topic_id, asked
        self.error: BrokerError | None = None
        self.ends = [100]
        """Where its log ends, and what brokers say once all are asked who leads."""

    def committed_offsets(self, groups: Iterable[GroupId]) -> Mapping[GroupId, Any]:
        return {group: {} for group in groups}

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, Any]:
        info = SimpleNamespace(error=self.error, topic_id=self.topic_id, partitions=[0])
        return dict.fromkeys(names, info)

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Any]:
        self.ends = self.ends[1:] if confirmed else self.ends
        if EARLIEST not in specs.values():
            self.asked.append("end")
        return {
            p: ListedOffset(Offset(10 if spec == EARLIEST else self.ends[0]), -1, LeaderEpoch(0))
            for p, spec in specs.items()
        }


class World:
    """A group that has committed 50 of a topic with a mirror."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.source, self.target = Side(SOURCE_ID, self.asked), Side(TARGET_ID, self.asked)
        self.landed = Landed(77, 100)

    def maps(self) -> MapReader:
        self.asked.append("maps")
        return MapReader()

    def positions(self) -> Mapping[TopicPartition, Landed]:
        self.asked.append("positions")
        return {P: self.landed}

    def observe(self) -> Any:
        source: Any = self.source
        target: Any = self.target
        listing = GroupListing({}, {})
        seen = SourceGroups(listing, {GroupId("g"): {P: CommittedOffset(Offset(50), "")}})
        found = observe_target(
            source,
            target,
            seen,
            listing,
            mirrors={T: RECORD},
            maps=self.maps,
            positions=self.positions,
        )
        return found.partitions[P]


def test_positions_then_ends_then_maps() -> None:
    """Given a mirror that is written to / then each read covers the one before it (I3, I9).

    A position read after the end would make a record that has just landed look like a hole; a map
    read before it would lack the last break.
    """
    world = World()
    found = world.observe()
    assert world.asked == ["positions", "end", "maps"]
    assert isinstance(found, MirrorPartition)
    assert (found.start, found.end, found.copied_to) == (10, 100, 77)


@pytest.mark.parametrize("confirmed", [100, 40])
def test_an_end_before_what_was_acknowledged_is_not_believed_at_once(confirmed: int) -> None:
    """A deposed leader's log ends at 40: a group that goes on at 50 would be moved back to 40."""
    world = World()
    world.target.ends = [40, confirmed]
    found = world.observe()
    assert world.asked == ["positions", "end", "end", "maps"]
    assert found.end == confirmed
    assert found.place_of(Offset(50)) == (50 if confirmed == 100 else 40)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_cannot_be_read_now_is_not_gone(side: str) -> None:
    world = World()
    error = getattr(world, side).error = BrokerError("no", kafka_code=LEADER_NOT_AVAILABLE)
    assert world.observe() is error


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_deleted_topic_is_reported_as_gone(side: str) -> None:
    world = World()
    getattr(world, side).error = BrokerError("no", kafka_code=UNKNOWN_TOPIC)
    assert world.observe() == f"the {side} topic is gone"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_recreated_topic_is_reported_as_recreated(side: str) -> None:
    world = World()
    getattr(world, side).topic_id = OTHER_ID
    assert "recreated" in world.observe()


@pytest.mark.parametrize("side", ["source", "target"])
def test_offsets_wait_while_a_topic_id_is_missing(side: str) -> None:
    """It may be another topic: a group would skip its records."""
    world = World()
    getattr(world, side).topic_id = None
    assert "not reported" in world.observe()
