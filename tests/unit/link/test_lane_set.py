"""Lanes at run time, with rounds that a test ends itself instead of Spark's."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.link.lane_set import LaneSet, Runner
from heliostat.names import LaneId, LinkName, Offset, PartitionId, ProducerId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.ops.events import Events
from heliostat.records.lane import LaneSpec, PartitionSpec, RoundReport

WAIT_S = 10.0


def spec(number: int) -> PartitionSpec:
    partition = Partition(TopicName("t"), PartitionId(number))
    return PartitionSpec(partition, partition, None, None, Offset(0), 1000, needs_keys=False)


class Rounds:
    """Rounds that last until their generation is no longer wanted, as real ones do."""

    def __init__(self) -> None:
        self.wanted: dict[LaneId, int] = {}
        self.running: dict[Partition, LaneId] = {}
        self.started: list[LaneSpec] = []
        self.overlaps = 0
        self.fail_next = False
        self.deadlines: list[int] = []
        self._lock = threading.Lock()

    def announce(self, generations: Mapping[LaneId, int]) -> None:
        self.wanted = dict(generations)

    def run(self, lane: LaneSpec) -> RoundReport:
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("heliostat.errors.X: [X] planted")
        with self._lock:
            self.started.append(lane)
            for item in lane.partitions:
                self.overlaps += item.source in self.running
                self.running[item.source] = lane.lane
        until_s = time.monotonic() + WAIT_S
        while self.wanted.get(lane.lane) == lane.generation and time.monotonic() < until_s:
            time.sleep(0.005)
        with self._lock:
            for item in lane.partitions:
                del self.running[item.source]
        return RoundReport(lane.lane, lane.generation, lane.round_number, 0, 0, "plan", [])


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def lanes(rounds: Rounds):
    template = LaneSpec(
        link=LinkName("l"),
        lane=LaneId(-1),
        generation=0,
        round_number=0,
        round_s=5,
        expires_at_ms=0,
        source_access=ClusterAccess(()),
        target_access=ClusterAccess(()),
        producer_id=ProducerId(1),
        partitions=(),
        control_topic="c",
        progress_topic="p",
    )
    found = LaneSet(
        template,
        Runner(rounds.run, lambda _: None),
        announce=rounds.announce,
        announce_deadline=rounds.deadlines.append,
        clock=SystemClock(),
        events=Events(SystemClock().wall_ms, None),
        first_generation=7,
    )
    yield found
    found.stop()


def wait(condition) -> None:
    until_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until_s, "not in time"
        time.sleep(0.005)


def test_a_moved_partition_is_never_in_two_rounds(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes at work / when partitions swap / then each round ended before the next."""
    zero, one = LaneId(0), LaneId(1)
    lanes.assign({zero: (spec(0), spec(1)), one: (spec(2),)})
    wait(lambda: len(rounds.running) == 3)
    for turn in range(6):
        first, second = (spec(turn % 2),), (spec(1 - turn % 2), spec(2))
        lanes.assign({zero: first, one: second})
        wait(lambda: len(rounds.running) == 3)
    assert rounds.overlaps == 0
    assert all(lane.generation > 7 for lane in rounds.started)


def test_an_unchanged_lane_is_left_at_work(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes / when one gains a partition / then the other's round goes on."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: len(rounds.running) == 2)
    assert lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1), spec(2))}) == [LaneId(1)]
    wait(lambda: len(rounds.running) == 3)
    assert [lane.lane for lane in rounds.started].count(LaneId(0)) == 1


def test_a_failed_round_is_told_and_tried_again(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round that fails / when time passes / then the next one runs, the error is kept."""
    rounds.fail_next = True
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: len(rounds.running) == 1)
    assert lanes.health[LaneId(0)].failures_in_a_row == 1
    assert "[X] planted" in lanes.health[LaneId(0)].last_error


def test_each_rounds_deadline_is_announced_before_it_runs(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round / when it starts / then its last moment was announced (I10)."""
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: rounds.started)
    assert rounds.started[0].expires_at_ms in rounds.deadlines


def test_stop_ends_all_rounds(lanes: LaneSet, rounds: Rounds) -> None:
    """Given lanes at work / when stopped / then nothing runs and nothing starts again."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: len(rounds.running) == 2)
    lanes.stop()
    assert not rounds.running
    assert lanes.assign({LaneId(0): (spec(5),)}) == []
