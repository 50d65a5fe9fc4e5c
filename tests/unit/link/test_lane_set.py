"""Lanes at run time, with rounds that the test ends instead of Spark."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.errors import ConnectionLost
from heliostat.invariants import predecessors_have_ended
from heliostat.link import lane_schedule
from heliostat.link.lane_schedule import HAND_OVER_S, RETRY_FIRST_S, STAGGER
from heliostat.link.lane_set import LaneSet, Runner
from heliostat.names import LaneId, LinkName, Offset, PartitionId, ProducerId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import Announcement, LaneSpec, PartitionSpec, RoundReport
from heliostat.records.copier.late_sends import LATE_S
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.round_time import PREPARED_S_MAX

WAIT_S = 10.0
ROUND_S = 3.0
CLOCK_MS = 60
"""Two clocks are read, one after the other, on a busy machine."""


@pytest.fixture(autouse=True)
def no_slack(monkeypatch):
    """A first round is as short as any other."""
    monkeypatch.setattr(lane_schedule, "START_SLACK_S", 0.0)


def spec(number: int) -> PartitionSpec:
    partition = Partition(TopicName("t"), PartitionId(number))
    return PartitionSpec(partition, partition, None, None, Offset(0), 1000, is_compacted=False)


class Rounds:
    """Rounds that work from their beginning to their end or a switch of plans, as real ones do."""

    def __init__(self) -> None:
        self.announced = Announcement({}, None, ())
        self.working: dict[Partition, LaneSpec] = {}
        self.started: list[LaneSpec] = []
        self.overlaps = 0
        self.fail_next = False
        self.failed: list[LaneSpec] = []
        self.failed_at_s = 0.0
        self.started_at_s: dict[int, float] = {}
        """First round of each generation."""
        self.deadlines: list[int] = []
        self.lingers_s = 0.0
        """Seconds that a round waits after its deadline for answers."""
        self.unfinished: set[str] = set()
        self.released: list[bool] = []
        """Of rounds that took those before them for ended: whether all had."""
        self.ahead_s: list[float] = []
        self.spare_s: float | None = None
        self.clock = SystemClock()
        self._lock = threading.Lock()

    def announce(self, told: Announcement) -> None:
        self.announced = told

    def is_over(self, lane: LaneSpec) -> bool:
        now_ms, told = self.clock.wall_ms(), self.announced
        if told.generations.get(lane.lane) != lane.generation:
            return told.switch_at_ms is None or now_ms >= told.switch_at_ms
        return now_ms >= lane.expires_at_ms

    def run(self, lane: LaneSpec) -> RoundReport:
        if self.fail_next:
            self.fail_next = False
            self.failed.append(lane)
            self.failed_at_s = time.monotonic()
            raise RuntimeError("heliostat.errors.X: [X] planted")
        self.started_at_s.setdefault(lane.generation, time.monotonic())
        self.started.append(lane)
        self.ahead_s.append((lane.begin_at_ms - self.clock.wall_ms()) / 1000)
        report = RoundReport(lane.lane, lane.generation, lane.round_number, 0, 0, "plan", [])
        report.spare_s = self.spare_s
        until_s = time.monotonic() + WAIT_S
        while self.clock.wall_ms() < lane.begin_at_ms:
            assert time.monotonic() < until_s
            is_superseded = self.announced.generations.get(lane.lane) != lane.generation
            if is_superseded and (self.announced.switch_at_ms or 0) <= lane.begin_at_ms:
                return report
            time.sleep(0.001)
        with self._lock:
            self.unfinished.add(lane.round_id)
            for item in lane.partitions:
                # A thread that is late to end sends nothing: lanes look before each append.
                before = self.working.get(item.source)
                self.overlaps += before is not None and not self.is_over(before)
                self.working[item.source] = lane
        is_held = bool(lane.waits_for)
        while not self.is_over(lane):
            assert time.monotonic() < until_s
            told = self.announced.running
            if is_held and predecessors_have_ended(lane.round_id, lane.waits_for, told):
                is_held = False
                self.released.append(self.unfinished.isdisjoint(lane.waits_for))
            time.sleep(0.001)
        time.sleep(self.lingers_s)
        with self._lock:
            self.unfinished.discard(lane.round_id)
            for item in lane.partitions:
                if self.working.get(item.source) is lane:
                    del self.working[item.source]
        return report


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
        round_s=ROUND_S,
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
    wait(lambda: len(rounds.working) == 3)
    for turn in range(3):
        first, second = (spec(turn % 2),), (spec(1 - turn % 2), spec(2))
        lanes.assign({zero: first, one: second})
        wanted = lanes.generations
        wait(lambda all_=wanted: {n.generation for n in rounds.started} >= set(all_.values()))
        begin_ms = max(n.begin_at_ms for n in rounds.started if n.generation in wanted.values())
        wait(lambda at=begin_ms: SystemClock().wall_ms() > at)
        wait(lambda: len(rounds.working) == 3)
    assert rounds.overlaps == 0
    assert all(lane.generation > 7 for lane in rounds.started)


def test_lanes_change_rounds_at_different_moments(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes of one plan / when they run / then the second's first round is shorter."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: {lane.lane for lane in rounds.started if lane.round_number == 1} == {0, 1})
    lasts = {(lane.lane, lane.round_number): lane.round_s for lane in rounds.started}
    assert lasts[LaneId(0), 0] - lasts[LaneId(1), 0] == pytest.approx(ROUND_S * STAGGER)
    assert lasts[LaneId(0), 1] == lasts[LaneId(1), 1] == ROUND_S


def test_an_unchanged_lane_continues(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes / when one gains a partition / then the other's round goes on."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: len(rounds.working) == 2)
    assert lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1), spec(2))}) == [LaneId(1)]
    wait(lambda: len(rounds.working) == 3)
    assert len({lane.generation for lane in rounds.started if lane.lane == LaneId(0)}) == 1


def test_a_failed_round_is_reported_and_retried(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round that fails / when time passes / then the next one runs, the error is kept."""
    rounds.fail_next = True
    lanes.assign({LaneId(0): (spec(0),)})
    # One that was prepared before it failed may have begun; the retry is of a newer plan: its task
    # may continue where it was cut off from the driver, and the plan does not name it any more.
    wait(
        lambda: rounds.failed and max(rounds.started_at_s, default=0) > rounds.failed[0].generation
    )
    newest = max(rounds.started_at_s)
    assert lanes.health[LaneId(0)].failures_in_a_row == 1
    assert "[X] planted" in lanes.health[LaneId(0)].last_error
    assert rounds.started_at_s[newest] >= rounds.failed_at_s + RETRY_FIRST_S
    assert rounds.announced.generations == {LaneId(0): newest}
    # What the one that failed had sent may still land, and for the first rounds of a driver that of
    # the driver before.
    (again,) = [n for n in rounds.started if (n.generation, n.round_number) >= (newest, 1)][:1]
    assert 0 < again.may_land_s <= LANDS_WITHIN_S
    assert rounds.failed[0].may_land_s == LANDS_WITHIN_S


def test_no_round_is_submitted_before_its_plan_was_announced(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a plan that can't be announced / then none of its rounds is submitted before it was.

    A task that reads the plan before that does not find its own generation, and ends.
    """

    def not_now(_told: Announcement) -> None:
        raise ConnectionLost("no broker takes it")

    with monkeypatch.context() as away:
        away.setattr(lanes, "_announce_to_tasks", not_now)
        with pytest.raises(ConnectionLost):
            lanes.assign({LaneId(0): (spec(0),)})
        time.sleep(0.3)  # a round would be given out at once
        assert not rounds.started
    lanes.renew(0.0)
    wait(lambda: rounds.started)
    assert rounds.announced.generations == {LaneId(0): rounds.started[0].generation}


def test_rounds_after_a_clean_end_wait_for_no_late_append(lanes, rounds) -> None:
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: len(rounds.started) > 2)
    assert [lane.may_land_s for lane in rounds.started[:3]] == [LANDS_WITHIN_S, 0.0, 0.0]


def test_each_rounds_deadline_is_announced_before_it_runs(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round / when it starts / then the last moment of its sends was announced (I10)."""
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: rounds.started)
    assert rounds.started[0].expires_at_ms + LATE_S * 1000 in rounds.deadlines


def test_the_next_round_is_announced_ahead(lanes: LaneSet, rounds: Rounds, monkeypatch) -> None:
    """Given a round / when the next is submitted soon / then its end is to be announced, too.

    Before that, the end of the running round is; and nothing once all is stopped.
    """
    monkeypatch.setattr(lane_schedule, "PREPARE_S", 0.3)
    monkeypatch.setattr(lane_schedule, "COLD_PREPARE_S", 0.3)
    monkeypatch.setattr(lane_schedule, "AHEAD_PART", 0.5)
    monkeypatch.setattr(lanes._schedule, "round_s", 1.5)
    assert lanes.announced_for_s() == 0.0
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: rounds.started)
    seen: list[tuple[int, float]] = []

    def is_third() -> bool:
        known_ms = lanes._clock.wall_ms() + lanes.announced_for_s() * 1000
        seen.append((len(rounds.started), known_ms - LATE_S * 1000))
        return len(rounds.started) > 2

    wait(is_third)
    first, second = rounds.started[:2]
    at_first = [known_ms for number, known_ms in seen if number == 1]
    assert at_first[0] == pytest.approx(first.expires_at_ms, abs=CLOCK_MS)
    ahead = [known_ms for known_ms in at_first if known_ms >= second.expires_at_ms]
    assert ahead
    assert max(ahead) < second.expires_at_ms + 1500 / 2
    lanes.stop()
    assert lanes.announced_for_s() == 0.0


def test_of_many_lanes_the_latest_end_is_announced(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes, of which one's first round is shorter / then the longer one's end counts."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: len(rounds.started) >= 2)
    known_ms = lanes._clock.wall_ms() + lanes.announced_for_s() * 1000
    assert known_ms >= max(lane.expires_at_ms for lane in rounds.started) + LATE_S * 1000 - CLOCK_MS


def test_a_round_that_cannot_be_announced_does_not_end_the_running_one(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a hung broker / when the next round can't be announced / then it is tried again.

    The running round continues to its end: nothing has begun besides it. It used to be ended.
    """
    monkeypatch.setattr(lane_schedule, "PREPARE_S", 1.5)
    monkeypatch.setattr(lane_schedule, "COLD_PREPARE_S", 1.5)
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: rounds.working)
    tried: list[int] = []

    def refuses(deadline_ms: int) -> None:
        tried.append(deadline_ms)
        if len(tried) < 3:
            raise ConnectionLost("a broker that hangs")
        rounds.deadlines.append(deadline_ms)

    monkeypatch.setattr(lanes, "_announce_deadline", refuses)
    wait(lambda: tried)
    health = lanes.health[LaneId(0)]
    wait(lambda: health.failures_in_a_row)
    assert "a broker that hangs" in health.last_error
    wait(lambda: len(rounds.started) > 1)
    first, second = rounds.started[:2]
    assert (first.round_number, second.round_number) == (0, 3)
    assert second.generation == first.generation
    assert second.begin_at_ms >= first.expires_at_ms
    assert second.waits_for in ((first.round_id,), ())
    assert second.expires_at_ms + LATE_S * 1000 in rounds.deadlines
    assert rounds.overlaps == 0


def test_stop_ends_all_rounds(lanes: LaneSet, rounds: Rounds) -> None:
    """Given lanes at work / when stopped / then nothing runs and nothing starts again."""
    lanes.assign({LaneId(0): (spec(0),), LaneId(1): (spec(1),)})
    wait(lambda: len(rounds.working) == 2)
    lanes.stop()
    assert not rounds.working
    assert lanes.assign({LaneId(0): (spec(5),)}) == []


def test_the_next_round_is_prepared_before_the_last_one_ends(lanes, rounds, monkeypatch) -> None:
    """Given a round / when its end comes near / then the next one begins right after it."""
    monkeypatch.setattr(lane_schedule, "HAND_OVER_S", 0.1)  # a full machine takes ms to end one
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: len(rounds.started) == 4)
    pairs = list(itertools.pairwise(rounds.started))
    # A machine that stalls for seconds may prepare one too late, but not all of them.
    gaps_ms = [after.begin_at_ms - before.expires_at_ms for before, after in pairs]
    assert abs(min(gaps_ms) - 100) <= 3
    assert any(after.waits_for == (before.round_id,) for before, after in pairs)
    assert rounds.overlaps == 0
    first = rounds.started[0]
    wait(lambda: first.round_id not in rounds.announced.running)


def test_a_round_learns_that_earlier_ones_ended_not_sooner(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given rounds that wait for answers after their deadline / when the next begins / it waits.

    Also the first one after a change of plan, which tasks read before any of its rounds was
    submitted: a round took earlier ones for ended, and records that were days old landed twice
    after a broker was slow (2026-11-23).
    """
    monkeypatch.setattr(lane_schedule, "HAND_OVER_S", 0.05)
    monkeypatch.setattr(lanes._schedule, "round_s", 0.8)
    rounds.lingers_s = 0.4
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: len(rounds.released) >= 3)
    lanes.assign({LaneId(0): (spec(0), spec(1))})
    wait(lambda: len(rounds.released) >= 6)
    assert all(rounds.released)


def test_rounds_that_were_ready_late_are_prepared_earlier(lanes, rounds, monkeypatch) -> None:
    """Given rounds that are ready late / when more follow / then these are submitted earlier."""
    monkeypatch.setattr(lane_schedule, "PREPARE_S", 0.1)
    monkeypatch.setattr(lane_schedule, "COLD_PREPARE_S", 0.1)
    monkeypatch.setattr(lanes._schedule, "round_s", 1.0)
    rounds.spare_s = -0.2
    lanes.assign({LaneId(0): (spec(0),)})
    wait(lambda: len(rounds.ahead_s) > 6)
    assert rounds.ahead_s[6] > rounds.ahead_s[2] + 0.2


def test_rounds_of_many_partitions_are_prepared_earlier() -> None:
    """Given 2,400 partitions / then seconds earlier than for one: preparing them takes long."""
    few, many = lane_schedule.prepare_s((spec(0),)), lane_schedule.prepare_s((spec(0),) * 2_400)
    assert lane_schedule.PREPARE_S < few < many
    assert 4 < many < lane_schedule.PREPARE_S_MAX
    # Tasks take a beginning that is further away for a clock that differs.
    most = (
        lane_schedule.prepare_s((spec(0),) * 100_000)
        - lane_schedule.PREPARE_S
        + lane_schedule.SWITCH_S
    )
    assert most < PREPARED_S_MAX


def test_a_switch_of_plans_waits_for_all_rounds_that_it_ends(lanes, rounds) -> None:
    """Given two lanes / when a partition moves / then both begin at the switch, not before."""
    zero, one = LaneId(0), LaneId(1)
    lanes.assign({zero: (spec(0), spec(1)), one: (spec(2),)})
    wait(lambda: len(rounds.working) == 3)
    before = {lane.round_id for lane in rounds.started if not lane.round_number}
    lanes.assign({zero: (spec(0),), one: (spec(1), spec(2))})
    wanted = set(lanes.generations.values())
    wait(lambda: {lane.generation for lane in rounds.started} >= wanted)
    switch_at_ms = rounds.announced.switch_at_ms
    assert switch_at_ms is not None
    for lane in [lane for lane in rounds.started if lane.generation in wanted][:2]:
        assert lane.begin_at_ms >= switch_at_ms + HAND_OVER_S * 1000 - 3
        assert set(lane.waits_for) >= before
