"""Which partitions each lane should have, and which its round was told; no threads, no I/O.

    assign     the driver's packing
    update     tells running rounds what to give up and what to take, once it is free
    heard      what rounds have acknowledged
    begin, end rounds as they come and go

I10 A partition is told to one round at a time. Another round takes it when the first has reported
    that nothing of it is under way, or has ended. Of a round that failed nobody knows whether its
    task has ended: whoever takes its partitions holds back records that the broker's duplicate
    check may not cover until its lease is over (`waits_for`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.clock import Clock
from heliostat.link.failed_rounds import FailedRounds
from heliostat.link.leases import Leases
from heliostat.link.limit_shares import LimitShares
from heliostat.link.round_content import Contents
from heliostat.link.told_specs import ToldSpecs
from heliostat.names import LaneId, TopicPartition
from heliostat.ops.spark_session import essence
from heliostat.records.copier.blame import blame_of
from heliostat.records.copier.lane import (
    Announcement,
    LaneSpec,
    PartitionSpec,
    PlanChange,
    WantedRound,
)
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S

RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0
STEADY_S = 10.0
"""A round that reports after this is well."""
CHANGED_MAX = 1_000
"""Most partitions of all changes announced together: up to 750 bytes each, they have to fit into a
record. For more a new round begins."""
TAKEN_MAX = 1_000
"""Most partitions that a round takes one after the other, or as many as it has: each costs its task
5 KB and 2 us a report, also once it is given up. Then a new round begins."""
Wanted = Mapping[TopicPartition, PartitionSpec]
Assigned = Mapping[LaneId, Iterable[PartitionSpec]]
LATELY_S = 60.0
"""Failures of rounds are told for so long."""
FAILURES_MAX = 30


@dataclass(slots=True)
class LaneHealth:
    """Health of a lane's rounds."""

    lane: LaneId
    rounds: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""
    not_before_s: float = 0.0
    """The next round waits until then after a failure (monotonic)."""
    failed_at_s: deque[float] = field(default_factory=deque)
    """When rounds have failed (monotonic): the newest `FAILURES_MAX`, whatever succeeded since."""
    why_failed: str = ""
    """Why the last of these did."""

    def failed(self, error: str, now_s: float) -> None:
        """Note that a round has failed."""
        self.failures_in_a_row += 1
        self.last_error = self.why_failed = error
        self.failed_at_s.append(now_s)
        if len(self.failed_at_s) > FAILURES_MAX:
            self.failed_at_s.popleft()

    def report(self, now_s: float) -> dict[str, object]:
        """Return the lane's part of the driver's report."""
        lately = [now_s - at_s for at_s in self.failed_at_s if now_s - at_s < LATELY_S]
        return {
            "lane": self.lane,
            "rounds": self.rounds,
            "failures_in_a_row": self.failures_in_a_row,
            "last_error": self.last_error,
            "failed_lately": len(lately),
            "failed_s_ago": round(lately[-1], 1) if lately else None,
            "why_failed": self.why_failed if lately else "",
        }

    def is_well(self) -> None:
        """Forget earlier failures: a round has ended well, or works."""
        self.failures_in_a_row, self.last_error, self.not_before_s = 0, "", 0.0

    def failure_line(self) -> str:
        """Return the line for the first, second, fourth ... failure in a row; else nothing."""
        count = self.failures_in_a_row
        if count & (count - 1):
            return ""
        again = "" if count == 1 else f" ({count} times in a row)"
        return f"lane {self.lane}: round failed: {self.last_error}{again}"


@dataclass(slots=True)
class LaneRound:
    """A round that was given out and has not ended."""

    spec: LaneSpec
    has: dict[TopicPartition, PartitionSpec]
    """What it was told to copy, by source partition."""
    leaving: dict[TopicPartition, int] = field(default_factory=dict)
    """What it was told to give up and has not let go of, with the change's generation."""
    changes: list[PlanChange] = field(default_factory=list)
    """Those that it has not acknowledged."""
    taken: int = 0
    """How many partitions it was told to take since it began, each time counted."""
    begun_s: float = 0.0
    must_end: bool = False
    """A new round takes its place, as a change is too large, or needs more than a change tells."""
    is_cancelled: bool = False
    why_hangs: str = ""
    """Not empty: its pipeline hangs, so that it can't end by itself."""


@dataclass(slots=True)
class Lane:
    """One lane's bookkeeping."""

    health: LaneHealth
    wanted: Wanted = field(default_factory=dict)
    round: LaneRound | None = None
    numbers: int = 0


class LanePlans:
    """Lanes and their rounds. Not thread-safe: each call is made under the lock of its owner.

    Parameters
    ----------
    contents
        What rounds are told of their partitions.
    leases
        The rounds' leases.
    first_generation
        Larger than any that was used before.
    clock
        Time.
    """

    def __init__(
        self, contents: Contents, leases: Leases, first_generation: int, clock: Clock
    ) -> None:
        self.lanes: dict[LaneId, Lane] = {}
        self.limits = LimitShares()
        self.is_stopping = False
        """No round is given out any more, and no plan is wanted."""
        self._contents = contents
        self._leases = leases
        self._clock = clock
        self.last_generation = first_generation
        self._failed = FailedRounds(leases, clock)
        self._told = ToldSpecs()
        self.landed: set[TopicPartition] = set()
        """Of their last round of this driver nothing is under way any more."""

    # -- plans ---------------------------------------------------------------------------------

    def assign(self, wanted: Assigned, limits: ByteLimits = NO_LIMITS) -> bool:
        """Make these the lanes' partitions; return whether something must be announced."""
        if self.is_stopping:
            return False
        lost = _without_maps(self.lanes.values())
        for number in {**self.lanes, **wanted}:
            lane = self.lanes.setdefault(number, Lane(LaneHealth(number)))
            lane.wanted = {spec.source: spec for spec in wanted.get(number, ())}
        return (
            self._leave_maps(more_lost=bool(_without_maps(self.lanes.values()) - lost))
            | self.update()
            | self.limits.become(limits)
        )

    def _leave_maps(self, *, more_lost: bool) -> bool:
        """Let all rounds begin anew if rows of maps are gone: they read none any more then."""
        topic_id = self._contents.maps_topic_id()
        is_new = False
        for spec in [item.spec for item in self.rounds()]:
            known = spec.maps_topic_id
            if more_lost or (known and topic_id and known != topic_id):
                is_new |= self.begin_anew(spec.lane)
        return is_new

    def update(self) -> bool:
        """Tell running rounds what has changed for them; return whether to announce that."""
        holders = self._holders()
        is_new = False
        for lane in self.lanes.values():
            if lane.round is not None and not lane.round.must_end:
                is_new |= self._update(lane, lane.round, self._free(lane, holders))
        return is_new or any(lane.round and not lane.wanted for lane in self.lanes.values())

    def _holders(self) -> dict[TopicPartition, LaneId]:
        """Return which lane's round has which partition, or has not let go of it."""
        return {
            source: number
            for number, lane in self.lanes.items()
            if lane.round is not None
            for source in (*lane.round.has, *lane.round.leaving)
        }

    def _free(self, lane: Lane, holders: Mapping[TopicPartition, LaneId]) -> Wanted:
        """Return what a lane should have and no other lane's round has."""
        number = lane.health.lane
        return {
            source: spec
            for source, spec in lane.wanted.items()
            if holders.get(source, number) == number
        }

    def _update(self, lane: Lane, item: LaneRound, wanted: Wanted) -> bool:
        if not lane.wanted:
            return False  # it ends, as the announcement does not name it
        old = tuple(source for source, spec in item.has.items() if wanted.get(source) != spec)
        new = [spec for source, spec in wanted.items() if item.has.get(source) != spec]
        if not old and not new:
            return False
        is_short = len(old) + len(new) + _announced(self.rounds()) <= CHANGED_MAX
        is_short &= item.taken + len(new) <= max(TAKEN_MAX, len(wanted))
        taken = self._contents.taken(new, item.has) if is_short else None
        if taken is None:
            item.must_end = True
            return True
        item.taken += len(new)
        generation = self._new_generation()
        item.changes.append(
            PlanChange(
                generation,
                old,
                taken,
                waits_for=self._failed.of(wanted),
                may_land_s=self._may_land_s(new),
            )
        )
        for source in old:
            del item.has[source]
            if source not in wanted:
                item.leaving[source] = generation
        item.has.update((spec.source, spec) for spec in new)
        self._tell(new, generation)
        return True

    def _tell(self, specs: Sequence[PartitionSpec], generation: int) -> None:
        self.landed.difference_update(spec.source for spec in specs)
        self._told.tell(specs, generation)

    def known_since(self) -> dict[TopicPartition, int]:
        """Return since which generation rounds know what is wanted of each partition.

        Reports of earlier ones may not know later decisions, and would seem to contradict them.
        """
        known = (self._told.known_since(lane.wanted) for lane in self.lanes.values())
        return {source: since for each in known for source, since in each.items()}

    def told_since(self) -> dict[LaneId, int]:
        """Return since which generation each lane knows all that is wanted of it, if it does."""
        return self._told.lanes_since({at: lane.wanted for at, lane in self.lanes.items()})

    def _new_generation(self) -> int:
        self.last_generation += 1
        return self.last_generation

    def _may_land_s(self, specs: Iterable[PartitionSpec]) -> float:
        return 0.0 if all(spec.source in self.landed for spec in specs) else LANDS_WITHIN_S

    def lease_left_s(self) -> float:
        """Return for how long (s) rounds that ended with an error, or did not end, may send."""
        ids = [item.spec.round_id for item in self.rounds()]
        ids += self._failed.ids()
        now_s = self._clock.monotonic_s()
        return max([0.0, *(self._leases.over_at_s(each) - now_s for each in ids)])

    # -- what is announced ---------------------------------------------------------------------

    def rounds(self) -> list[LaneRound]:
        """Return all rounds that were given out and have not ended."""
        return [lane.round for lane in self.lanes.values() if lane.round is not None]

    def with_lease(self) -> list[str]:
        """Return the rounds that are to send."""
        if self.is_stopping:
            return []
        return [
            lane.round.spec.round_id
            for lane in self.lanes.values()
            if lane.round is not None and lane.wanted and not lane.round.must_end
        ]

    def announcement(self) -> Announcement:
        """Return what is to be announced to rounds now."""
        running = [item.spec.round_id for item in self.rounds()]
        running += self._failed.ids()
        wanted: dict[LaneId, WantedRound] = {}
        own = _limits_of(self.lanes, self.limits)
        for number, lane in self.lanes.items():
            item = lane.round
            if self.is_stopping or not lane.wanted:
                continue
            if item is None or item.must_end:
                wanted[number] = WantedRound("")
            else:
                wanted[number] = WantedRound(item.spec.round_id, tuple(item.changes), own[number])
        return Announcement(wanted, tuple(running), self._leases.answered(self.with_lease()))

    def heard(self, round_id: str, plan: int, hangs: str = "") -> bool:
        """Take a round's newest plan, and how its pipeline hangs; return whether to announce."""
        for lane in self.lanes.values():
            item = lane.round
            if item is None or item.spec.round_id != round_id:
                continue
            item.why_hangs = hangs
            if self._clock.monotonic_s() > item.begun_s + STEADY_S:
                lane.health.is_well()
            if not item.changes or plan < item.changes[0].generation:
                return self._contents.is_outdated(item.spec) and self.begin_anew(item.spec.lane)
            item.changes = [each for each in item.changes if each.generation > plan]
            left = [source for source, generation in item.leaving.items() if generation <= plan]
            for source in left:
                del item.leaving[source]
            self.landed.update(left)
            self.update()
            return True
        return False

    # -- rounds as they come and go ------------------------------------------------------------

    def wait_s(self, lane: Lane) -> float | None:
        """Return how long until the lane's next round is given out; None: wait for a change."""
        if lane.round is not None or not self._free(lane, self._holders()):
            return None
        return lane.health.not_before_s - self._clock.monotonic_s()

    def begin(self, lane: Lane) -> LaneRound:
        """Give out the lane's next round."""
        wanted = self._free(lane, self._holders())
        specs = tuple(wanted.values())
        generation = self._new_generation()
        spec = self._contents.round_of(
            lane.health.lane,
            generation,
            lane.numbers,
            specs,
            waits_for=self._failed.of(wanted),
            may_land_s=self._may_land_s(specs),
            limits=_limits_of(self.lanes, self.limits)[lane.health.lane],
        )
        lane.numbers += 1
        lane.round = LaneRound(spec, dict(wanted), begun_s=self._clock.monotonic_s())
        self._tell(specs, generation)
        return lane.round

    def begin_anew(self, number: LaneId) -> bool:
        """Let a lane's round end, and another one begin; return whether to announce that."""
        lane = self.lanes.get(number)
        if lane is None or lane.round is None or lane.round.must_end:
            return False
        lane.round.must_end = True
        return True

    def end(self, lane: Lane, item: LaneRound, error: Exception | None) -> None:
        """Note that a round has ended, or failed: then its task may still run somewhere."""
        lane.round = None
        health, round_id = lane.health, item.spec.round_id
        health.rounds += 1
        had = frozenset((*item.has, *item.leaving))
        if error is None:
            health.is_well()
            self.landed.update(had)
            self._leases.forget(round_id)
        else:
            health.failed(essence(str(error)), self._clock.monotonic_s())
            is_found = self._contents.failed(item.spec, blame_of(error), health.last_error)
            pause_s = RETRY_FIRST_S * 2 ** (0 if is_found else min(health.failures_in_a_row, 10))
            health.not_before_s = self._clock.monotonic_s() + min(RETRY_MAX_S, pause_s)
            self._failed.add(round_id, had)
        self.update()


def are_settled(lanes: Iterable[Lane]) -> bool:
    """Return whether each round has what its lane should have."""
    return not any(
        item.changes or item.leaving or item.must_end or not lane.wanted
        for lane in lanes
        if (item := lane.round) is not None
    )


def _without_maps(lanes: Iterable[Lane]) -> set[TopicPartition]:
    """Return partitions that are stopped because rows of their offset maps are gone."""
    specs = (spec for lane in lanes for spec in lane.wanted.values())
    return {spec.source for spec in specs if spec.map_lost}


def _announced(rounds: Iterable[LaneRound]) -> int:
    """Return the number of partitions in changes that are not acknowledged."""
    changes = (change for item in rounds for change in item.changes)
    return sum(len(change.give_up) + len(change.take) for change in changes)


def _limits_of(lanes: Mapping[LaneId, Lane], limits: LimitShares) -> dict[LaneId, ByteLimits]:
    """Return the limits of each lane that has partitions, or is to have some."""
    if not limits.limits.topics:
        return limits.of({number: () for number, lane in lanes.items() if lane.wanted})
    topics = {number: {at.topic for at in lane.wanted} for number, lane in lanes.items()}
    return limits.of({number: names for number, names in topics.items() if names})
