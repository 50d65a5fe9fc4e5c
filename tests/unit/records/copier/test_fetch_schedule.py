"""Which connections a lane sends fetches on, and how often it asks whether they are free."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.fetch_plan import WATCHED_MAX
from heliostat.records.copier.fetch_schedule import SCAN_EVERY_S, FetchSchedule
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.lane_limits import NO_LIMITS
from heliostat.records.copier.network import Channel, Traffic, Want, Watched
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

BROKER, GROUPS = BrokerId(1), 3
NOW_MS = 1_790_000_000_000


class Connections:
    """Connections with at most one fetch in flight each."""

    def __init__(self) -> None:
        self.in_flight: set[Channel] = set()
        self.asked: Counter[Channel] = Counter()
        self.sent: list[Channel] = []
        self.most: dict[Channel, int] = {}

    def expect(self, _: object) -> None:
        """Nothing is opened here."""

    def can_fetch(self, _: BrokerId, channel: Channel) -> bool:
        self.asked[channel] += 1
        return channel not in self.in_flight

    def fetch(self, _: BrokerId, channel: Channel, wants: list[Want], bytes_max: int = 0) -> None:
        assert wants
        self.most[channel] = bytes_max
        self.in_flight.add(channel)
        self.sent.append(channel)

    def fetch_again(self, broker: BrokerId, channel: Channel, bytes_max: int = 0) -> bool:
        self.fetch(broker, channel, [Want(0, 0, 0, 1)], bytes_max)
        return True


class Scene:
    """Partitions of one broker, more than one group of them."""

    def __init__(self) -> None:
        self.items = [_partition(index) for index in range(GROUPS * WATCHED_MAX)]
        self.network = Connections()
        clock: Any = type("Clock", (), {"wall_ms": lambda _: NOW_MS, "monotonic_s": lambda _: 0.0})
        lane: Any = type("Lane", (), {"settings": CopySettings(), "rates": (), "limits": NO_LIMITS})
        network: Any = self.network
        self.schedule = FetchSchedule(lane(), self.items, network, clock())
        self.schedule.plan({item.index: BROKER for item in self.items}, 0.001)

    def send(self, now_s: float) -> list[Channel]:
        """What is sent now."""
        self.network.sent.clear()
        self.schedule.send(now_s, 1 << 30)
        return list(self.network.sent)

    def answer(self, channel: Channel, now_s: float, *, was_single: bool = False) -> None:
        self.network.in_flight.discard(channel)
        self.schedule.watched(Watched(BROKER, channel), now_s, was_single=was_single)


def _partition(index: int) -> PartitionCopy:
    at = TopicPartition(TopicName("t"), PartitionId(index))
    spec = PartitionSpec(at, at, None, None, Offset(0), 1 << 20, is_compacted=False)
    item = PartitionCopy(index, spec, CopySettings(), 7, NOW_MS)
    item.phase = Phase.COPY
    item.fetches.offset = 5
    return item


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_only_answered_connections_are_asked_until_all_are_looked_at_again(scene: Scene) -> None:
    """Given groups whose fetches wait / when one is answered / then that one is sent again, and

    others are not asked whether they are free, before the next look at all.
    """
    groups = scene.send(0.0)
    assert len(groups) == GROUPS
    scene.network.asked.clear()
    scene.answer(groups[1], 0.001)
    assert scene.send(0.004) == [groups[1]]
    assert set(scene.network.asked) == {groups[1]}
    scene.network.in_flight.discard(groups[2])  # lost, and nobody was told
    assert scene.send(0.005) == []
    assert scene.send(SCAN_EVERY_S) == [groups[2]]


def test_after_a_failure_all_are_looked_at(scene: Scene) -> None:
    groups = scene.send(0.0)
    scene.network.in_flight.clear()
    scene.schedule.forget_wants()
    assert scene.send(WAITED_S) == groups


WAITED_S = 0.02
"""Past the pause between two fetches of a group without an answer between them."""


def test_a_group_waits_for_the_latency_target_alone(scene: Scene) -> None:
    """Given an answer / then its group is fetched after the target, and that time is told."""
    groups = scene.send(0.0)
    scene.answer(groups[0], 0.001)
    assert scene.send(0.002) == []
    assert [at_s for at_s in scene.schedule.held_back_until_s() if at_s > 0.002] == [
        pytest.approx(0.003)
    ]
    assert scene.send(0.0031) == [groups[0]]


def test_a_group_does_not_wait_for_others_of_a_single_record(scene: Scene) -> None:
    """Given an answer with one record / then its group is fetched at the broker's pace alone."""
    groups = scene.send(0.0)
    scene.answer(groups[0], 0.5, was_single=True)
    assert scene.send(0.5) == [groups[0]]


def test_a_group_that_wants_nothing_is_asked_again(scene: Scene) -> None:
    """Given a group of stopped partitions / when they go on / then it is fetched."""
    for item in scene.items:
        item.phase = Phase.STOPPED
    assert scene.send(0.0) == []
    for item in scene.items:
        item.phase = Phase.COPY
    assert len(scene.send(WAITED_S)) == GROUPS


def test_partitions_far_behind_are_fetched_as_soon_as_they_are_answered(scene: Scene) -> None:
    """Given a backlog / when it is answered / then its connection is looked at at once."""
    plan = scene.schedule.plan_of[0]
    plan.saw_records(0, is_behind=True)
    behind = Channel(Traffic.BACKLOG, 0)
    assert behind in scene.send(0.0)
    scene.items[0].fetches.under_way = None
    scene.network.in_flight.discard(behind)
    scene.schedule.answered(0)
    assert scene.send(0.001) == [behind]
