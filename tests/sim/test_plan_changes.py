"""Partitions move between lanes that go on, fail, sleep and come back: each record lands once.

The production `Copier`, `LanePlans` and `Leases` run unchanged; what they tell each other arrives
late. A round that the driver takes for failed may go on, as one does whose machine is cut off from
the driver alone. Records may be so old that no sequence check catches what is sent twice (I10).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sim.seeds import IS_WHOLE, chunks, until_met
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import DAY_MS, check_is_beginning, fill, lane, make_world
from typing_extensions import override

from heliostat.link.lane_plans import LanePlans, LaneRound
from heliostat.link.leases import Leases
from heliostat.link.round_content import Contents
from heliostat.names import LaneId, TopicName
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import (
    Announcement,
    PartitionSpec,
    PartitionState,
    PlanChange,
    RoundReport,
)
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S

PARTITIONS, LANES, LEASE_S, STEPS = 4, 3, 4.0, 400
LIMITS = (
    ByteLimits(),
    ByteLimits(),
    ByteLimits(3_000),
    ByteLimits(9_000, ((TopicName("t"), 2_000),)),
)
LONG_LEASE_S = 4 * LANDS_WITHIN_S
"""With this one, who is taken for failed sends for longer than what it has sent may land."""


class OwnClock(SimClock):
    """The same time, shown otherwise: no two machines' clocks agree."""

    def __init__(self, real: SimClock, offset_s: float) -> None:
        super().__init__(0)
        self._real, self._offset_s = real, offset_s

    @override
    def monotonic_s(self) -> float:
        return self._real.monotonic_s() + self._offset_s

    @override
    def wall_ms(self) -> int:
        return self._real.wall_ms() + round(self._offset_s * 1000)

    @override
    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds)


class Task:
    """A round's task, which reads announcements now and then."""

    def __init__(self, scene: Scene, item: LaneRound) -> None:
        spec = item.spec
        self.round = item
        self.told: Announcement | None = None
        self.reports: list[RoundReport] = []
        self.last: RoundReport | None = None
        self.is_deaf = False
        """Whether it reads no announcement any more."""
        self._due = False
        logs = [each.source.partition for each in spec.partitions]
        self.view = replace(
            scene.world,
            source=[scene.world.source[number] for number in logs],
            target=[scene.world.target[number] for number in logs],
            identities=[0] * len(logs),
            late=[],
            every=(scene.world.source, scene.world.target),
        )
        offset_s = scene.random.choice([0.0, 3600.0, 5e6])
        clock = OwnClock(scene.world.clock, offset_s)
        self.network = SimNetwork(self.view, scene.random.choice([1, 5]))
        self.copier = Copier(spec, self.network, clock)
        self.hooks = Hooks(
            self.is_superseded,
            lambda: self._due,
            self.reports.append,
            lambda: None if self.told is None else frozenset(self.told.running),
            lambda: 0 if self.told is None else self.told.answered.get(spec.round_id, 0),
            self.changes,
            limits=self.limits,
        )
        self.copier.begin(self.hooks)

    def is_superseded(self) -> bool:
        spec = self.round.spec
        if self.told is None:
            return False
        wanted = self.told.rounds.get(spec.lane)
        return wanted is None or wanted.round_id != spec.round_id

    def changes(self) -> Sequence[PlanChange]:
        told = None if self.told is None else self.told.rounds.get(self.round.spec.lane)
        return () if told is None else told.changes

    def limits(self) -> ByteLimits | None:
        told = None if self.told is None else self.told.rounds.get(self.round.spec.lane)
        return None if told is None else told.limits

    def step(self, *, reports: bool) -> bool:
        """One turn; False once the round has ended."""
        if self.is_superseded():
            self.last = self.copier.end()
            return False
        self._due = reports
        self.copier.step(self.hooks)
        return True


class Scene:
    """One driver, its tasks, and those that it takes for failed."""

    def __init__(self, seed: int, age_ms: int) -> None:
        self.seed, self.age_ms = seed, age_ms
        faults = 0.0 if age_ms else None
        self.world = make_world(seed, age_ms=age_ms, partitions=PARTITIONS, fault_rate=faults)
        self.random = random.Random(seed)
        self.world.late_s = self.random.choice([0.05, LANDS_WITHIN_S / (PARTITIONS + 1)])
        if age_ms and self.random.random() < 0.7:
            self.world.forgets_ms = DAY_MS
        lease_s = self.random.choice([LEASE_S, LONG_LEASE_S])
        self.leases = Leases(lease_s, self.world.clock)
        template = replace(lane(self.world, 0, lease_s, [0] * PARTITIONS), rates=())
        self.specs = template.partitions
        contents = Contents(
            template,
            lambda _specs, _copied: ((), 0, ""),
            lambda specs: tuple((index, -1, -1, -1) for index in range(len(specs))),
            lambda _: (),
        )
        self.plans = LanePlans(contents, self.leases, 7, self.world.clock)
        self.tasks: list[Task] = []
        self.ghosts: list[Task] = []
        self.views: list[World] = []
        """What dead tasks have sent may still land."""
        self.moved = self.ghost_appends = 0
        self.assign()

    def assign(self, *, all_of_them: bool = False) -> None:
        """Pack at random; some partitions may be in no lane, and some are treated otherwise."""
        wanted: dict[LaneId, list[PartitionSpec]] = {}
        for spec in self.specs:
            number = self.random.randrange(LANES + (not all_of_them))
            if number < LANES:
                size = self.random.choice([spec.batch_bytes_max, 90_000])
                is_paused = not all_of_them and self.random.random() < 0.2
                priority = self.random.choice([*Priority, Priority.NORMAL, Priority.NORMAL])
                changed = replace(
                    spec, batch_bytes_max=size, is_paused=is_paused, priority=priority
                )
                wanted.setdefault(LaneId(number), []).append(changed)
        self.plans.assign(wanted, self.random.choice(LIMITS))

    def begin_due(self) -> None:
        """Begin the rounds that are due."""
        for each in self.plans.lanes.values():
            if (wait_s := self.plans.wait_s(each)) is not None and wait_s <= 0:
                self.tasks.append(Task(self, self.plans.begin(each)))

    def step(self) -> None:
        """Something happens."""
        chance = self.random.random()
        self.begin_due()
        if chance < 0.05:
            self.assign()
        elif chance < 0.07 and self.tasks:
            self.fail(self.random.choice(self.tasks))
        elif chance < 0.08:
            self.world.clock.sleep(self.random.choice([0.5, LEASE_S, 3 * LEASE_S]))  # all sleep
            if self.tasks and self.random.random() < 0.5:
                self.fail(self.random.choice(self.tasks))  # with what was under way
        elif chance < 0.5:
            self.drive()
        for task in [*self.tasks, *self.ghosts]:
            if self.random.random() < 0.5:
                self.run(task)
        self.settle()

    def run(self, task: Task) -> None:
        """A few turns of one task, which may have read what was announced last."""
        if not task.is_deaf and self.random.random() < 0.3:
            task.told = self.plans.announcement()
        task.view.fault_rate = self.world.fault_rate
        before = self.appended(task) if task in self.ghosts else 0
        for _ in range(self.random.randrange(6)):
            if not task.step(reports=self.random.random() < 0.3):
                self.ended(task)
                break
        self.ghost_appends += task in self.ghosts and self.appended(task) != before

    def appended(self, task: Task) -> int:
        return sum(log.end for log in task.view.target)

    def ended(self, task: Task) -> None:
        if task in self.ghosts:
            self.ghosts.remove(task)
            return
        self.tasks.remove(task)
        number = task.round.spec.lane
        self.plans.end(self.plans.lanes[number], task.round, None)

    def fail(self, task: Task) -> None:
        """The driver sees its job fail; it is dead, or goes on."""
        self.tasks.remove(task)
        if self.random.random() < 0.5:
            task.network.cut_all()
        else:
            task.is_deaf = self.random.random() < 0.5
            self.ghosts.append(task)
        self.views.append(task.view)
        error = RuntimeError("x")
        self.plans.end(self.plans.lanes[task.round.spec.lane], task.round, error)

    def drive(self) -> None:
        """The driver reads reports, late, and answers some."""
        answers = self.leases.to_answer(self.plans.with_lease())
        for task in [*self.tasks, *self.ghosts]:
            while task.reports and self.random.random() < 0.7:
                report = task.reports.pop(0)
                round_id = task.round.spec.round_id
                if task in self.tasks:
                    self.leases.reported(round_id, report.number)
                    self.plans.limits.reported(report, self.world.clock.monotonic_s())
                    self.moved += self.plans.heard(round_id, report.plan)
        self.leases.answer(answers)

    def settle(self) -> None:
        for view in [*self.views, *(each.view for each in self.tasks)]:
            view.settle_late()
        if self.age_ms and self.random.random() < 0.3:
            for log in self.world.target:
                log.expire_producers(self.world.clock.wall_ms(), DAY_MS)
        if self.random.random() < 0.1:
            for log in self.world.source:
                fill(log, self.random, log.end + 2, self.world.clock.wall_ms() - self.age_ms)
        self.world.fault_rate *= 0.999

    def check(self) -> None:
        check_is_beginning(self.world, [0] * PARTITIONS, self.seed)
        for task in [*self.tasks, *self.ghosts]:
            for item in task.copier.partitions:
                at = item.standing
                assert not at.state.is_stopped, f"seed {self.seed}: {at.code} {at.reason}"
                if item.spec.is_paused:
                    assert not item.appends.queue, f"seed {self.seed}"
                    assert not item.appends.in_flight, f"seed {self.seed}"
                    assert at.state is not PartitionState.COPYING, f"seed {self.seed}"

    def is_level(self) -> bool:
        return all(
            a.end == b.end for a, b in zip(self.world.source, self.world.target, strict=True)
        )


@pytest.mark.parametrize("age_ms", [0, 3 * DAY_MS])
@pytest.mark.parametrize("part", chunks(1 / 10, least=10, size=20))
def test_partitions_that_move_are_copied_once(part: range, age_ms: int) -> None:
    """Given lanes that come, go, fail and sleep / when partitions move / then the target is exact,

    and all of it is copied once the plan stays.
    """
    moved, ghosts = 0, list[int]()
    for seed in until_met(ghosts, part):
        scene = Scene(seed + 30_000_000, age_ms)
        for _ in range(STEPS):
            scene.step()
            scene.check()
        scene.assign(all_of_them=True)
        for ghost in scene.ghosts:
            ghost.network.cut_all()
        scene.ghosts.clear()
        scene.world.fault_rate = 0.0
        for _ in range(20 * STEPS):
            scene.begin_due()
            scene.drive()
            for task in scene.tasks[:]:
                scene.run(task)
            scene.world.clock.sleep(0.01)
            for view in scene.views:
                view.settle_late()
            if scene.is_level():
                break
        scene.check()
        assert scene.is_level(), f"seed {seed}"
        moved += scene.moved
        ghosts += [seed] * scene.ghost_appends
    assert moved > 2 * len(part) or not IS_WHOLE
    assert ghosts or not IS_WHOLE
