"""Which rounds the lanes of a link have, and when the next ones are due; no threads, no I/O.

A round is given out before its predecessor ends, and begins when that one sends no more. Rounds
that share a partition never overlap by their clocks (I10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.clock import Clock
from heliostat.names import LaneId
from heliostat.ops.spark_session import essence
from heliostat.records.copier.lane import Announcement, LaneSpec, PartitionSpec
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
END_WITHIN_S = 30.0
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
    not_before_s: float = 0.0
    """After a failure the next round waits until then (monotonic)."""


@dataclass(slots=True)
class Round:
    """A round that was given out and has not ended."""

    spec: LaneSpec
    ends_at_s: float
    """By the driver's monotonic clock, as all waiting is: the wall clock may be stepped."""
    ahead_s: float
    """How long before its beginning it was given out."""
    is_cancelled: bool = False
    has_begun: bool = False
    """It was announced, and may send."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """When a lane's next round runs; in seconds by the driver's monotonic clock."""

    now_s: float
    begins_s: float
    begins_ms: int
    """The same, in ms since the epoch."""
    lasts_s: float
    lands_s: float
    """For so long from its beginning appends of a round that failed may still land."""
    before: tuple[Round, ...]
    """Those whose partitions it may take over."""


@dataclass(slots=True)
class Lane:
    """One lane's bookkeeping."""

    health: LaneHealth
    partitions: tuple[PartitionSpec, ...] = ()
    generation: int = 0
    announced: int = 0
    """The generation that tasks have been told of: one that they don't know ends at once."""
    rounds: list[Round] = field(default_factory=list)
    """Given out and not ended, in order."""
    numbers: int = 0
    took_s: float = 0.0
    """About so long it took lately until a round was prepared."""
    staggered: int = 0
    """The generation whose first round was given out."""


class LaneSchedule:
    """Lanes and their rounds. Not thread-safe: each call is made under the lock of its owner.

    Parameters
    ----------
    round_s
        How long a round lasts.
    first_generation
        Larger than any that was used before.
    clock
        Time.
    """

    def __init__(self, round_s: float, first_generation: int, clock: Clock) -> None:
        self.round_s = round_s
        self.lanes: dict[LaneId, Lane] = {}
        self.is_stopping = False
        """No round is given out any more, and none is wanted."""
        self._clock = clock
        self._next_generation = first_generation
        self._switch_at_s: float | None = None
        self._failed_s = -LANDS_WITHIN_S
        """When a round failed last: what it had sent may land for a while."""

    # -- plans ---------------------------------------------------------------------------------

    def assign(self, wanted: Mapping[LaneId, tuple[PartitionSpec, ...]]) -> list[LaneId]:
        """See `LaneSet.assign`."""
        if self.is_stopping:
            return []
        changed = [
            number
            for number in {**self.lanes, **wanted}
            if self._partitions(number) != wanted.get(number, ())
        ]
        if not changed:
            return []
        lanes = [self.lanes[number] for number in changed if number in self.lanes]
        old = [item for lane in lanes for item in lane.rounds]
        more_s = max(prepare_s(wanted.get(number, ())) for number in changed) - PREPARE_S
        switch_at_s = self._clock.monotonic_s() + SWITCH_S + more_s
        for item in old:
            item.ends_at_s = min(item.ends_at_s, switch_at_s)
        self._switch_at_s = switch_at_s if old else None
        for number in changed:
            lane = self.lanes.setdefault(number, Lane(LaneHealth(number)))
            lane.partitions = wanted.get(number, ())
            lane.generation = self._new_generation()
        return changed

    def stop(self) -> None:
        """From now on nothing is wanted."""
        self.is_stopping = True
        self._switch_at_s = None

    def generations(self) -> dict[LaneId, int]:
        """Wanted generation of each lane."""
        if self.is_stopping:
            return {}
        return {n: lane.generation for n, lane in self.lanes.items() if lane.partitions}

    def announcement(self) -> Announcement:
        """What tasks are to be told now."""
        switch_at_ms = None
        if self._switch_at_s is not None:
            left_s = self._switch_at_s - self._clock.monotonic_s()
            switch_at_ms = self._clock.wall_ms() + round(left_s * 1000)
        running = tuple(item.spec.round_id for item in self.rounds())
        return Announcement(self.generations(), switch_at_ms, running)

    def take_announced(self, plan: Announcement) -> None:
        """Tasks know of it from now on."""
        for number, generation in plan.generations.items():
            self.lanes[number].announced = generation

    def is_unannounced(self) -> bool:
        """Whether tasks have not been told of some lane's plan: that failed."""
        wanted = [lane for lane in self.lanes.values() if lane.partitions]
        return any(lane.announced != lane.generation for lane in wanted)

    def _partitions(self, number: LaneId) -> tuple[PartitionSpec, ...]:
        lane = self.lanes.get(number)
        return lane.partitions if lane is not None else ()

    def _new_generation(self) -> int:
        self._next_generation += 1
        return self._next_generation

    # -- when rounds are due -------------------------------------------------------------------

    def rounds(self) -> Iterator[Round]:
        """All that were given out and have not ended."""
        return (item for lane in self.lanes.values() for item in lane.rounds)

    def overdue(self) -> list[Round]:
        """Rounds that should have ended."""
        now_s = self._clock.monotonic_s()
        return [item for item in self.rounds() if now_s > item.ends_at_s + END_WITHIN_S]

    def wait_s(self, lane: Lane) -> float | None:
        """How long the next round has to wait; None: until something changes."""
        if not lane.partitions or len(lane.rounds) >= ROUNDS_AT_ONCE:
            return None
        if lane.announced != lane.generation:
            return None
        at_s = lane.health.not_before_s
        if lane.rounds:
            at_s = max(at_s, lane.rounds[-1].ends_at_s - _prepare_s_of(lane))
        return at_s - self._clock.monotonic_s()

    def announced_for_s(self) -> float:
        """For how long from now rounds must be announced: those at work, and those that follow."""
        if self.is_stopping:
            return 0.0
        now_s = self._clock.monotonic_s()
        ends_s = (self._to_announce(lane, now_s) for lane in self.lanes.values())
        return max([0.0, *(end_s + LATE_S - now_s for end_s in ends_s if end_s is not None)])

    def _to_announce(self, lane: Lane, now_s: float) -> float | None:
        """Until when rounds of a lane may send; also of the next, if it is given out soon."""
        if not lane.rounds:
            return None
        end_s, round_s = lane.rounds[-1].ends_at_s, self.round_s
        ahead_s = min(AHEAD_S_MAX, round_s * AHEAD_PART)
        if lane.partitions and now_s >= end_s - _prepare_s_of(lane) - ahead_s:
            end_s += HAND_OVER_S + round_s + AHEAD_SLACK_S
        return end_s

    def next_times(self, lane: Lane) -> RoundTimes:
        """When the round that a lane is given now begins, and how long it lasts."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        # Those whose partitions this round may take over; all that end with a switch of plans.
        before = list(lane.rounds)
        if self._switch_at_s is not None and now_s < self._switch_at_s + END_WITHIN_S:
            before = [
                item
                for other in self.lanes.values()
                for item in other.rounds
                if other is lane or item.spec.generation != other.generation
            ]
        last_s = max((item.ends_at_s for item in before), default=-1.0)
        begins_s = max(now_s, last_s + HAND_OVER_S)
        lasts_s = self.round_s
        if lane.staggered != lane.generation:
            lane.staggered = lane.generation
            lasts_s *= 1.0 - STAGGER * (lane.health.lane % STAGGERED_LANES)
        lasts_s += 0.0 if before else START_SLACK_S
        failed_s = self._failed_s if before else begins_s
        lands_s = max(0.0, failed_s + LANDS_WITHIN_S - begins_s)
        begins_ms = now_ms + round((begins_s - now_s) * 1000)
        return RoundTimes(now_s, begins_s, begins_ms, lasts_s, lands_s, tuple(before))

    # -- rounds as they come and go ------------------------------------------------------------

    def give_out(self, lane: Lane, spec: LaneSpec, times: RoundTimes) -> Round:
        """Note a lane's next round."""
        lane.numbers += 1
        item = Round(spec, times.begins_s + times.lasts_s, times.begins_s - times.now_s)
        lane.rounds.append(item)
        return item

    def learn(self, lane: Lane, item: Round, spare_s: float | None) -> None:
        """How early the lane's rounds are to be prepared; it shrinks step by step.

        Parameters
        ----------
        spare_s
            For so long the round was ready before it began; None: it did not say.
        """
        if spare_s is not None and item.spec.round_number >= ROUNDS_AT_ONCE:
            lane.took_s = max(item.ahead_s - spare_s, lane.took_s / PREPARE_SLACK)

    def end(self, lane: Lane, item: Round, error: Exception | None) -> bool:
        """Note that a round has ended; whether tasks must be told of it now."""
        now_s = self._clock.monotonic_s()
        health = lane.health
        lane.rounds.remove(item)
        health.rounds += 1
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
            # this one: where it still reaches the target it learns that it is not wanted.
            lane.generation = self._new_generation()
            for other in lane.rounds:
                other.ends_at_s = min(other.ends_at_s, now_s)
            return True
        # Who waits for this round's end is told of it; with none before it nobody does.
        return any(item.spec.round_id in other.spec.waits_for for other in self.rounds())


def prepare_s(partitions: Sequence[PartitionSpec]) -> float:
    """How long a lane's round takes to be prepared, on a machine with other work beside."""
    return min(PREPARE_S_MAX, PREPARE_S + PREPARE_S_PER_PARTITION * len(partitions))


def _prepare_s_of(lane: Lane) -> float:
    """How long before it begins a lane's next round is given out."""
    if lane.numbers < ROUNDS_AT_ONCE:
        return COLD_PREPARE_S
    took_s = lane.took_s * PREPARE_SLACK
    return min(PREPARE_S_MAX, max(prepare_s(lane.partitions), took_s))
