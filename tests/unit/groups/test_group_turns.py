"""Turn after turn of a link's groups against clusters in memory, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from heliostat.clusters.admin import (
    EARLIEST,
    CommittedOffset,
    GroupListing,
    ListedGroup,
    ListedOffset,
    PartitionInfo,
    TopicInfo,
)
from heliostat.config import GroupsConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.groups.apply import CONNECTIONS, FEW, Committers
from heliostat.groups.plan import GroupDecision
from heliostat.groups.sync import IDLE_AFTER_S, IDLE_LOOK_S, GroupSync
from heliostat.groups.values import Published
from heliostat.names import (
    BrokerId,
    ClusterId,
    GroupId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.ops.events import Events
from heliostat.records.offset_map import MapReader
from heliostat.topics.values import MirrorRecord

TOPIC = TopicName("t")
PARTITION = TopicPartition(TOPIC, PartitionId(0))
TOPIC_ID = TopicId(int=7)
STATE_TOPIC = TopicName("heliostat.x.groups")
G = GroupId("g")
BROKER = BrokerId(1)
LOADING = BrokerError("loading", kafka_code=14)


@dataclass
class Clock:
    now_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class FakeCluster:
    """Groups and one topic of one partition."""

    end: int = 100
    states: dict[GroupId, str] = field(default_factory=dict)
    offsets: dict[GroupId, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    failed: dict[BrokerId, BrokerError] = field(default_factory=dict)
    asked: list[GroupId] = field(default_factory=list)
    commits: int = 0
    is_down: bool = False
    refuses: BrokerError | None = None

    def list_groups(self) -> GroupListing:
        if self.is_down:
            raise ConnectionLost("down")
        listed = {
            group: ListedGroup(group, BROKER, state, "classic", "consumer")
            for group, state in self.states.items()
        }
        return GroupListing({} if self.failed else listed, self.failed)

    def committed_offsets(self, groups: Iterable[GroupId]) -> Mapping[GroupId, Any]:
        asked = list(groups)
        self.asked += asked
        return {group: dict(self.offsets.get(group, {})) for group in asked}

    def commit_offsets(self, commits: Mapping[GroupId, Any]) -> Mapping[GroupId, Any]:
        self.commits += 1
        if self.refuses is not None:
            return dict.fromkeys(commits, self.refuses)
        for group, rows in commits.items():
            self.states.setdefault(group, "Empty")
            self.offsets.setdefault(group, {}).update(rows)
        return {group: dict.fromkeys(rows) for group, rows in commits.items()}

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        part = PartitionInfo(PartitionId(0), BROKER, LeaderEpoch(0), (BROKER,), (BROKER,))
        return {name: TopicInfo(name, TOPIC_ID, (part,), False) for name in names}

    def list_offsets(
        self, specs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ListedOffset]:
        return {
            partition: ListedOffset(Offset(0 if spec == EARLIEST else self.end), -1, LeaderEpoch(0))
            for partition, spec in specs.items()
        }

    def close(self) -> None:
        pass


@dataclass
class FakeMemory:
    """Rows that survive a driver."""

    rows: dict[GroupId, Published] = field(default_factory=dict)
    topic: TopicName = STATE_TOPIC
    was_missing: bool = False
    writes: int = 0

    def ensure(self, target: object, replication_factor: int | None) -> bool:
        return self.was_missing

    def read(self) -> None:
        pass

    def remember(self, rows: Mapping[GroupId, Published]) -> None:
        self.rows.update(rows)
        self.writes += len(rows)

    def forget(self, groups: Iterable[GroupId]) -> None:
        for group in list(groups):
            self.rows.pop(group, None)


class World:
    def __init__(self, **config: Any) -> None:
        self.clock = Clock()
        self.source, self.target = FakeCluster(), FakeCluster()
        self.memory = FakeMemory()
        self.events = Events(self.clock.wall_ms)
        self.decided: dict[GroupId, GroupDecision] = {}
        self.config = GroupsConfig(**{"sync": True, **config})
        self.opened: list[FakeCluster] = []
        self.start()

    def start(self) -> None:
        """A driver begins."""
        record = MirrorRecord(TOPIC, TOPIC, TOPIC_ID, TOPIC_ID, ClusterId("s"), "earliest", 1)
        self.sync = GroupSync(
            self.config,
            self.source,  # type: ignore[arg-type]  # a stand-in
            Committers(self.target, self._another),  # type: ignore[arg-type]  # a stand-in
            self.memory,  # type: ignore[arg-type]  # a stand-in
            mirrors=lambda: {TOPIC: record},
            maps=MapReader,
            positions=dict,
            replication_factor=None,
            clock=self.clock,
            events=self.events,
            guard=lambda: None,
            also_tell=self.decided.update,
        )

    def _another(self) -> Any:
        self.opened.append(self.target)
        return self.target

    def commit(self, offset: int, group: GroupId = G, state: str = "Empty") -> None:
        self.source.states[group] = state
        self.source.offsets[group] = {PARTITION: CommittedOffset(Offset(offset))}

    def turn(self, after_s: float = 5.0) -> int | None:
        """One turn; what the target has for the group then."""
        self.clock.now_s += after_s
        self.source.asked.clear()
        self.sync.run()
        found = self.target.offsets.get(G, {}).get(PARTITION)
        return None if found is None else found.offset


def test_a_group_is_followed_while_it_moves_and_looked_at_rarely_when_idle() -> None:
    world = World()
    world.commit(10)
    assert world.turn() == 10
    looks = 0
    began_s = world.clock.now_s
    while world.clock.now_s < began_s + IDLE_AFTER_S + 10 * IDLE_LOOK_S:
        world.turn()
        looks += len(world.source.asked)
    often = IDLE_AFTER_S / 5 + 2
    assert 10 <= looks - often <= 22, "each half to a whole minute"
    world.commit(20)
    assert world.turn(IDLE_LOOK_S) == 20
    world.commit(21)
    assert world.turn() == 21, "in use again"
    assert world.target.commits == 3


def test_a_group_with_members_is_looked_at_in_each_turn() -> None:
    world = World()
    world.commit(10, state="Stable")
    for _ in range(40):
        world.turn()
        assert world.source.asked == [G]
    assert world.target.commits == 1


def test_what_waits_is_looked_at_in_each_turn() -> None:
    world = World()
    world.commit(150)
    assert world.turn(100) == 100
    for _ in range(20):
        assert world.turn() == 100
        assert world.source.asked == [G]
    world.target.end = 200
    assert world.turn() == 150


def test_groups_that_are_not_used_any_more_are_left_behind() -> None:
    world = World(active_within_s=600)
    world.commit(150)
    assert world.turn() == 100
    world.target.end = 120
    assert world.turn(1000) == 100, "not followed any more"
    world.commit(110)
    assert world.turn(IDLE_LOOK_S) == 110, "it has moved"
    world.target.states[G] = "Stable"
    world.commit(115, state="Stable")
    assert world.turn(10_000) == 110
    world.target.states[G] = "Empty"
    assert world.turn() == 115, "somebody is in it"


def test_dead_groups_are_left_out_where_only_active_ones_are_wanted() -> None:
    world = World(states=["active"], active_within_s=600)
    world.commit(10)
    assert world.turn() is None
    world.commit(11)
    assert world.turn() == 11, "it moves: somebody commits without being a member"
    world.start()
    world.commit(12)
    assert world.turn() == 12, "the row tells the new driver that it was active"
    world.start()
    world.commit(13)
    assert world.turn(1000) == 12, "too long ago"


def test_a_deleted_group_keeps_what_was_published() -> None:
    world = World()
    world.commit(10)
    world.turn()
    del world.source.states[G], world.source.offsets[G]
    assert world.turn() == 10
    assert world.sync.told()["groups"] == 0
    assert G in world.memory.rows
    del world.target.states[G]
    world.turn()
    assert G not in world.memory.rows


def test_a_broker_that_tells_no_groups_makes_none_of_them_gone() -> None:
    world = World()
    world.commit(10)
    world.turn()
    world.source.failed = {BROKER: LOADING}
    world.commit(20)
    assert world.turn() == 10
    assert world.sync.told()["groups"] == 1
    world.source.failed = {}
    world.target.failed = {BROKER: LOADING}
    assert world.turn() == 10, "its state is not known"
    assert "does not tell its groups" in str(world.sync.told()["left_alone"])
    world.target.failed = {}
    assert world.turn() == 20


def test_a_turn_that_fails_changes_nothing_and_the_next_goes_on() -> None:
    world = World()
    world.commit(10)
    world.target.is_down = True
    with pytest.raises(ConnectionLost):
        world.turn()
    world.target.is_down = False
    assert world.turn() == 10


def test_many_commits_go_out_over_several_connections() -> None:
    world = World()
    for number in range(FEW):
        world.commit(number, GroupId(f"few-{number}"))
    world.turn()
    assert (world.target.commits, world.opened) == (1, [])
    for number in range(5 * FEW):
        world.commit(number, GroupId(f"many-{number}"))
    world.turn()
    assert len(world.opened) == CONNECTIONS - 1
    assert world.target.commits == 1 + CONNECTIONS
    assert len(world.target.offsets) == 6 * FEW
    assert world.sync.told()["published"] == 6 * FEW


def test_without_sync_all_is_decided_and_nothing_committed() -> None:
    world = World(sync=False)
    world.commit(10)
    assert world.turn() is None
    [row] = world.decided[G].partitions
    assert (row.source_offset, row.wanted) == (10, 10)
    assert world.memory.rows == {}


def test_a_lost_state_topic_is_told() -> None:
    world = World()
    world.commit(10)
    world.turn()
    world.memory.was_missing = True
    world.turn()
    assert any("was gone at the target" in line for line in world.events.recent(5))


def test_what_the_target_refuses_is_tried_again_and_told() -> None:
    world = World()
    world.commit(10)
    world.target.refuses = BrokerError("no right", kafka_code=30)
    for _ in range(3):
        assert world.turn() is None
        assert "no right" in str(world.sync.told()["left_alone"])
        assert world.sync.told()["reasons"] == {"REFUSED": 1}
    assert world.memory.writes == 1
    world.target.refuses = None
    assert world.turn() == 10
    assert world.sync.told()["left_alone"] == {}
