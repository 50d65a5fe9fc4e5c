"""The lanes of a link at run time: rounds follow each other on Spark, each prepared in advance.

A round is given out before its predecessor ends. It opens its connections, waits for the moment at
which the predecessor sends no more, and begins: so the change of rounds is not felt.

I10 Before a round is given out its last deadline is announced on the target, mostly seconds ahead,
by who keeps the link (`announced_for_s`): a broker that hangs holds announcements up until it is
missed, and a round that waits for its own stands still. Rounds that share a partition never overlap
by their clocks; as clocks may differ, records for which the broker's duplicate check may not hold
wait until the rounds before have really ended (`waits_for`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliostat.clock import Clock
from heliostat.names import LaneId
from heliostat.offsets.offset_map import MapTail
from heliostat.ops.events import Events
from heliostat.ops.spark_session import essence
from heliostat.records.copier.lane import Announcement, LaneSpec, PartitionSpec, RoundReport
from heliostat.records.copier.late_sends import LATE_S
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S

PREPARE_S, PREPARE_S_MAX = 2.0, 12.0
"""A round is given out so long before it begins: its job starts and its connections open. Longer,
up to the other, for lanes with many partitions or whose rounds were ready late, as on a machine
that is full: with 2,400 partitions 2.8 s were needed (2026-11-22, 2 cores that were all used)."""
PREPARE_S_PER_PARTITION = 1e-3
PREPARE_SLACK = 1.5  # so many times what it took before
COLD_PREPARE_S = 12.0
"""As long for a lane's second round: the process that runs it has everything to load first, 2 s on
a quiet machine, which later rounds find loaded."""
HAND_OVER_S = 0.005
"""Between the end of a round and the beginning of the next: what was sent last has mostly landed.
Where it has not, the broker refuses the next batch as out of order, and the end is read again."""
SWITCH_S = 1.5
"""A changed plan comes into force after this: its rounds are prepared meanwhile."""
STAGGER, STAGGERED_LANES = 0.125, 4
"""A lane's first round of a plan is shorter by this part for each lane before it: lanes that change
rounds at one moment take the processor from each other, 0.2 s of it for 2,400 partitions."""
AHEAD_S_MAX, AHEAD_PART = 10.0, 1 / 3
"""So long before it is given out a round is announced, and at most this part of a round: whoever
takes over waits so much longer. Kafka's default to miss a broker for is 9 s
(`broker.session.timeout.ms`)."""
AHEAD_SLACK_S = 0.1
"""What is announced ahead lasts so much longer than is known then: it is counted anew."""
START_SLACK_S = 15.0
"""A round without one before it, which has to wait for its task to start, lasts so much longer."""
END_WITHIN_S, CANCEL_WITHIN_S = 30.0, 10.0
"""A round ends within some seconds of its time; after this its job is cancelled."""
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0
ROUNDS_AT_ONCE = 2
"""Of one lane: the one at work, and the next one that is prepared."""


@dataclass(slots=True)
class LaneHealth:
    """How a lane's rounds fare."""

    lane: LaneId
    rounds: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""
    ended_ms: int = 0
    not_before_s: float = 0.0
    """After a failure the next round waits until then (monotonic)."""


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs rounds: Spark, or a stand-in in tests."""

    run: Callable[[LaneSpec], RoundReport]
    cancel: Callable[[LaneSpec], None]


CopiedRows = tuple[tuple[int, int, int, int], ...]
"""See `LaneSpec.copied`."""
Maps = Callable[
    [Sequence[PartitionSpec], CopiedRows], tuple[tuple[tuple[int, MapTail], ...], int, str]
]
Copied = Callable[[Sequence[PartitionSpec]], CopiedRows]
Rates = Callable[[Sequence[PartitionSpec]], tuple[tuple[int, float], ...]]
Ended = Callable[[LaneSpec, RoundReport], None]


@dataclass(slots=True)
class _Round:
    spec: LaneSpec
    ends_at_s: float
    """By the driver's monotonic clock, as all waiting is: the wall clock may be stepped."""
    ahead_s: float
    """How long before its beginning it was given out."""
    is_cancelled: bool = False
    has_begun: bool = False
    """It was announced, and may send."""


@dataclass(slots=True)
class _Lane:
    """One lane's bookkeeping."""

    health: LaneHealth
    partitions: tuple[PartitionSpec, ...] = ()
    generation: int = 0
    announced: int = 0
    """The generation that tasks have been told of: one that they don't know ends at once."""
    rounds: list[_Round] = field(default_factory=list)
    """Given out and not ended, in order."""
    numbers: int = 0
    took_s: float = 0.0
    """About so long it took lately until a round was prepared."""
    staggered: int = 0
    """The generation whose first round was given out."""
    threads: list[threading.Thread] = field(default_factory=list)


class LaneSet:
    """All lanes of one link.

    Parameters
    ----------
    template
        A `LaneSpec` with all that lanes have in common; partitions, ids and deadlines are filled
        in here.
    runner
        Runs one round.
    announce
        Tells tasks what is wanted; durable when it returns (see `LinkState.announce`).
    announce_deadline
        Makes the last deadline durable, in wall ms.
    clock, events
        Time, and where trouble is told.
    first_generation
        Larger than any that was used before.
    maps
        What is known of partitions' offset maps, see `LaneSpec.maps`, `maps_from` and
        `maps_topic_id`; they reach back to where logs ended by `copied`.
    copied
        From which leader epochs partitions were copied, see `LaneSpec.copied`.
    rates
        How much is copied of partitions, see `LaneSpec.rates`.
    ended
        Hears of each round that came to its end.
    """

    def __init__(
        self,
        template: LaneSpec,
        runner: Runner,
        *,
        announce: Callable[[Announcement], None],
        announce_deadline: Callable[[int], None],
        clock: Clock,
        events: Events,
        first_generation: int,
        maps: Maps = lambda _specs, _copied: ((), 0, ""),
        copied: Copied = lambda _: (),
        rates: Rates = lambda _: (),
        ended: Ended = lambda _spec, _report: None,
    ) -> None:
        self._template = template
        self._runner = runner
        self._announce_to_tasks = announce
        self._announce_deadline = announce_deadline
        self._clock = clock
        self._events = events
        self._changed = threading.Condition()
        self._telling = threading.Lock()
        self._lanes: dict[LaneId, _Lane] = {}
        self._next_generation = first_generation
        self._maps = maps
        self._copied = copied
        self._rates = rates
        self._tell_ended = ended
        self._switch_at_s: float | None = None
        self._failed_s = -LANDS_WITHIN_S
        """When a round failed last: what it had sent may land for a while."""
        self._stopping = False

    @property
    def health(self) -> dict[LaneId, LaneHealth]:
        """How each lane fares."""
        with self._changed:
            return {number: lane.health for number, lane in self._lanes.items()}

    @property
    def generations(self) -> dict[LaneId, int]:
        """Wanted generation of each lane."""
        with self._changed:
            return self._wanted_generations()

    def assign(self, wanted: Mapping[LaneId, tuple[PartitionSpec, ...]]) -> list[LaneId]:
        """Make `wanted` the lanes' partitions; returns the lanes that changed.

        Rounds of changed lanes end at one moment, and the next ones of all of them begin then.
        """
        with self._changed:
            if self._stopping:
                return []
            changed = [
                number
                for number in {**self._lanes, **wanted}
                if self._partitions(number) != wanted.get(number, ())
            ]
            if not changed:
                return []
            old = [item for number in changed for item in self._rounds(number)]
            more_s = max(_prepare_s(wanted.get(number, ())) for number in changed) - PREPARE_S
            switch_at_s = self._clock.monotonic_s() + SWITCH_S + more_s
            for item in old:
                item.ends_at_s = min(item.ends_at_s, switch_at_s)
            self._switch_at_s = switch_at_s if old else None
            for number in changed:
                self._next_generation += 1
                lane = self._lanes.get(number) or self._add(number)
                lane.partitions = wanted.get(number, ())
                lane.generation = self._next_generation
        self.tell()
        return changed

    def stop(self) -> None:
        """End all rounds and wait for them; what is under way is acknowledged first."""
        with self._changed:
            self._stopping = True
            self._switch_at_s = None
            self._changed.notify_all()
        try:
            self.tell()
        finally:
            self._await_end()
            for lane in self._lanes.values():
                for thread in lane.threads:
                    thread.join(CANCEL_WITHIN_S)

    def renew(self, lasts_s: float) -> None:
        """Announce that this driver still owns the link, rounds or not, for so many seconds.

        Also looks for rounds that do not end, and cancels their jobs.
        """
        with self._changed:
            if self._stopping:
                return
            now_s = self._clock.monotonic_s()
            overdue = [
                item
                for lane in self._lanes.values()
                for item in lane.rounds
                if now_s > item.ends_at_s + END_WITHIN_S
            ]
            wanted = [lane for lane in self._lanes.values() if lane.partitions]
            is_unannounced = any(lane.announced != lane.generation for lane in wanted)
        self._cancel(overdue)
        if is_unannounced:  # it failed the last time
            self.tell()
        if lasts_s:
            self._announce_deadline(self._clock.wall_ms() + int(lasts_s * 1000))

    def announced_for_s(self) -> float:
        """For how long from now rounds must be announced: those at work, and those that follow."""
        with self._changed:
            if self._stopping:
                return 0.0
            now_s = self._clock.monotonic_s()
            ends_s = (self._to_announce(lane, now_s) for lane in self._lanes.values())
            return max([0.0, *(end_s + LATE_S - now_s for end_s in ends_s if end_s is not None)])

    # -- bookkeeping, under the lock -----------------------------------------------------------

    def _partitions(self, number: LaneId) -> tuple[PartitionSpec, ...]:
        lane = self._lanes.get(number)
        return lane.partitions if lane is not None else ()

    def _rounds(self, number: LaneId) -> list[_Round]:
        lane = self._lanes.get(number)
        return lane.rounds if lane is not None else []

    def _wanted_generations(self) -> dict[LaneId, int]:
        if self._stopping:
            return {}
        return {n: lane.generation for n, lane in self._lanes.items() if lane.partitions}

    def _all_running(self) -> tuple[str, ...]:
        return tuple(i.spec.round_id for lane in self._lanes.values() for i in lane.rounds)

    def _add(self, number: LaneId) -> _Lane:
        lane = self._lanes[number] = _Lane(LaneHealth(number))
        for place in range(ROUNDS_AT_ONCE):
            thread = threading.Thread(
                target=self._run, args=(lane,), name=f"lane-{number}-{place}", daemon=True
            )
            lane.threads.append(thread)
            thread.start()
        return lane

    # -- rounds --------------------------------------------------------------------------------

    def _run(self, lane: _Lane) -> None:
        """Run round after round, in turn with the lane's other thread."""
        while True:  # ends when `stop` makes `_next_round` answer None
            item = self._next_round(lane)
            if item is None:
                return
            error: Exception | None = None
            try:
                self._announce_deadline(item.spec.expires_at_ms + int(LATE_S * 1000))
                item.has_begun = True
                report = self._runner.run(item.spec)
                self._tell_ended(item.spec, report)
                self._learn(lane, item, report)
            except Exception as caught:  # noqa: BLE001  # whatever ends a round is told and retried
                error = caught
            self._ended(lane, item, error)

    def _next_round(self, lane: _Lane) -> _Round | None:
        """Wait until the lane's next round is to be prepared; None when the link stops."""
        with self._changed:
            while True:  # ends when the link stops, or when it is time
                if self._stopping:
                    return None
                wait_s = self._wait_s(lane)
                if wait_s is not None and wait_s <= 0:
                    return self._give_out(lane)
                self._changed.wait(wait_s)

    def _wait_s(self, lane: _Lane) -> float | None:
        """How long the next round has to wait; None: until something changes."""
        if not lane.partitions or len(lane.rounds) >= ROUNDS_AT_ONCE:
            return None
        if lane.announced != lane.generation:
            return None
        at_s = lane.health.not_before_s
        if lane.rounds:
            at_s = max(at_s, lane.rounds[-1].ends_at_s - self._prepare_s(lane))
        return at_s - self._clock.monotonic_s()

    def _to_announce(self, lane: _Lane, now_s: float) -> float | None:
        """Until when rounds of a lane may send; also of the next, if it is given out soon."""
        if not lane.rounds:
            return None
        end_s, round_s = lane.rounds[-1].ends_at_s, self._template.round_s
        ahead_s = min(AHEAD_S_MAX, round_s * AHEAD_PART)
        if lane.partitions and now_s >= end_s - self._prepare_s(lane) - ahead_s:
            end_s += HAND_OVER_S + round_s + AHEAD_SLACK_S
        return end_s

    def _prepare_s(self, lane: _Lane) -> float:
        """How long before it begins a lane's next round is given out."""
        if lane.numbers < ROUNDS_AT_ONCE:
            return COLD_PREPARE_S
        took_s = lane.took_s * PREPARE_SLACK
        return min(PREPARE_S_MAX, max(_prepare_s(lane.partitions), took_s))

    def _give_out(self, lane: _Lane) -> _Round:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        # Those whose partitions this round may take over; all that end with a switch of plans.
        before = list(lane.rounds)
        if self._switch_at_s is not None and now_s < self._switch_at_s + END_WITHIN_S:
            before = [
                item
                for other in self._lanes.values()
                for item in other.rounds
                if other is lane or item.spec.generation != other.generation
            ]
        last_s = max((item.ends_at_s for item in before), default=-1.0)
        begins_s = max(now_s, last_s + HAND_OVER_S)
        lasts_s = self._template.round_s
        if lane.staggered != lane.generation:
            lane.staggered = lane.generation
            lasts_s *= 1.0 - STAGGER * (lane.health.lane % STAGGERED_LANES)
        lasts_s += 0.0 if before else START_SLACK_S
        failed_s = self._failed_s if before else begins_s
        lands_s = max(0.0, failed_s + LANDS_WITHIN_S - begins_s)
        begins_ms = now_ms + round((begins_s - now_s) * 1000)
        copied = self._copied(lane.partitions)
        maps, maps_from, maps_topic_id = self._maps(lane.partitions, copied)
        spec = replace(
            self._template,
            lane=lane.health.lane,
            generation=lane.generation,
            round_number=lane.numbers,
            partitions=lane.partitions,
            maps=maps,
            maps_from=maps_from,
            maps_topic_id=maps_topic_id,
            copied=copied,
            rates=self._rates(lane.partitions),
            round_s=lasts_s,
            begin_at_ms=begins_ms,
            expires_at_ms=begins_ms + int(lasts_s * 1000),
            waits_for=tuple(item.spec.round_id for item in before),
            may_land_s=lands_s,
        )
        lane.numbers += 1
        item = _Round(spec, begins_s + lasts_s, begins_s - now_s)
        lane.rounds.append(item)
        return item

    def _learn(self, lane: _Lane, item: _Round, report: RoundReport) -> None:
        """How early the lane's rounds are to be prepared; it shrinks step by step."""
        if report.spare_s is not None and item.spec.round_number >= ROUNDS_AT_ONCE:
            with self._changed:
                lane.took_s = max(item.ahead_s - report.spare_s, lane.took_s / PREPARE_SLACK)

    def _ended(self, lane: _Lane, item: _Round, error: Exception | None) -> None:
        now_s = self._clock.monotonic_s()
        health = lane.health
        with self._changed:
            lane.rounds.remove(item)
            health.rounds += 1
            health.ended_ms = self._clock.wall_ms()
            if error is None:
                # A successor prepared for a round that fails ends at once, and proves nothing.
                if item.spec.generation == lane.generation:
                    health.failures_in_a_row, health.last_error, health.not_before_s = 0, "", 0.0
            else:
                health.failures_in_a_row += 1
                health.last_error = essence(str(error))
                pause_s = RETRY_FIRST_S * 2 ** min(health.failures_in_a_row, 10)
                health.not_before_s = now_s + min(RETRY_MAX_S, pause_s)
            if error is not None and item.has_begun:
                self._failed_s = now_s
                # A failed job does not prove that its task has ended, on a machine cut off from
                # this one: where it still reaches the target it hears that it is not wanted.
                self._next_generation += 1
                lane.generation = self._next_generation
                for other in lane.rounds:
                    other.ends_at_s = min(other.ends_at_s, now_s)
            # Who waits for this round's end hears of it; with none before it nobody does.
            is_awaited = any(
                item.spec.round_id in other.spec.waits_for
                for each in self._lanes.values()
                for other in each.rounds
            )
            stopping = self._stopping
            self._changed.notify_all()
        if stopping:
            return
        if error is not None:
            self._events.warn(f"lane {health.lane}: round failed: {health.last_error}")
        if is_awaited or (error is not None and item.has_begun):
            try:
                self.tell()
            except Exception as failure:  # noqa: BLE001  # told; the next round's end tells it anew
                self._events.warn(
                    f"lane {health.lane}: the end of a round can't be told: {failure}"
                )

    # -- telling -------------------------------------------------------------------------------

    def tell(self) -> None:
        """Announce what is wanted now; one at a time, so that the newest is the last."""
        with self._telling:
            with self._changed:
                switch_at_ms = None
                if self._switch_at_s is not None:
                    left_s = self._switch_at_s - self._clock.monotonic_s()
                    switch_at_ms = self._clock.wall_ms() + round(left_s * 1000)
                plan = Announcement(self._wanted_generations(), switch_at_ms, self._all_running())
            self._announce_to_tasks(plan)
            with self._changed:
                for number, generation in plan.generations.items():
                    self._lanes[number].announced = generation
                self._changed.notify_all()

    # -- ending --------------------------------------------------------------------------------

    def _await_end(self) -> None:
        """Wait until no round runs; cancel the jobs of those that do not end."""
        if self._wait_until_idle(END_WITHIN_S):
            return
        with self._changed:
            overdue = [item for lane in self._lanes.values() for item in lane.rounds]
        self._cancel(overdue)
        self._wait_until_idle(CANCEL_WITHIN_S)

    def _wait_until_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(lane.rounds for lane in self._lanes.values()), timeout_s
            )

    def _cancel(self, overdue: list[_Round]) -> None:
        for item in overdue:
            if item.is_cancelled:
                continue
            item.is_cancelled = True
            spec = item.spec
            self._events.warn(f"lane {spec.lane}: the round does not end, its job is cancelled")
            self._runner.cancel(spec)


def _prepare_s(partitions: Sequence[PartitionSpec]) -> float:
    """How long a lane's round takes to be prepared, on a machine with other work beside."""
    return min(PREPARE_S_MAX, PREPARE_S + PREPARE_S_PER_PARTITION * len(partitions))
