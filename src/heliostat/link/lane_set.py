"""The lanes of a link at run time: rounds follow each other on Spark, each prepared in advance.

A round is given out before its predecessor ends. It opens its connections, waits until the
predecessor stops sending, and begins: so the change of rounds causes no pause.

    lane_schedule    which rounds there are, and when the next ones are due
    round_specs      the description of a round
    here             threads that run rounds; announcing plans; stopping

I10 Before a round is given out its last deadline is announced on the target, mostly seconds ahead,
by the loop that renews the claim (`announced_for_s`): a hung broker delays announcements until the
cluster notices, and a round that waits for its own copies nothing. Rounds that share a partition
never overlap by their clocks; as clocks may differ, records for which the broker's duplicate check
may not hold wait until earlier rounds have really ended (`waits_for`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.link.lane_schedule import (
    END_WITHIN_S,
    ROUNDS_AT_ONCE,
    Lane,
    LaneHealth,
    LaneRound,
    LaneSchedule,
)
from heliostat.link.round_specs import CopiedRowsOf, MapsOf, Rates, RoundSpecs
from heliostat.names import LaneId
from heliostat.ops.events import Events
from heliostat.records.copier.lane import Announcement, LaneSpec, PartitionSpec, RoundReport
from heliostat.records.copier.late_sends import LATE_S

CANCEL_WITHIN_S = 10.0
"""A round whose job is cancelled ends within this."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs rounds: Spark, or a fake in tests."""

    run: Callable[[LaneSpec], RoundReport]
    cancel: Callable[[LaneSpec], None]


Ended = Callable[[LaneSpec, RoundReport], None]


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
        Writes the wanted plans for tasks; durable when it returns (see `LinkState.announce`).
    announce_deadline
        Makes the last deadline durable, in wall ms.
    clock, events
        Time, and where trouble is logged.
    first_generation
        Larger than any that was used before.
    maps
        The known part of the offset maps, see `LaneSpec.maps`, `maps_from` and `maps_topic_id`;
        it reaches back to the log ends noted in `copied`.
    copied
        From which leader epochs partitions were copied, see `LaneSpec.copied`.
    rates
        Records a second of partitions, see `LaneSpec.rates`.
    ended
        Called with each round that has succeeded.
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
        maps: MapsOf = lambda _specs, _copied: ((), 0, ""),
        copied: CopiedRowsOf = lambda _: (),
        rates: Rates = lambda _: (),
        ended: Ended = lambda _spec, _report: None,
    ) -> None:
        self._schedule = LaneSchedule(template.round_s, first_generation, clock)
        self._specs = RoundSpecs(template, maps, copied, rates)
        self._runner = runner
        self._announce_to_tasks = announce
        self._announce_deadline = announce_deadline
        self._clock = clock
        self._events = events
        self._on_end = ended
        self._changed = threading.Condition()
        """Guards the schedule, and signals its changes."""
        self._announcing = threading.Lock()
        self._threads: dict[LaneId, list[threading.Thread]] = {}

    @property
    def health(self) -> dict[LaneId, LaneHealth]:
        """Health of each lane."""
        with self._changed:
            return {number: lane.health for number, lane in self._schedule.lanes.items()}

    @property
    def generations(self) -> dict[LaneId, int]:
        """Wanted generation of each lane."""
        with self._changed:
            return self._schedule.generations()

    def assign(self, wanted: Mapping[LaneId, tuple[PartitionSpec, ...]]) -> list[LaneId]:
        """Make `wanted` the lanes' partitions; return the lanes that changed.

        Rounds of changed lanes end at the same moment, and their next ones begin then.
        """
        with self._changed:
            changed = self._schedule.assign(wanted)
            for number in changed:
                if number not in self._threads:
                    self._start(number)
        if changed:
            self.announce()
        return changed

    def renew(self, lasts_s: float) -> None:
        """Announce that this driver owns the link for `lasts_s` more seconds, rounds or not.

        Also cancels the jobs of rounds that do not end.
        """
        with self._changed:
            if self._schedule.is_stopping:
                return
            overdue = self._schedule.overdue()
            is_unannounced = self._schedule.is_unannounced()
        self._cancel(overdue)
        if is_unannounced:  # it failed the last time
            self.announce()
        if lasts_s:
            self._announce_deadline(self._clock.wall_ms() + int(lasts_s * 1000))

    def announced_for_s(self) -> float:
        """Return for how long from now current rounds and the next ones must be announced."""
        with self._changed:
            return self._schedule.announced_for_s()

    # -- rounds --------------------------------------------------------------------------------

    def _start(self, number: LaneId) -> None:
        """Start the threads of a new lane; they wait until its first round is due."""
        lane = self._schedule.lanes[number]
        threads = self._threads[number] = [
            threading.Thread(
                target=self._run, args=(lane,), name=f"lane-{number}-{place}", daemon=True
            )
            for place in range(ROUNDS_AT_ONCE)
        ]
        for thread in threads:
            thread.start()

    def _run(self, lane: Lane) -> None:
        """Run round after round, in turn with the lane's other thread."""
        while True:  # ends when `stop` makes `_next_round` return None
            item = self._next_round(lane)
            if item is None:
                return
            error: Exception | None = None
            try:
                self._announce_deadline(item.spec.expires_at_ms + int(LATE_S * 1000))
                item.has_begun = True
                report = self._runner.run(item.spec)
                self._on_end(item.spec, report)
                with self._changed:
                    self._schedule.learn(lane, item, report.spare_s)
            except Exception as caught:  # noqa: BLE001  # any failure is logged and retried
                error = caught
            self._ended(lane, item, error)

    def _next_round(self, lane: Lane) -> LaneRound | None:
        """Wait until it is time to prepare the lane's next round; None when the link stops."""
        with self._changed:
            while True:  # ends when the link stops, or when it is time
                if self._schedule.is_stopping:
                    return None
                wait_s = self._schedule.wait_s(lane)
                if wait_s is not None and wait_s <= 0:
                    times = self._schedule.next_times(lane)
                    spec = self._specs.spec(lane, times)
                    return self._schedule.give_out(lane, spec, times)
                self._changed.wait(wait_s)

    def _ended(self, lane: Lane, item: LaneRound, error: Exception | None) -> None:
        with self._changed:
            must_announce = self._schedule.end(lane, item, error)
            is_stopping = self._schedule.is_stopping
            self._changed.notify_all()
        if is_stopping:
            return
        health = lane.health
        if error is not None:
            self._events.warn(f"lane {health.lane}: round failed: {health.last_error}")
        if must_announce:
            try:
                self.announce()
            except Exception as failure:  # noqa: BLE001  # logged; the next round's end retries
                self._events.warn(
                    f"lane {health.lane}: the end of a round can't be announced: {failure}"
                )

    # -- announcing ----------------------------------------------------------------------------

    def announce(self) -> None:
        """Announce the wanted plans; one caller at a time, so that the newest comes last."""
        with self._announcing:
            with self._changed:
                plan = self._schedule.announcement()
            self._announce_to_tasks(plan)
            with self._changed:
                self._schedule.take_announced(plan)
                self._changed.notify_all()

    # -- stopping ------------------------------------------------------------------------------

    def stop(self) -> None:
        """End all rounds and wait for them; requests in flight are acknowledged first."""
        with self._changed:
            self._schedule.stop()
            self._changed.notify_all()
        try:
            self.announce()
        finally:
            self._await_end()
            for threads in self._threads.values():
                for thread in threads:
                    thread.join(CANCEL_WITHIN_S)

    def _await_end(self) -> None:
        """Wait until no round runs; cancel the jobs of those that do not end."""
        if self._wait_until_idle(END_WITHIN_S):
            return
        with self._changed:
            left = list(self._schedule.rounds())
        self._cancel(left)
        self._wait_until_idle(CANCEL_WITHIN_S)

    def _wait_until_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(True for _ in self._schedule.rounds()), timeout_s
            )

    def _cancel(self, overdue: list[LaneRound]) -> None:
        for item in overdue:
            if item.is_cancelled:
                continue
            item.is_cancelled = True
            spec = item.spec
            self._events.warn(f"lane {spec.lane}: the round does not end; its job is cancelled")
            self._runner.cancel(spec)
