"""Turns of a link's groups against clusters in memory, with a simulated clock."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import Call, SimulatedCluster

from heliostat.clusters.admin import CommittedOffset
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.config import GroupsConfig
from heliostat.errors import ConnectionLost
from heliostat.groups.apply import CONNECTIONS, FEW, Committers
from heliostat.groups.followed import IDLE_AFTER_S, IDLE_LOOK_S
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.plan import GroupDecision
from heliostat.groups.refusals import PASSING, with_refusals
from heliostat.groups.sync import GroupSync
from heliostat.groups.values import Published, Reason
from heliostat.names import (
    ClusterId,
    GroupId,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.ops.events import Events
from heliostat.topics.values import MirrorRecord

TOPIC = TopicName("t")
PARTITION = TopicPartition(TOPIC, PartitionId(0))
STATE_TOPIC = TopicName("heliostat.x.groups")
G = GroupId("g")
LOADING = 14


@dataclass
class Clock:
    now_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def cluster() -> SimulatedCluster:
    """One topic of two partitions, the first with a hundred records."""
    made = SimulatedCluster()
    made.create(TOPIC, 2)
    made.append(TOPIC, 100)
    return made


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
    def __init__(
        self,
        naming: GroupNaming = SAME_NAMES,
        *,
        is_returned: bool = False,
        breaks: Iterable[Break] = (),
        **config: Any,
    ) -> None:
        self.is_returned, self.breaks = is_returned, tuple(breaks)
        self.clock = Clock()
        self.source, self.target = cluster(), cluster()
        self.memory = FakeMemory()
        self.events = Events(self.clock.wall_ms)
        self.decided: dict[GroupId, GroupDecision] = {}
        self.config = GroupsConfig(**{"sync": True, **config})
        self.opened: list[SimulatedAdmin] = []
        self.naming = naming
        self.start()

    def start(self) -> None:
        """A driver begins."""
        source_id, target_id = (each.topics[TOPIC].topic_id for each in (self.source, self.target))
        record = MirrorRecord(
            *(TOPIC, TOPIC, source_id, target_id, ClusterId("s"), "earliest", 1),
            is_returned=self.is_returned,
        )
        maps = MapReader()
        if self.breaks:
            maps.maps[PARTITION, id_text(target_id)] = OffsetMap.of(self.breaks)
        self.sync = GroupSync(
            self.config,
            SimulatedAdmin(self.source),
            Committers(SimulatedAdmin(self.target), self._another),
            self.memory,  # type: ignore[arg-type]  # a stand-in
            mirrors=lambda: {TOPIC: record},
            maps=lambda: maps,
            positions=dict,
            replication_factor=None,
            clock=self.clock,
            events=self.events,
            guard=lambda: None,
            naming=self.naming,
            on_decided=self.decided.update,
        )

    def _another(self) -> SimulatedAdmin:
        self.opened.append(SimulatedAdmin(self.target))
        return self.opened[-1]

    def commit(self, offset: int, group: GroupId = G, *, live: bool = False) -> None:
        """Commit at the source, as a member or after all have left."""
        self.source.commit(group, PARTITION, offset)
        self.source.leave(group)
        if live:
            self.source.join(group)

    def commits(self) -> int:
        """Calls that committed at the target."""
        return len(self.target.asked("commit_offsets"))

    def looked_at(self) -> list[Hashable]:
        """Groups that the source was asked about in the last turn."""
        return [group for groups in self.source.asked("committed_offsets") for group in groups]

    def turn(self, after_s: float = 5.0) -> int | None:
        """One turn; what the target has for the group then."""
        self.clock.now_s += after_s
        self.source.calls.clear()
        self.sync.run()
        group = self.target.groups.get(G)
        found = None if group is None else group.offsets.get(PARTITION)
        return None if found is None else found.offset


def test_a_moving_group_is_followed_and_an_idle_one_polled_rarely() -> None:
    world = World()
    world.commit(10)
    assert world.turn() == 10
    looks = 0
    began_s = world.clock.now_s
    while world.clock.now_s < began_s + IDLE_AFTER_S + 10 * IDLE_LOOK_S:
        world.turn()
        looks += len(world.looked_at())
    often = IDLE_AFTER_S / 5 + 2
    assert 10 <= looks - often <= 22, "each half to a whole minute"
    world.commit(20)
    assert world.turn(IDLE_LOOK_S) == 20
    world.commit(21)
    assert world.turn() == 21, "in use again"
    assert world.commits() == 3


def test_a_group_with_members_is_polled_each_turn() -> None:
    world = World()
    world.commit(10, live=True)
    for _ in range(40):
        world.turn()
        assert world.looked_at() == [G]
    assert world.commits() == 1


def test_a_waiting_group_is_polled_each_turn() -> None:
    world = World()
    world.commit(150)
    assert world.turn(100) == 100
    for _ in range(20):
        assert world.turn() == 100
        assert world.looked_at() == [G]
    world.target.append(TOPIC, 100)
    assert world.turn() == 150


def test_unused_groups_are_left_out() -> None:
    world = World(active_within_s=600)
    world.commit(150)
    assert world.turn() == 100
    world.target.append(TOPIC, 20)
    assert world.turn(1000) == 100, "not followed any more"
    world.commit(110)
    assert world.turn(IDLE_LOOK_S) == 110, "it has moved"
    world.target.join(G)
    world.commit(115, live=True)
    assert world.turn(10_000) == 110
    world.target.leave(G)
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
    del world.source.groups[G]
    assert world.turn() == 10
    assert world.sync.report()["groups"] == 0
    assert G in world.memory.rows
    del world.target.groups[G]
    world.turn()
    assert G not in world.memory.rows


def test_groups_of_a_silent_broker_are_not_gone() -> None:
    world = World()
    world.commit(10)
    world.turn()
    world.source.fail("list_groups", LOADING)
    world.commit(20)
    assert world.turn() == 10
    assert world.sync.report()["groups"] == 1
    world.source.heal()
    world.target.fail("list_groups", LOADING)
    assert world.turn() == 10, "its state is not known"
    assert "does not list its groups" in str(world.sync.report()["left_alone"])
    world.target.heal()
    assert world.turn() == 20


def test_a_failed_turn_changes_nothing_and_the_next_continues() -> None:
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
    assert (world.commits(), world.opened) == (1, [])
    for number in range(5 * FEW):
        world.commit(number, GroupId(f"many-{number}"))
    world.turn()
    assert len(world.opened) == CONNECTIONS - 1
    assert world.commits() == 1 + CONNECTIONS
    assert len(world.target.groups) == 6 * FEW
    assert world.sync.report()["published"] == 6 * FEW


def test_without_sync_all_is_decided_and_nothing_committed() -> None:
    world = World(sync=False)
    world.commit(10)
    assert world.turn() is None
    [row] = world.decided[G].partitions
    assert (row.source_offset, row.wanted) == (10, 10)
    assert world.memory.rows == {}


def test_a_lost_state_topic_is_reported() -> None:
    world = World()
    world.commit(10)
    world.turn()
    world.memory.was_missing = True
    world.turn()
    assert any("was gone at the target" in line for line in world.events.recent(5))


def test_refused_commits_are_retried_and_reported() -> None:
    world = World()
    world.commit(10)
    world.target.fail("commit_offsets", 30)
    for _ in range(3):
        assert world.turn() is None
        assert "GROUP_AUTHORIZATION_FAILED" in str(world.sync.report()["left_alone"])
        assert world.sync.report()["reasons"] == {"REFUSED": 1}
    assert world.memory.writes == 2, "before the first commit, and that it is refused"
    world.target.heal()
    assert world.turn() == 10
    assert world.sync.report()["left_alone"] == {}
    assert world.memory.rows[G].refused == {}


def test_metadata_that_the_target_does_not_take_is_named_and_delays_nothing_else() -> None:
    """Given metadata of 5,000 characters in one of two partitions / then all else is published."""
    world = World()
    second, other = TopicPartition(TOPIC, PartitionId(1)), GroupId("other")
    for side in (world.source, world.target):
        side.append(TOPIC, 100, partition=1)
    world.commit(10)
    world.source.groups[G].offsets[second] = CommittedOffset(Offset(20), "m" * 5000)
    world.commit(30, other)
    for _ in range(2):
        assert world.turn() == 10
        assert world.target.groups[other].offsets[PARTITION].offset == 30
        assert second not in world.target.groups[G].offsets
    report = world.sync.report()
    assert report["reasons"] == {"SYNCED": 2, "METADATA_TOO_LARGE": 1}
    assert report["refused"] == 1
    assert "raise offset.metadata.max.bytes" in str(report["left_alone"])
    assert world.memory.rows[G].refused == {second: 12}
    assert world.memory.writes == 3, "two groups, and what is refused"
    [told] = [row for row in planned_again(world).partitions if row.target == second]
    assert (told.reason, told.publish) == (Reason.METADATA_TOO_LARGE, None)
    assert "commits 5,000 characters of its own" in told.why
    world.source.groups[G].offsets[second] = CommittedOffset(Offset(20), "short")
    world.turn()
    assert world.sync.report()["refused"] == 0
    assert {row.reason for row in planned_again(world).partitions} == {Reason.SYNCED}


def test_renamed_groups_are_published_under_the_new_name_alone() -> None:
    """Given the rule `summit.` / then the target's own group of the old name is never touched."""
    world = World(GroupNaming("summit.${group}"))
    renamed = GroupId("summit.g")
    world.target.commit(G, PARTITION, 77)

    def published() -> int | None:
        assert world.turn() == 77, "the group of the old name"
        group = world.target.groups.get(renamed)
        return None if group is None else group.offsets[PARTITION].offset

    world.commit(50)
    world.target.fail("commit_offsets", 30)
    assert [published() for _ in range(3)] == [None] * 3
    assert world.memory.writes == 2, "its row stays, though the target has no such group yet"
    world.target.heal()
    assert published() == 50
    assert world.decided[G].target_group == renamed
    assert list(world.memory.rows) == [renamed]
    world.start()
    world.commit(20)
    assert published() == 20, "a reset is followed by the row of the new name"
    world.target.join(renamed)
    world.commit(30)
    assert published() == 20
    assert world.sync.report()["reasons"] == {"ACTIVE_AT_TARGET": 1}
    world.target.leave(renamed)
    assert published() == 30
    world.target.fail("commit_offsets", 30, renamed)
    world.commit(40)
    assert published() == 30
    assert world.memory.rows[renamed].refused == {PARTITION: 30}
    world.target.heal()
    del world.source.groups[G]
    assert published() == 30, "what was published stays"
    assert list(world.memory.rows) == [renamed]
    del world.target.groups[renamed]
    assert published() is None
    assert world.memory.rows == {}


def planned_again(world: World) -> GroupDecision:
    """Return what who asks both clusters sees, without trying to publish."""
    world.config = GroupsConfig(sync=False)
    world.start()
    world.turn()
    world.config = GroupsConfig(sync=True)
    world.start()
    return with_refusals(world.decided[G], world.memory.rows.get(G))


@pytest.mark.parametrize("code", sorted(PASSING - {UNKNOWN_MEMBER_ID}))
def test_what_passes_is_no_refusal(code: int) -> None:
    world = World()
    world.commit(10)
    world.target.fail("commit_offsets", code)
    assert world.turn() is None
    assert world.sync.report()["reasons"] == {"NOT_TOLD": 1}
    assert (world.sync.report()["refused"], world.memory.rows[G].refused) == (0, {})
    assert world.sync.report()["published"] == 0


@pytest.mark.parametrize(("after_s", "expected"), [(600.0, 120), (600.001, 100)])
def test_a_group_counts_as_used_up_to_the_exact_limit(after_s: float, expected: int) -> None:
    world = World(active_within_s=600)
    world.commit(150)
    assert world.turn() == 100
    world.target.append(TOPIC, 20)
    assert world.turn(after_s) == expected


def test_a_published_offset_is_remembered_before_the_commit() -> None:
    """Given a driver that dies while it commits / then its row says that the offset is ours."""
    world = World()
    world.commit(10)

    def die(call: Call) -> None:
        if call.method == "commit_offsets":
            raise ConnectionLost("dies")

    world.target.answered = die
    with pytest.raises(ConnectionLost):
        world.turn()
    assert world.memory.rows[G].sent[PARTITION].offset == 10


def test_a_last_moment_commit_of_a_consumer_stays() -> None:
    """Given a consumer at the target between plan and commit / then its offset is left (I9)."""
    world = World()
    world.commit(10)
    world.turn()
    world.commit(20)
    looks: list[Call] = []

    def moves_after_the_first_look(call: Call) -> None:
        if call.method == "committed_offsets":
            looks.append(call)
            if len(looks) == 2:
                world.target.commit(G, PARTITION, 15)

    world.target.answered = moves_after_the_first_look
    assert world.turn() == 15
    [row] = world.decided[G].partitions
    assert row.reason.name == "MOVED_AT_TARGET"


def test_rows_of_groups_survive_a_silent_broker() -> None:
    """Given both sides' listings cut short / when groups seem gone / then no row is forgotten."""
    world = World()
    world.commit(10)
    world.turn()
    world.source.fail("list_groups", LOADING)
    world.target.groups.clear()
    world.turn()
    assert G in world.memory.rows
