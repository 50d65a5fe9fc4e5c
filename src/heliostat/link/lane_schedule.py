"""Which rounds the lanes of a link have, and when the next ones are due; no threads, no I/O.

A round is given out before its predecessor ends, and begins when that one stops sending. Rounds
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
"""How long before its beginning a round is given out: its job starts and its connections open.
Up to the maximum for lanes with many partitions, or whose rounds were ready late, as on a busy
machine: 2,400 partitions needed 2.8 s (2026-11-22, 2 cores, both fully used)."""
PREPARE_S_PER_PARTITION = 1e-3
PREPARE_SLACK = 1.5  # times the duration of earlier preparations
COLD_PREPARE_S = 12.0
"""The same for a lane's second round: its process has to load everything first, 2 s on a quiet
machine; later rounds find it loaded."""
HAND_OVER_S = 0.005
"""Between the end of a round and the beginning of the next: the last appends have mostly landed.
If not, the broker refuses the next batch as out of order, and the end is read again."""
SWITCH_S = 1.5
"""A changed plan takes effect after this; its rounds are prepared meanwhile."""
STAGGER, STAGGERED_LANES = 0.125, 4
"""A lane's first round of a plan is shorter by this part for each lane before it: lanes that change
rounds at the same moment compete for the processor, 0.2 s of it for 2,400 partitions."""
AHEAD_S_MAX, AHEAD_PART = 10.0, 1 / 3
"""How long before a round is given out it is announced, and the longest as a part of `round_s`: a
successor of the driver waits that much longer. By default Kafka notices a dead broker after 9 s
(`broker.session.timeout.ms`)."""
AHEAD_SLACK_S = 0.1
"""Added to announcements made ahead, as times are computed again when the round is given out."""
START_SLACK_S = 15.0
"""Added to the duration of a round without a predecessor: its task has to start first."""
END_WITHIN_S = 30.0
"""A round ends within seconds of its deadline; after this its job is cancelled."""
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0
ROUNDS_AT_ONCE = 2
"""Of one lane: the one at work, and the next one in preparation."""


@dataclass(slots=True)
class LaneHealth:
    """Health of a lane's rounds."""

    lane: LaneId
    rounds: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""
    not_before_s: float = 0.0
    """The next round waits until then after a failure (monotonic)."""


@dataclass(slots=True)
class LaneRound:
    """A round that was given out and has not ended."""

    spec: LaneSpec
    ends_at_s: float
    """By the driver's monotonic clock, as all waits are: the wall clock may be stepped."""
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
    """How long after its beginning appends of a failed round may still land."""
    before: tuple[LaneRound, ...]
    """Rounds whose partitions it may take over."""


@dataclass(slots=True)
class Lane:
    """One lane's bookkeeping."""

    health: LaneHealth
    partitions: tuple[PartitionSpec, ...] = ()
    generation: int = 0
    announced: int = 0
    """The generation last announced to tasks: a round of another one would end at once."""
    rounds: list[LaneRound] = field(default_factory=list)
    """Given out and not ended, in order."""
    numbers: int = 0
    took_s: float = 0.0
    """About how long preparing a round has taken lately."""
    staggered: int = 0
    """The newest generation whose first round was given out."""


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
        """No round is given out any more, and no plan is wanted."""
        self._clock = clock
        self._next_generation = first_generation
        self._switch_at_s: float | None = None
        self._failed_s = -LANDS_WITHIN_S
        """When a round failed last: its appends may land for a while."""

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
        """Give out no round from now on, and want no plan."""
        self.is_stopping = True
        self._switch_at_s = None

    def generations(self) -> dict[LaneId, int]:
        """Return the wanted generation of each lane."""
        if self.is_stopping:
            return {}
        return {n: lane.generation for n, lane in self.lanes.items() if lane.partitions}

    def announcement(self) -> Announcement:
        """Return the wanted plans, to be announced to tasks now."""
        switch_at_ms = None
        if self._switch_at_s is not None:
            left_s = self._switch_at_s - self._clock.monotonic_s()
            switch_at_ms = self._clock.wall_ms() + round(left_s * 1000)
        running = tuple(item.spec.round_id for item in self.rounds())
        return Announcement(self.generations(), switch_at_ms, running)

    def take_announced(self, plan: Announcement) -> None:
        """Note that an announcement is durable."""
        for number, generation in plan.generations.items():
            self.lanes[number].announced = generation

    def is_unannounced(self) -> bool:
        """Return whether some lane's plan was not announced, as that failed."""
        wanted = [lane for lane in self.lanes.values() if lane.partitions]
        return any(lane.announced != lane.generation for lane in wanted)

    def _partitions(self, number: LaneId) -> tuple[PartitionSpec, ...]:
        lane = self.lanes.get(number)
        return lane.partitions if lane is not None else ()

    def _new_generation(self) -> int:
        self._next_generation += 1
        return self._next_generation

    # -- when rounds are due -------------------------------------------------------------------

    def rounds(self) -> Iterator[LaneRound]:
        """Return all rounds that were given out and have not ended."""
        return (item for lane in self.lanes.values() for item in lane.rounds)

    def overdue(self) -> list[LaneRound]:
        """Return rounds that should have ended."""
        now_s = self._clock.monotonic_s()
        return [item for item in self.rounds() if now_s > item.ends_at_s + END_WITHIN_S]

    def wait_s(self, lane: Lane) -> float | None:
        """Return how long until the next round is given out; None: wait for a change."""
        if not lane.partitions or len(lane.rounds) >= ROUNDS_AT_ONCE:
            return None
        if lane.announced != lane.generation:
            return None
        at_s = lane.health.not_before_s
        if lane.rounds:
            at_s = max(at_s, lane.rounds[-1].ends_at_s - _prepare_s_of(lane))
        return at_s - self._clock.monotonic_s()

    def announced_for_s(self) -> float:
        """Return for how long from now current rounds and the next ones must be announced."""
        if self.is_stopping:
            return 0.0
        now_s = self._clock.monotonic_s()
        ends_s = (self._to_announce(lane, now_s) for lane in self.lanes.values())
        return max([0.0, *(end_s + LATE_S - now_s for end_s in ends_s if end_s is not None)])

    def _to_announce(self, lane: Lane, now_s: float) -> float | None:
        """Return until when a lane's rounds may send, the next included if it is given out soon."""
        if not lane.rounds:
            return None
        end_s, round_s = lane.rounds[-1].ends_at_s, self.round_s
        ahead_s = min(AHEAD_S_MAX, round_s * AHEAD_PART)
        if lane.partitions and now_s >= end_s - _prepare_s_of(lane) - ahead_s:
            end_s += HAND_OVER_S + round_s + AHEAD_SLACK_S
        return end_s

    def next_times(self, lane: Lane) -> RoundTimes:
        """Return when the lane's next round begins, and how long it lasts."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        # Rounds whose partitions this one may take over; all that end with a switch of plans.
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

    def give_out(self, lane: Lane, spec: LaneSpec, times: RoundTimes) -> LaneRound:
        """Note a lane's next round as given out."""
        lane.numbers += 1
        item = LaneRound(spec, times.begins_s + times.lasts_s, times.begins_s - times.now_s)
        lane.rounds.append(item)
        return item

    def learn(self, lane: Lane, item: LaneRound, spare_s: float | None) -> None:
        """Learn how early to prepare the lane's rounds; the time shrinks step by step.

        Parameters
        ----------
        spare_s
            How long before its beginning the round was ready; None: not reported.
        """
        if spare_s is not None and item.spec.round_number >= ROUNDS_AT_ONCE:
            lane.took_s = max(item.ahead_s - spare_s, lane.took_s / PREPARE_SLACK)

    def end(self, lane: Lane, item: LaneRound, error: Exception | None) -> bool:
        """Note that a round has ended; return whether that must be announced now."""
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
            # A failed job does not prove that its task has ended: its machine may be cut off from
            # this one. If it still reaches the target, it learns there that it is not wanted.
            lane.generation = self._new_generation()
            for other in lane.rounds:
                other.ends_at_s = min(other.ends_at_s, now_s)
            return True
        # Announced only if some round waits for this one's end.
        return any(item.spec.round_id in other.spec.waits_for for other in self.rounds())


def prepare_s(partitions: Sequence[PartitionSpec]) -> float:
    """Return how long preparing a lane's round takes on a machine that is also busy elsewhere."""
    return min(PREPARE_S_MAX, PREPARE_S + PREPARE_S_PER_PARTITION * len(partitions))


def _prepare_s_of(lane: Lane) -> float:
    """Return how long before its beginning a lane's next round is given out."""
    if lane.numbers < ROUNDS_AT_ONCE:
        return COLD_PREPARE_S
    took_s = lane.took_s * PREPARE_SLACK
    return min(PREPARE_S_MAX, max(prepare_s(lane.partitions), took_s))
