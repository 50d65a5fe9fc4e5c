"""Partitions without news: what happens to their mirrors is seen all the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sim.partition_log import PartitionLog
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import WALL_MS, fill, granted, lane, strangers_batch

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.idle_checks import EACH_WITHIN_S
from heliostat.records.copier.lane import PartitionState, RoundReport
from heliostat.records.copier.partition_standing import Trouble

RECORDS = 40


class Idle:
    """A lane of two partitions that are copied to their ends."""

    def __init__(self, *, fills: bool = False) -> None:
        logs = [PartitionLog(), PartitionLog()]
        self.world = World(
            random.Random(1), SimClock(WALL_MS), logs, [PartitionLog(), PartitionLog()], 0.0
        )
        for log in logs:
            fill(log, self.world.random, RECORDS, WALL_MS)
        spec = lane(self.world, 0, 1e6, [0, 0])
        partitions = tuple(replace(each, fills=fills) for each in spec.partitions)
        spec = replace(spec, partitions=partitions)
        self.network = SimNetwork(self.world, 5)
        self.copier = granted(Copier(spec, self.network, self.world.clock))
        self.reports: list[RoundReport] = []
        self.hooks = Hooks(lambda: False, lambda: True, self.reports.append, answered=lambda: 1)
        self.copier.begin(self.hooks)
        self.run(3.0)
        assert [log.end for log in self.world.target] == [log.end for log in logs]
        self.reports.clear()

    def run(self, seconds: float) -> None:
        until_s = self.world.clock.now_s + seconds
        while self.world.clock.now_s < until_s:
            self.copier.step(self.hooks)


@pytest.fixture
def idle() -> Idle:
    return Idle()


def test_a_mirror_that_lost_its_end_is_copied_again_and_reported(idle: Idle) -> None:
    """Given a mirror whose last records are gone / when its source has no news / then it is seen,

    within half a minute.
    """
    log, end = idle.world.target[0], idle.world.target[0].end
    kept = log.batches[-1].base_offset
    log.truncate(kept)
    idle.run(EACH_WITHIN_S + 6.0)
    assert log.end == end
    lost = [each for report in idle.reports for each in report.lost]
    assert lost == [(idle.copier.partitions[0].spec.source, kept, end)]
    other = idle.copier.partitions[1]
    assert (other.attempt, other.standing.state) == (0, PartitionState.COPYING)


def test_a_strangers_record_stops_an_idle_mirror(idle: Idle) -> None:
    idle.world.target[1].append(strangers_batch(3))
    idle.run(EACH_WITHIN_S + 6.0)
    first, second = idle.copier.partitions
    assert (second.standing.state, second.standing.code) == (
        PartitionState.DIVERGED,
        "FOREIGN_TAIL",
    )
    assert first.standing.state is PartitionState.COPYING


def test_trouble_of_an_idle_partition_ends_when_both_sides_answer(idle: Idle) -> None:
    """Given brokers that were away / when nothing is to copy / then it does not stay retrying."""
    now_s = idle.world.clock.now_s
    for item, side in zip(idle.copier.partitions, (Trouble.FETCH, Trouble.APPEND), strict=True):
        item.standing.retry(side, "CONNECTION_LOST", "no broker answers", now_s, WALL_MS)
    idle.run(6.0)
    assert [item.standing.code for item in idle.copier.partitions] == ["", ""]
    assert {item.attempt for item in idle.copier.partitions} == {0}


def test_trouble_lasts_while_a_side_does_not_answer(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = idle.copier.partitions[0]
    item.standing.retry(Trouble.FETCH, "CONNECTION_LOST", "x", idle.world.clock.now_s, WALL_MS)
    monkeypatch.setattr(idle.network, "source_ranges", lambda _: {})
    idle.run(12.0)
    assert item.standing.code == "CONNECTION_LOST"


def test_a_filled_mirror_may_end_after_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end counts markers, which are not counted here: no reason to begin again."""
    idle = Idle(fills=True)
    log = idle.world.target[0]
    monkeypatch.setattr(log, "end", log.end + 2)
    idle.run(EACH_WITHIN_S + 6.0)
    assert {item.attempt for item in idle.copier.partitions} == {0}
