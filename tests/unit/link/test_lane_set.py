"""Lanes at run time, with rounds that the test ends instead of Spark."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from support.one_partition import lane_spec

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.errors import ConnectionLost, LinkTakenOver
from heliostat.link import hung_rounds
from heliostat.link import places as turns
from heliostat.link.lane_packing import PIPELINE_LANES
from heliostat.link.lane_plans import RETRY_FIRST_S
from heliostat.link.lane_set import LaneSet, Runner
from heliostat.link.places import Places
from heliostat.names import LaneId, Offset, PartitionId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import (
    Announcement,
    LaneSpec,
    PartitionSpec,
    PlanChange,
    RoundReport,
)
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.pipeline_steps import Pipeline, Where

WAIT_S = 10.0
LEASE_S = 3.0
ZERO, ONE = LaneId(0), LaneId(1)
LOOK_S = 0.002


def spec(number: int) -> PartitionSpec:
    partition = Partition(TopicName("t"), PartitionId(number))
    return PartitionSpec(partition, partition, None, None, Offset(0), 1000, is_compacted=False)


class Rounds:
    """Rounds that copy until they are not wanted any more, and heed changes, as real ones do."""

    def __init__(self) -> None:
        self.announced = Announcement({}, (), {})
        self.working: dict[Partition, str] = {}
        """Which round has which partition."""
        self.started: list[LaneSpec] = []
        self.overlaps = 0
        self.fail_next = False
        self.failed: list[LaneSpec] = []
        self.failed_at_s = 0.0
        self.changes: list[tuple[LaneId, PlanChange]] = []
        """Those that rounds have carried out."""
        self.lingers_s = 0.0
        """Seconds that a round waits for answers before it lets go of anything."""
        self.log: list[str] = []
        self.is_mute = False
        self.is_kept = True
        """Whether leases are renewed by themselves."""
        self.cancelled: list[str] = []
        self.hangs = ""
        self.lanes: LaneSet
        self._lock = threading.Lock()

    def announce(self, told: Announcement) -> None:
        self.announced = told
        self.log.append("announced")

    def is_wanted(self, lane: LaneSpec) -> bool:
        wanted = self.announced.rounds.get(lane.lane)
        return wanted is not None and wanted.round_id == lane.round_id

    def run(self, lane: LaneSpec) -> RoundReport:
        if self.fail_next:
            self.fail_next = False
            self.failed.append(lane)
            self.failed_at_s = time.monotonic()
            raise RuntimeError("heliostat.errors.X: [X] planted")
        self.started.append(lane)
        self._take(lane, (item.source for item in lane.partitions))
        number, plan, until_s = 0, lane.generation, time.monotonic() + WAIT_S
        while self.is_wanted(lane) and lane.round_id not in self.cancelled:
            assert time.monotonic() < until_s
            wanted = self.announced.rounds.get(lane.lane)
            for change in wanted.changes if wanted is not None else ():
                if change.generation > plan:
                    time.sleep(self.lingers_s)
                    self._let_go(lane, change.give_up)
                    self._take(lane, (each.spec.source for each in change.take))
                    plan = change.generation
                    self.changes.append((lane.lane, change))
            number += 1
            if not self.is_mute:
                self.lanes.reported(self._report(lane, number, plan))
            time.sleep(LOOK_S)
        time.sleep(self.lingers_s)
        with self._lock:
            mine = [at for at, whose in self.working.items() if whose == lane.round_id]
        self._let_go(lane, mine)
        if lane.round_id in self.cancelled:
            raise RuntimeError("cancelled")
        return self._report(lane, number, plan)

    def _report(self, lane: LaneSpec, number: int, plan: int) -> RoundReport:
        found = RoundReport(lane.lane, lane.generation, lane.round_number, 0, 0, "", [])
        found.number, found.plan, found.hangs = number, plan, self.hangs
        return found

    def _take(self, lane: LaneSpec, partitions) -> None:
        with self._lock:
            for at in partitions:
                self.overlaps += self.working.get(at, lane.round_id) != lane.round_id
                self.working[at] = lane.round_id

    def _let_go(self, lane: LaneSpec, partitions) -> None:
        with self._lock:
            for at in partitions:
                if self.working.get(at) == lane.round_id:
                    del self.working[at]

    def cancel(self, lane: LaneSpec) -> None:
        self.cancelled.append(lane.round_id)


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def places() -> Places:
    return Places()


@pytest.fixture
def lanes(rounds: Rounds, places: Places) -> Iterator[LaneSet]:
    template = replace(lane_spec(ClusterAccess(()), ClusterAccess(())), lease_s=LEASE_S)
    woken, is_over = threading.Event(), threading.Event()
    found = rounds.lanes = LaneSet(
        template,
        Runner(rounds.run, rounds.cancel, places=places),
        announce=rounds.announce,
        clock=SystemClock(),
        events=Events(SystemClock().wall_ms, None),
        first_generation=7,
        wake=woken.set,
    )

    def keep() -> None:
        while not is_over.is_set():
            woken.wait(LEASE_S / 10)
            woken.clear()
            if not rounds.is_kept:
                continue
            with contextlib.suppress(ConnectionLost):  # as its loop does, which tries again
                found.keep(lambda: rounds.log.append("renewed"))

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    yield found
    is_over.set()
    woken.set()
    keeper.join(WAIT_S)
    found.stop()


def wait(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until_s, "not in time"
        time.sleep(0.005)


def test_moved_partitions_are_never_in_two_rounds(lanes: LaneSet, rounds: Rounds) -> None:
    """Given two lanes at work / when partitions swap / then each is let go of before it is taken,

    and both rounds go on.
    """
    rounds.lingers_s = 0.02
    lanes.assign({ZERO: (spec(0), spec(1)), ONE: (spec(2),)})
    wait(lambda: len(rounds.working) == 3)
    for turn in range(6):
        one, other = spec(turn % 2), spec(1 - turn % 2)
        lanes.assign({ZERO: (one,), ONE: (other, spec(2))})
        wait(lambda at=other: rounds.working.get(at.source, "").startswith("1/"))
        wait(lambda at=one: rounds.working.get(at.source, "").startswith("0/"))
    assert rounds.overlaps == 0
    assert len(rounds.started) == 2
    assert all(lane.generation > 7 for lane in rounds.started)
    moved = {at for _, change in rounds.changes for at in change.give_up}
    assert spec(2).source not in moved


def test_a_lane_more_takes_only_what_moves_to_it(lanes: LaneSet, rounds: Rounds) -> None:
    lanes.assign({ZERO: (spec(0), spec(1))})
    wait(lambda: len(rounds.working) == 2)
    lanes.assign({ZERO: (spec(0),), ONE: (spec(1),)})
    wait(lambda: rounds.working.get(spec(1).source, "").startswith("1/"))
    assert [lane.lane for lane in rounds.started] == [ZERO, ONE]
    assert rounds.overlaps == 0
    lanes.assign({ZERO: (spec(0), spec(1))})
    wait(lambda: rounds.working.get(spec(1).source, "").startswith("0/"))
    assert len(rounds.started) == 2
    assert rounds.overlaps == 0


def test_a_failed_round_is_reported_and_retried(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round that fails / when time passes / then the next one runs, the error is kept."""
    rounds.fail_next = True
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.started)
    assert time.monotonic() >= rounds.failed_at_s + RETRY_FIRST_S
    assert lanes.health[ZERO].failures_in_a_row == 1
    assert "[X] planted" in lanes.health[ZERO].last_error
    assert rounds.started[0].generation > rounds.failed[0].generation
    assert rounds.started[0].may_land_s == LANDS_WITHIN_S


def test_no_round_runs_before_it_is_announced(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a round that can't be announced / then it does not run: it would end at once."""

    def not_now(_told: Announcement) -> None:
        raise ConnectionLost("no broker takes it")

    with monkeypatch.context() as away:
        away.setattr(lanes._announcing, "_write", not_now)  # a fault
        lanes.assign({ZERO: (spec(0),)})
        wait(lambda: lanes.health[ZERO].failures_in_a_row)
        assert not rounds.started
        assert "no broker takes it" in lanes.health[ZERO].last_error
    wait(lambda: rounds.started)


def test_a_report_is_answered_after_a_renewal(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round / when it reports / then an answer follows a renewal of the claim (I10)."""
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.announced.answered)
    (round_id,) = rounds.announced.answered
    assert round_id == rounds.started[0].round_id
    assert "renewed" in rounds.log
    first = rounds.announced.answered[round_id]
    wait(lambda: rounds.announced.answered.get(round_id, 0) > first)


def test_what_comes_while_the_claim_is_renewed_is_not_answered_yet(
    lanes: LaneSet, rounds: Rounds
) -> None:
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.announced.answered)
    rounds.is_mute, rounds.is_kept = True, False
    time.sleep(LEASE_S / 5)  # nobody else renews any more
    later = rounds._report(rounds.started[0], 10_000, 0)
    lanes.keep(lambda: lanes.reported(later))
    (answered,) = rounds.announced.answered.values()
    assert 0 < answered < 10_000
    lanes.keep(lambda: None)
    assert list(rounds.announced.answered.values()) == [10_000]


def test_a_driver_that_cannot_renew_answers_nothing(lanes: LaneSet, rounds: Rounds) -> None:
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.announced.answered)
    rounds.is_kept = False
    time.sleep(LEASE_S / 5)
    told = rounds.announced

    def refuse() -> None:
        raise LinkTakenOver("by another")

    with pytest.raises(LinkTakenOver):
        lanes.keep(refuse)
    assert rounds.announced is told


def test_a_round_that_hangs_is_cancelled_and_follows_anew(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a round that reports nothing more / when other reports are read / then cancelled."""
    monkeypatch.setattr(hung_rounds, "SILENT_S", 0.5)
    monkeypatch.setattr(hung_rounds, "READ_WITHIN_S", 0.3)
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.announced.answered)
    rounds.is_mute = True
    time.sleep(1.2)
    assert not rounds.cancelled  # nothing at all is read
    wait(lambda: lanes.reported(None) or rounds.cancelled)
    rounds.is_mute = False
    wait(lambda: len(rounds.started) > 1)
    first, second = rounds.started[:2]
    assert rounds.cancelled == [first.round_id]
    assert second.waits_for == (first.round_id,)


def test_stop_ends_all_rounds(lanes: LaneSet, rounds: Rounds) -> None:
    """Given lanes at work / when stopped / then nothing runs and nothing starts again."""
    lanes.assign({ZERO: (spec(0),), ONE: (spec(1),)})
    wait(lambda: len(rounds.working) == 2)
    lanes.stop()
    assert not rounds.working
    assert lanes.lease_left_s() == 0.0
    lanes.assign({ZERO: (spec(5),)})
    time.sleep(0.1)
    assert not rounds.working


def test_a_round_whose_pipeline_hangs_is_cancelled_at_once(lanes: LaneSet, rounds: Rounds) -> None:
    """Given a round that says that it can't end / then its job is cancelled, and why is known."""
    lanes.assign({ZERO: (spec(0),)})
    wait(lambda: rounds.announced.answered)
    rounds.hangs = "nothing has come back for 5 s: it hangs"
    wait(lambda: rounds.cancelled)
    rounds.hangs = ""
    wait(lambda: "it hangs" in lanes.health[ZERO].last_error)
    wait(lambda: len(rounds.started) > 1)
    assert rounds.cancelled == [rounds.started[0].round_id]


def test_only_a_round_with_a_pipeline_must_report_within_some_time(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given rounds that never report / then that with a pipeline, whose workers may never meet, is

    cancelled; another may wait for a free core.
    """
    monkeypatch.setattr(hung_rounds, "PIPELINE_STARTS_S", 0.3)
    rounds.is_mute = True
    lanes.assign({ZERO: (spec(0),), ONE: (spec(1),)})
    wait(lambda: len(rounds.working) == 2)
    (piped, _) = sorted(lanes._plans.rounds(), key=lambda item: item.spec.lane)
    piped.spec = replace(piped.spec, pipeline=Pipeline("hide", (Where("true"),)))
    wait(lambda: lanes.reported(None) or rounds.cancelled)
    time.sleep(0.5)
    assert rounds.cancelled == [piped.spec.round_id]


@pytest.mark.parametrize("places", [Places(lambda: 2, time.monotonic)])
def test_more_lanes_than_places_take_turns(
    lanes: LaneSet, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given three pipelines and two places / when time passes / then each copies, and again, at

    most two at once, and none is in two rounds.
    """
    monkeypatch.setattr(turns, "TURN_S", 0.01)
    monkeypatch.setattr(turns, "COPIES_WITHIN_S", 0.0)
    monkeypatch.setattr(turns, "LOOK_S", 0.01)
    most = 0

    def counted() -> bool:
        nonlocal most
        most = max(most, len(rounds.working))
        begun = [lane.lane for lane in rounds.started]
        return set(begun) == set(wanted) and len(begun) > len(wanted)

    wanted = {LaneId(PIPELINE_LANES * (each + 1)): (spec(each),) for each in range(3)}
    lanes.assign(wanted)
    wait(lambda: lanes.report()["places"])
    wait(counted)
    assert most == 2
    assert rounds.overlaps == 0
    assert not rounds.failed
