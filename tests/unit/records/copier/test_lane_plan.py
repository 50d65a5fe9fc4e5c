"""Partitions that a round takes and gives up while it copies the others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sim.partition_log import PartitionLog
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import WALL_MS, fill, granted, lane

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import PlanChange, RoundReport, TakenPartition
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.partition_leave import give_up, is_at_rest
from heliostat.records.copier.partition_standing import Phase

RECORDS = 50
NOTE = (-1, -1, -1)


class Lane:
    """A lane over the first two of three partitions."""

    def __init__(self) -> None:
        logs = [PartitionLog() for _ in range(3)]
        targets = [PartitionLog() for _ in range(3)]
        self.world = World(random.Random(1), SimClock(WALL_MS), logs, targets, 0.0)
        self.world.identities = [0, 0, 0]
        for log in logs:
            fill(log, self.world.random, RECORDS, WALL_MS)
        whole = replace(lane(self.world, 0, 1e6, [0, 0, 0]), rates=())
        *first, self.third = whole.partitions
        self.first, self.second = first
        view = replace(
            self.world,
            source=logs[:2],
            target=targets[:2],
            identities=[0, 0],
            every=(logs, targets),
        )
        self.network = SimNetwork(view, 5)
        spec = replace(whole, partitions=tuple(first))
        self.copier = granted(Copier(spec, self.network, self.world.clock))
        self.changes: list[PlanChange] = []
        self.reports: list[RoundReport] = []
        self.is_due = False
        self.hooks = Hooks(
            lambda: False,
            lambda: self.is_due,
            self.reports.append,
            answered=lambda: 1,
            changes=lambda: self.changes,
        )
        self.copier.begin(self.hooks)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.copier.step(self.hooks)

    def report(self) -> RoundReport:
        self.is_due = True
        self.steps(1)
        self.is_due = False
        return self.reports[-1]

    def is_level(self, *numbers: int) -> bool:
        world = self.world
        return all(world.target[each].end == world.source[each].end for each in numbers)

    def sources(self, report: RoundReport) -> set[int]:
        return {item.source.partition for item in report.partitions}


@pytest.fixture
def made() -> Lane:
    return Lane()


def test_a_taken_partition_is_copied_and_the_others_notice_nothing(made: Lane) -> None:
    made.steps(200)
    assert made.report().is_whole
    before = [(item.attempt, item.phase) for item in made.copier.partitions]
    made.changes = [PlanChange(5, (), (TakenPartition(made.third, NOTE, 0.9),))]
    made.steps(200)
    assert made.is_level(0, 1, 2)
    found = made.copier.partitions
    assert [(item.attempt, item.phase) for item in found[:2]] == before
    assert found[2].spec == made.third
    said = made.reports[-1]
    assert (said.plan, said.lane_partitions, said.is_whole) == (5, 3, True), "told without a wait"
    assert not made.report().is_whole
    assert made.sources(said) == {0, 1, 2}
    assert not made.report().is_whole


def test_a_given_up_partition_is_acknowledged_when_nothing_of_it_is_under_way(made: Lane) -> None:
    """Given appends in flight / when a partition is given up / then their answers come first."""
    while not made.copier.partitions[0].appends.in_flight:
        made.steps(1)
    (item, _), attempt = made.copier.partitions, made.copier.partitions[1].attempt
    queued = made.world.target[0].end
    made.changes = [PlanChange(5, (made.first.source,), ())]
    made.copier._plan.take(made.changes)
    assert (item.phase, list(item.appends.queue)) == (Phase.GIVEN_UP, [])
    assert made.copier._plan.generation == 4
    while item.appends.in_flight:
        made.steps(1)
    made.steps(1)
    assert made.copier._plan.generation == 5
    assert made.world.target[0].end > queued
    ended = made.world.target[0].end
    fill(made.world.source[0], made.world.random, RECORDS + 20, WALL_MS)
    made.steps(200)
    assert made.world.target[0].end == ended
    assert made.is_level(1)
    assert made.copier.partitions[1].attempt == attempt
    said = made.report()
    assert (made.sources(said), said.lane_partitions, said.plan) == ({1}, 1, 5)
    assert made.sources(made.copier.end()) == {1}


@pytest.mark.parametrize("why", ["in flight", "row", "may land"])
def test_what_is_under_way_keeps_a_partition(made: Lane, why: str) -> None:
    item = made.copier.partitions[0]
    give_up(item)
    assert is_at_rest(item, 1000.0)
    item.appends.in_flight = int(why == "in flight")
    item.has_row_under_way = why == "row"
    item.appends.may_land(1000.0 if why == "may land" else -1e9)
    assert not is_at_rest(item, 1000.0)


@pytest.mark.parametrize("why", ["in flight", "row", "may land"])
def test_a_partition_is_taken_again_only_when_its_old_state_is_at_rest(
    made: Lane, why: str
) -> None:
    """Given a partition that is treated otherwise / while something of it is under way / then its

    end is not read (I4), and other partitions of that change are taken at once.
    """
    made.steps(200)
    plan, old, now_s = made.copier._plan, made.copier.partitions[0], made.world.clock.now_s
    old.appends.in_flight = int(why == "in flight")
    old.has_row_under_way = why == "row"
    if why == "may land":
        old.appends.may_land(now_s)
    other = replace(made.first, batch_bytes_max=50_000)
    taken = (TakenPartition(other, NOTE), TakenPartition(made.third, NOTE))
    plan.take([PlanChange(5, (made.first.source,), taken)])
    moved = plan.carry_out(now_s, WALL_MS)
    assert moved is not None
    assert [item.spec for item, _ in moved.new] == [made.third]
    assert plan.generation == 4
    old.appends.in_flight, old.has_row_under_way = 0, False
    moved = plan.carry_out(now_s + LANDS_WITHIN_S, WALL_MS)
    assert moved is not None
    assert [item.spec for item, _ in moved.new] == [other]
    assert plan.generation == 5


def test_a_partition_that_is_treated_otherwise_begins_after_its_last_answer(made: Lane) -> None:
    while not made.copier.partitions[0].appends.in_flight:
        made.steps(1)
    old = made.copier.partitions[0]
    other = replace(made.first, batch_bytes_max=50_000)
    made.changes = [PlanChange(5, (made.first.source,), (TakenPartition(other, NOTE),))]
    made.steps(1)
    while old.appends.in_flight:
        assert len(made.copier.partitions) == 2
        made.steps(1)
    made.steps(300)
    new = made.copier.partitions[2]
    assert (new.spec, new.phase, new.progress.position) == (
        other,
        Phase.COPY,
        made.world.source[0].end,
    )
    assert made.copier._plan.size == 2
    assert made.is_level(0, 1)


def test_changes_that_follow_each_other_end_at_the_last_one(made: Lane) -> None:
    """Given a partition that is given up, taken, given up / then it is not copied any more."""
    made.steps(3)
    taken = TakenPartition(made.first, NOTE)
    made.changes = [
        PlanChange(5, (made.first.source,), ()),
        PlanChange(6, (), (taken,)),
        PlanChange(7, (made.first.source,), ()),
        PlanChange(8, (), (TakenPartition(made.third, NOTE),)),
    ]
    made.steps(300)
    end = made.world.target[0].end
    assert made.report().plan == 8
    assert made.is_level(2)
    fill(made.world.source[0], made.world.random, RECORDS + 20, WALL_MS)
    made.steps(100)
    assert made.world.target[0].end == end
    made.changes = [*made.changes, PlanChange(9, (), (taken,))]
    made.steps(300)
    assert made.world.target[0].end == made.world.source[0].end


def test_old_records_that_are_taken_wait_for_a_failed_round(made: Lane) -> None:
    """Given a partition that a failed round had / then what is old of it waits for its end."""
    change = PlanChange(5, (), (TakenPartition(made.third, NOTE),), ("0/1/9",), 3.0)
    made.changes = [change]
    running = frozenset({made.copier.reports._lane.round_id, "0/1/9"})
    hooks = replace(made.hooks, running=lambda: running)
    made.copier.step(hooks)
    item = made.copier.partitions[2]
    assert item.appends.holds_old
    assert not any(other.appends.holds_old for other in made.copier.partitions[:2])
    running = frozenset({made.copier.reports._lane.round_id})
    made.copier.step(hooks)
    assert not item.appends.holds_old
    assert item.appends.may_land_until_s > made.world.clock.now_s  # what it sent last
