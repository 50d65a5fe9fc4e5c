"""One round's loop, by single steps over the simulation's network."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sim.partition_log import PartitionLog
from sim.sim_clock import SimClock
from sim.sim_network import BROKER, SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import WALL_MS, fill, granted, lane, make_world, run_to_the_end

from heliostat.records.copier.append_schedule import APPEND_REQUEST_BYTES_MAX
from heliostat.records.copier.attention import TRY_AGAIN_S
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import CopySettings, PartitionState
from heliostat.records.copier.lease import NOT_GRANTED
from heliostat.records.copier.network import Fetched, Want
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.partition_standing import Phase

BEFORE, OWN = "0/1/0", "0/1/1"
ROOM = CopySettings().lane_queued_bytes_max


class Round:
    """A round over two partitions with records, without faults."""

    def __init__(self, *waits_for: str) -> None:
        logs = [PartitionLog(), PartitionLog()]
        self.world = World(
            random.Random(1), SimClock(WALL_MS), logs, [PartitionLog(), PartitionLog()], 0.0
        )
        for log in logs:
            fill(log, self.world.random, 50, WALL_MS)
        spec = replace(lane(self.world, 1, 5.0, [0, 0]), waits_for=waits_for)
        self.network = SimNetwork(self.world, 5)
        self.copier = granted(Copier(spec, self.network, self.world.clock))

    def until_queued(self) -> None:
        """Turn until something waits to be appended, with nothing sent yet."""
        clock = self.world.clock
        self.copier._find_leaders(clock.now_s)
        self.copier._attention._find_positions(self.copier.partitions, clock.now_s)
        self.copier._fetches.send(clock.now_s, 1 << 30)
        while not any(item.appends.queue for item in self.copier.partitions):
            self.copier._take(self.network.wait(0.05, ROOM))


def test_a_request_that_is_ready_after_the_lease_is_not_sent() -> None:
    """Given a turn that begins in time / when it takes longer / then nothing goes out (I10)."""
    one = Round()
    one.until_queued()
    began_s = one.copier.lease.until_s - 0.01
    one.world.clock.now_s = one.copier.lease.until_s
    one.copier._appends.send(began_s)
    assert not one.network._appends
    assert all(item.appends.in_flight == 0 for item in one.copier.partitions)


def test_what_waits_for_the_first_lease_is_not_lost() -> None:
    """Given records that are there before the driver has answered / then they wait, in no trouble.

    Over a line of 300 ms they came first after a hand-over, and were told as retried.
    """
    one = Round()
    one.until_queued()
    queued = [list(item.appends.queue) for item in one.copier.partitions]
    one.copier.lease.until_s = NOT_GRANTED
    one.copier._appends.send(one.world.clock.now_s)
    assert not one.network._appends
    assert [list(item.appends.queue) for item in one.copier.partitions] == queued
    one.copier.lease.until_s = one.world.clock.now_s + 5.0
    one.copier._appends.send(one.world.clock.now_s)
    assert one.network._appends


def test_a_request_within_the_lease_is_sent() -> None:
    one = Round()
    one.until_queued()
    one.copier._appends.send(one.world.clock.now_s)
    assert one.network._appends


@pytest.mark.parametrize(
    ("running", "is_held"),
    [
        (None, True),
        (frozenset({OWN, BEFORE}), True),
        (frozenset({OWN, "7/7/7"}), False),
        (frozenset({OWN}), False),
        # It was announced before this round, or those before it, were submitted.
        (frozenset({BEFORE}), True),
        (frozenset(), True),
    ],
)
def test_old_records_are_held_until_earlier_rounds_have_ended(
    running: frozenset[str] | None, *, is_held: bool
) -> None:
    """Given the driver's report of running rounds / then by that, and not before it arrives."""
    one = Round(BEFORE)
    assert one.copier.reports._lane.round_id == OWN
    one.copier._look_for_predecessors(running)
    assert all(item.appends.holds_old is is_held for item in one.copier.partitions)
    # What they have sent last may still land, so that the end is read again after that.
    lands_s = one.world.clock.now_s + LANDS_WITHIN_S
    may_land = [item.appends.may_land_until_s >= lands_s for item in one.copier.partitions]
    assert may_land == [not is_held] * 2


@pytest.mark.parametrize("off", ["offset", "attempt"])
def test_an_answer_to_a_superseded_fetch_is_ignored(off: str) -> None:
    """Given a fetch superseded by another / when it is answered / then nothing is queued."""
    one = Round()
    one.until_queued()
    item = next(item for item in one.copier.partitions if item.appends.queue)
    at, before = (
        item.fetches.offset,
        (len(item.appends.queue), item.fetches.offset, item.progress.high_watermark),
    )
    data = bytearray(one.world.source[item.index].read(0, 10**6))
    want = Want(item.index, item.attempt - (off == "attempt"), at - (off == "offset"), 10**6)
    earlier_end = item.progress.high_watermark - 1  # as it was when the other fetch was sent
    one.copier._take([Fetched(want, 0, earlier_end, data, 0, len(data), earlier_end)])
    assert (len(item.appends.queue), item.fetches.offset, item.progress.high_watermark) == before


def test_a_request_ends_with_the_batch_that_fills_it() -> None:
    """Given many large batches / when a request is put together / then brokers can take it."""
    one = Round()
    size = APPEND_REQUEST_BYTES_MAX // 2
    send = SimpleNamespace(batch=SimpleNamespace(size=size))
    items: dict[int, Any] = {
        index: SimpleNamespace(index=index, next_send=lambda *_: send) for index in range(5)
    }
    assert len(one.copier._appends._one_batch_of_each(items, 0.0, 0)) == 2
    assert list(items) == [2, 3, 4, 0, 1]  # who was left out is first the next time


def test_the_map_is_read_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a predecessor that copies / when a round begins / then its map covers the end (I2)."""
    one = Round()
    asked: list[str] = []
    for name in ("target_ranges", "offset_maps"):
        really = getattr(one.network, name)

        def noted(indexes: Sequence[int], name: str = name, really: Any = really) -> Any:
            asked.append(name)
            return really(indexes)

        monkeypatch.setattr(one.network, name, noted)
    one.copier.turn(one.world.clock.now_s)
    assert asked == ["target_ranges", "offset_maps"]
    assert all(item.phase is Phase.COPY for item in one.copier.partitions)
    assert one.copier._leaders.target == {0: BROKER, 1: BROKER}


def test_an_unreadable_last_record_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a mirror whose last record can't be read / then waits, with a reason; no stop (I1)."""
    one = Round()
    fill(one.world.target[0], one.world.random, 5, WALL_MS)
    monkeypatch.setattr(one.network, "target_last_batches", lambda _: {})
    now_s = one.world.clock.now_s
    one.copier._find_leaders(now_s)
    one.copier._attention._find_positions(one.copier.partitions, now_s)
    first, second = one.copier.partitions
    assert (first.phase, first.standing.code) == (Phase.FIND_END, "TAIL_UNREAD")
    assert second.phase is Phase.COPY  # its log is empty: no one has written there


@pytest.mark.parametrize("seed", range(10))
def test_a_lane_whose_memory_bound_is_one_answer_copies_all(seed: int) -> None:
    """Given room for less than an answer / when copied / then one after the other, and all."""
    world = make_world(seed, fault_rate=0.0)
    spec = lane(world, 0, 60.0, [0, 0])
    settings = replace(spec.settings, lane_queued_bytes_max=500)
    network = SimNetwork(world, 5)
    copier = Copier(replace(spec, settings=settings), network, world.clock)
    run_to_the_end(world, copier)
    assert [log.end for log in world.target] == [log.end for log in world.source]
    assert network.held_bytes() == 0


def hooks_of(**more: Any) -> Hooks:
    """Of a driver that wants the round to go on."""
    return Hooks(lambda: False, lambda: False, lambda _: None, **more)


def test_a_round_without_answers_stops_sending_and_goes_on_at_the_targets_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a lease that is over / when another has copied meanwhile / then it reads the ends (I4).

    Until then it says why it waits.
    """
    one = Round()
    answered = [1]
    hooks = Hooks(lambda: False, lambda: True, lambda _: None, answered=lambda: answered[0])
    one.copier.begin(hooks)
    while sum(log.end for log in one.world.target) < 20:
        one.copier.step(hooks)
    one.world.clock.sleep(5.0)
    one.copier.step(hooks)
    assert {item.standing.code for item in one.copier.partitions} == {"LEASE_ENDED"}
    for log in one.world.source:
        fill(log, one.world.random, log.end + 20, one.world.clock.wall_ms())
    before = [log.end for log in one.world.target]
    for _ in range(50):
        one.copier.step(hooks)
    assert [log.end for log in one.world.target] == before
    other = Copier(lane(one.world, 2, 5.0, [0, 0]), SimNetwork(one.world, 5), one.world.clock)
    run_to_the_end(one.world, other)
    asked: set[int] = set()
    ranges = one.network.target_ranges
    monkeypatch.setattr(one.network, "target_ranges", lambda at: (asked.update(at), ranges(at))[1])
    answered[0] = 10_000  # all that it has reported
    for _ in range(100):
        one.copier.step(hooks)
    assert asked == {0, 1}
    for item in one.copier.partitions:
        assert (item.standing.code, item.phase) == ("", Phase.COPY)
        assert item.progress.position == one.world.source[item.index].end


def test_a_stopped_partition_is_looked_at_again_after_a_while() -> None:
    """Given a stop / when its reason is gone, by nobody's decision / then it is copied on."""
    one = Round()
    hooks = hooks_of(answered=lambda: 1)
    one.copier.begin(hooks)
    while not all(item.phase is Phase.COPY for item in one.copier.partitions):
        one.copier.step(hooks)
    item = one.copier.partitions[0]
    item.stop(PartitionState.BLOCKED, "CORRUPT", "a damaged batch", 0)
    item.has_row_under_way = True
    one.world.clock.sleep(TRY_AGAIN_S)
    one.copier.lease.report(2)
    one.copier.lease.answer(2)
    one.copier.step(hooks)
    assert item.phase is Phase.STOPPED  # not while something of it is under way
    item.has_row_under_way = False
    one.world.clock.sleep(TRY_AGAIN_S)
    one.copier.lease.report(3)
    one.copier.lease.answer(3)
    for _ in range(50):
        one.copier.step(hooks)
    assert (item.phase, item.standing.state) == (Phase.COPY, PartitionState.COPYING)
    assert item.progress.position == one.world.source[0].end


@pytest.mark.parametrize("target_s", [0.0, 0.3])
def test_records_gather_between_an_answer_and_the_next_fetch(
    target_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a latency target / when a group was answered / then its next fetch waits so long, but

    what was answered is sent at once; and after a single record, or none, so is the next fetch.
    """
    world = make_world(5, fault_rate=0.0)
    spec = lane(world, 1, 1e6, [0, 0])
    network = SimNetwork(world, 5)
    settings = replace(spec.settings, latency_target_s=target_s, partition_fetch_bytes_max=2**20)
    copier = granted(Copier(replace(spec, settings=settings), network, world.clock))
    pauses_s: list[float] = []
    alone: list[bool] = []
    answered_s: dict[Any, float] = {}
    watched, fetch = copier._fetches.watched, copier._fetches._fetch

    def noted(event: Any, now_s: float, *, was_single: bool = False) -> None:
        answered_s[event.broker, event.channel] = float("-inf") if was_single else now_s
        alone.append(was_single)
        watched(event, now_s, was_single=was_single)

    def asked(broker: Any, channel: Any, items: Any, now_s: float) -> None:
        pauses_s.append(now_s - answered_s.get((broker, channel), float("-inf")))
        fetch(broker, channel, items, now_s)

    monkeypatch.setattr(copier._fetches, "watched", noted)
    monkeypatch.setattr(copier._fetches, "_fetch", asked)
    for _ in range(300):
        copier.turn(world.clock.monotonic_s())
    for log in world.source:
        fill(log, world.random, log.end + 30, world.clock.wall_ms())
    for _ in range(300):
        copier.turn(world.clock.monotonic_s())
        late_s = world.clock.now_s - max(answered_s.values())
        assert late_s > 0.1 or not any(item.appends.queue for item in copier.partitions)
    assert [log.end for log in world.target] == [log.end for log in world.source]
    assert {True, False} <= set(alone)
    assert min(pauses_s) >= target_s
    assert (min(pauses_s) < 0.1) is (target_s == 0.0)
