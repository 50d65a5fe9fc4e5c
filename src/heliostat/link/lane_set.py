"""The lanes of a link at run time: one Spark job each, which lasts until it must end.

    lane_plans       which partitions each lane should have and has
    leases           how long rounds may send
    hung_rounds      what reports nothing more
    places           lanes that take turns, where Spark can't run all of them at once
    round_content    what a round is told
    here             threads that run rounds; announcing; stopping

I10 A round may send while it has a lease (`leases`). A driver that another one has fenced can't
renew its record, so it gives no more of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from heliostat.clock import Clock
from heliostat.errors import TransformFailed
from heliostat.link.announcing import Announcing
from heliostat.link.hung_rounds import HungRounds
from heliostat.link.lane_plans import Lane, LaneHealth, LanePlans, LaneRound, are_settled
from heliostat.link.leases import Leases
from heliostat.link.pipeline_faults import PipelineFaults
from heliostat.link.places import Places, Turns
from heliostat.link.renewals import Renewals
from heliostat.link.round_content import Contents, CopiedRowsOf, MapsOf, MergedOf, Rates
from heliostat.link.round_ends import RoundEnds
from heliostat.names import LaneId, LinkName, TopicPartition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import Announcement, LaneSpec, PartitionSpec, RoundReport
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits
from heliostat.records.copier.pipeline_steps import Pipeline

END_WITHIN_S = 30.0
"""A round ends within seconds of being told to; after this its job is cancelled."""
CANCEL_WITHIN_S = 10.0
"""A round whose job is cancelled ends within this."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs rounds: Spark, or a fake in tests."""

    run: Callable[[LaneSpec], RoundReport]
    cancel: Callable[[LaneSpec], None]
    misplaced: Callable[[LinkName], LaneId | None] = lambda _: None
    """Returns a lane of a link that should begin anew, on another executor."""
    refused: Callable[[Mapping[str, Pipeline]], dict[str, str]] = lambda _: {}
    """Returns why Spark refuses some pipelines, by name."""
    places: Places = field(default_factory=Places)
    """Where rounds find a place."""


Assigned = Mapping[LaneId, tuple[PartitionSpec, ...]]
Ended = Callable[[Mapping[TopicPartition, PartitionSpec], RoundReport], None]


class LaneSet:
    """All lanes of one link.

    Parameters
    ----------
    template
        A `LaneSpec` with all that lanes have in common; partitions and ids are filled in here.
    runner
        Runs one round.
    announce
        Writes what rounds must know; durable when it returns (see `LinkState.announce`).
    clock, events, first_generation
        Time, where trouble is logged, and a larger number than any that was used before.
    wake
        Asks for `keep` to be called at once.
    maps, copied, rates
        What rounds are told, see `LaneSpec`: maps go back to the log ends noted in `copied`.
    ended, faults, merged
        Called with each round that succeeded; the link's pipelines; what rounds are told besides.
    """

    def __init__(
        self,
        template: LaneSpec,
        runner: Runner,
        *,
        announce: Callable[[Announcement], None],
        clock: Clock,
        events: Events,
        first_generation: int,
        wake: Callable[[], None] = lambda: None,
        maps: MapsOf = lambda _specs, _copied: ((), 0, ""),
        copied: CopiedRowsOf = lambda _: (),
        rates: Rates = lambda _: (),
        ended: Ended = lambda _specs, _report: None,
        faults: PipelineFaults | None = None,
        merged: MergedOf = lambda _: None,
    ) -> None:
        self._leases = Leases(template.lease_s, clock)
        contents = Contents(template, maps, copied, rates, faults, merged=merged)
        self._plans = LanePlans(contents, self._leases, first_generation, clock)
        self._runner = runner
        self._clock = clock
        self._events = events
        self._wake = wake
        self._on_end = ended
        self._changed = threading.Condition()
        """Guards the plans and leases, and signals their changes."""
        self._announcing = Announcing(self._changed, self._plans.announcement, announce)
        self._hung = HungRounds(self._leases, runner.cancel, clock, events)
        self._ends = RoundEnds()
        self._turns = Turns(template.link, runner.places)
        self._threads: dict[LaneId, threading.Thread] = {}
        self.renewals = Renewals(partial(runner.misplaced, template.link), clock)
        """Lanes that are to begin anew."""

    @property
    def health(self) -> dict[LaneId, LaneHealth]:
        """Health of each lane."""
        with self._changed:
            return {number: lane.health for number, lane in self._plans.lanes.items()}

    @property
    def generations(self) -> dict[LaneId, int]:
        """Generation of the round of each lane that should have one; 0: it has none now."""
        with self._changed:
            return {
                number: 0 if lane.round is None else lane.round.spec.generation
                for number, lane in self._plans.lanes.items()
                if lane.wanted and not self._plans.is_stopping
            }

    def report(self) -> dict[str, object]:
        """Return the lanes' part of the driver's report: turns, and how rounds have ended."""
        with self._changed:
            numbers, ends = list(self._plans.lanes), self._ends.report()
            limits = self._plans.limits.report()
        return {**self._turns.report(numbers), "round_ends": ends, "limits": limits}

    def known_since(self) -> dict[TopicPartition, int]:
        """See `LanePlans.known_since`."""
        with self._changed:
            return self._plans.known_since()

    def told_since(self) -> dict[LaneId, int]:
        """See `LanePlans.told_since`."""
        with self._changed:
            return self._plans.told_since()

    def assign(self, wanted: Assigned, limits: ByteLimits = NO_LIMITS) -> None:
        """Make `wanted` the lanes' partitions; what does not change is copied on meanwhile."""
        with self._changed:
            self._announcing.is_due |= self._plans.assign(wanted, limits)
            for number in wanted:
                if number not in self._threads and not self._plans.is_stopping:
                    self._start(number)
            self._changed.notify_all()
            is_due = self._announcing.is_due
        if is_due:
            self.announce()

    def last_generation(self) -> int:
        """Return the newest generation that was used."""
        with self._changed:
            return self._plans.last_generation

    def is_settled(self) -> bool:
        """Return whether all rounds have what was assigned last; a lane may have none now."""
        with self._changed:
            return not self._announcing.is_due and are_settled(self._plans.lanes.values())

    def have_landed(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether nothing of these is under way, by the rounds that had them last."""
        return self._plans.landed.issuperset(partitions)

    # -- leases --------------------------------------------------------------------------------

    def reported(self, report: RoundReport | None) -> None:
        """Take a lane's report as read from the target, or a sign of life of this driver (None)."""
        with self._changed:
            self._hung.read()
            if report is None:
                return
            round_id = f"{report.lane}/{report.generation}/{report.round_number}"
            if all(round_id != item.spec.round_id for item in self._plans.rounds()):
                return
            self._turns.reported(report)
            self._plans.limits.reported(report, self._clock.monotonic_s())
            is_due = self._leases.reported(round_id, report.number)
            if self._plans.heard(round_id, report.plan, report.hangs) or report.hangs:
                self._announcing.is_due = is_due = True
                self._changed.notify_all()
        if is_due:
            self._wake()

    def keep(self, renew: Callable[[], None]) -> None:
        """Renew the leases: note reports, make our claim last, then answer (I10).

        Also cancels the jobs of rounds that hang.

        Parameters
        ----------
        renew
            Writes the owner's record; raises if it can't.
        """
        renewed = self.renewals.due(tuple(self._plans.lanes))  # asks Spark, so without the lock
        with self._changed:
            answers = self._leases.to_answer(self._plans.with_lease())
            rounds = self._plans.rounds()
            hung = self._hung.among(rounds)
            for number in (*self._turns.over(rounds, self._leases.heard_s), *renewed):
                self._announcing.is_due |= self._plans.begin_anew(number)
        renew()
        with self._changed:
            self._leases.answer(answers)
            is_due = self._announcing.is_due or bool(self._plans.rounds())
        if is_due:
            self.announce()
        self._hung.cancel(hung)

    # -- rounds --------------------------------------------------------------------------------

    def _start(self, number: LaneId) -> None:
        """Start the thread of a new lane; it waits until its first round is due."""
        thread = self._threads[number] = threading.Thread(
            target=self._run, args=(self._plans.lanes[number],), name=f"lane-{number}", daemon=True
        )
        thread.start()

    def _run(self, lane: Lane) -> None:
        """Run round after round."""
        while True:  # ends when `stop` makes `_next_round` return None
            item = self._next_round(lane)
            if item is None:
                return
            error: Exception | None = None
            try:
                self.announce()  # a round that is not announced takes itself for superseded
                report = self._runner.run(item.spec)
                with self._changed:
                    had = {**dict.fromkeys(item.leaving), **item.has}
                self._on_end({at: spec for at, spec in had.items() if spec is not None}, report)
            except Exception as caught:  # noqa: BLE001  # any failure is logged and retried
                error = TransformFailed(item.why_hangs) if item.why_hangs else caught
            self._ended(lane, item, error)

    def _next_round(self, lane: Lane) -> LaneRound | None:
        """Wait until the lane's next round is due; None when the link stops."""
        with self._changed:
            while True:  # ends when the link stops, or when it is time
                if self._plans.is_stopping:
                    self._turns.leave(lane.health.lane)
                    return None
                wait_s = self._turns.wait_s(lane.health.lane, self._plans.wait_s(lane))
                if wait_s is not None and wait_s <= 0:
                    return self._plans.begin(lane)
                self._changed.wait(wait_s)

    def _ended(self, lane: Lane, item: LaneRound, error: Exception | None) -> None:
        self._turns.leave(lane.health.lane)
        with self._changed:
            self._plans.end(lane, item, error)
            self._announcing.is_due = True
            is_stopping = self._plans.is_stopping
            if not is_stopping:
                self._ends.ended(error, is_cancelled=item.is_cancelled)
            self._changed.notify_all()
        if is_stopping:
            return
        if error is not None and (text := lane.health.failure_line()):
            self._events.warn(text)
        self._wake()

    # -- announcing ----------------------------------------------------------------------------

    def announce(self) -> None:
        """Announce to rounds what they must know; one caller at a time, so the newest is last."""
        self._announcing.write()

    # -- stopping ------------------------------------------------------------------------------

    def stop(self) -> None:
        """End all rounds and wait for them; requests in flight are acknowledged first."""
        with self._changed:
            self._plans.is_stopping = True
            self._changed.notify_all()
        try:
            self.announce()
        finally:
            self._await_end()
            for thread in self._threads.values():
                thread.join(CANCEL_WITHIN_S)

    def lease_left_s(self) -> float:
        """Return for how long rounds may still send: 0 unless some did not end as they should."""
        with self._changed:
            return self._plans.lease_left_s()

    def _await_end(self) -> None:
        """Wait until no round runs; cancel the jobs of those that do not end."""
        if self._wait_until_idle(END_WITHIN_S):
            return
        with self._changed:
            left = self._plans.rounds()
        self._hung.cancel(left)
        self._wait_until_idle(CANCEL_WITHIN_S)

    def _wait_until_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._plans.rounds(), timeout_s)
