"""The lanes of a link at run time: one thread a lane, which runs round after round on Spark.

I10 Before a round is given out its last deadline is announced on the target; a partition that moves
between lanes waits until the round that served it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from heliostat.clock import Clock
from heliostat.names import LaneId
from heliostat.ops.events import Events
from heliostat.records.lane import LaneSpec, PartitionSpec, RoundReport

START_SLACK_S = 5.0
"""A round's job may wait so long for a free slot; the announced deadline covers it."""
END_WITHIN_S = 15.0
"""A superseded round ends within a second or two; after this its job is cancelled."""
CANCEL_WITHIN_S = 10.0
RETRY_FIRST_S = 0.2
RETRY_MAX_S = 5.0


@dataclass(slots=True)
class LaneHealth:
    """How a lane's rounds fare."""

    lane: LaneId
    rounds: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""
    ended_ms: int = 0


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs rounds: Spark, or a stand-in in tests."""

    run: Callable[[LaneSpec], RoundReport]
    cancel: Callable[[LaneSpec], None]


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
        Makes the wanted generations durable (see `LinkState.announce`).
    announce_deadline
        Makes the last deadline durable, in wall ms.
    clock, events
        Time, and where trouble is told.
    """

    def __init__(
        self,
        template: LaneSpec,
        runner: Runner,
        *,
        announce: Callable[[Mapping[LaneId, int]], None],
        announce_deadline: Callable[[int], None],
        clock: Clock,
        events: Events,
        first_generation: int,
    ) -> None:
        self._template = template
        self._runner = runner
        self._announce = announce
        self._announce_deadline = announce_deadline
        self._clock = clock
        self._events = events
        self._changed = threading.Condition()
        self._wanted: dict[LaneId, tuple[PartitionSpec, ...]] = {}
        self._generations: dict[LaneId, int] = {}
        self._next_generation = first_generation
        self._paused: set[LaneId] = set()
        self._running: dict[LaneId, LaneSpec] = {}
        self._threads: dict[LaneId, threading.Thread] = {}
        self._stopping = False
        self._deadline_ms = 0
        self.health: dict[LaneId, LaneHealth] = {}

    @property
    def generations(self) -> dict[LaneId, int]:
        """Wanted generation of each lane."""
        with self._changed:
            return dict(self._generations)

    def assign(self, wanted: Mapping[LaneId, tuple[PartitionSpec, ...]]) -> list[LaneId]:
        """Make `wanted` the lanes' partitions; returns the lanes that changed.

        Rounds of changed lanes end first, all of them, before any of these lanes goes on.
        """
        with self._changed:
            changed = [
                lane
                for lane in {**self._wanted, **wanted}
                if self._wanted.get(lane, ()) != wanted.get(lane, ())
            ]
            if not changed or self._stopping:
                return []
            self._paused.update(changed)
            for lane in changed:
                self._next_generation += 1
                self._generations[lane] = self._next_generation
                if not wanted.get(lane):
                    del self._generations[lane]
            generations = dict(self._generations)
        self._announce(generations)
        self._await_end(changed)
        with self._changed:
            self._wanted = {lane: items for lane, items in wanted.items() if items}
            self._paused.difference_update(changed)
            for lane in self._wanted:
                if lane not in self._threads:
                    self._start(lane)
            self._changed.notify_all()
        return changed

    def stop(self) -> None:
        """End all rounds and wait for them; what is under way is acknowledged first."""
        with self._changed:
            self._stopping = True
            lanes = list(self._threads)
            self._generations = {}
            self._changed.notify_all()
        try:
            self._announce({})
        finally:
            self._await_end(lanes)
            for thread in self._threads.values():
                thread.join(CANCEL_WITHIN_S)

    def renew(self, lasts_s: float) -> None:
        """Announce that this driver still owns the link, rounds or not, for so many seconds."""
        with self._changed:
            if self._stopping:
                return
        self._cover(self._clock.wall_ms() + int(lasts_s * 1000))

    def _await_end(self, lanes: list[LaneId]) -> None:
        """Wait until no round of `lanes` runs; cancel the jobs of those that do not end."""
        if self._wait_until_idle(lanes, END_WITHIN_S):
            return
        with self._changed:
            overdue = [spec for lane, spec in self._running.items() if lane in lanes]
        for spec in overdue:
            self._events.warn(f"lane {spec.lane}: the round does not end, its job is cancelled")
            self._runner.cancel(spec)
        self._wait_until_idle(lanes, CANCEL_WITHIN_S)

    def _wait_until_idle(self, lanes: list[LaneId], timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(lane in self._running for lane in lanes), timeout_s
            )

    def _start(self, lane: LaneId) -> None:
        self.health[lane] = LaneHealth(lane)
        thread = threading.Thread(target=self._run, args=(lane,), name=f"lane-{lane}", daemon=True)
        self._threads[lane] = thread
        thread.start()

    def _run(self, lane: LaneId) -> None:
        while True:  # ends when `stop` makes `_next_round` answer None
            spec = self._next_round(lane)
            if spec is None:
                return
            health = self.health[lane]
            try:
                self._cover(spec.expires_at_ms)
                self._runner.run(spec)
            except Exception as error:  # noqa: BLE001  # whatever ends a round is told and retried
                self._failed(health, error)
            else:
                health.failures_in_a_row = 0
                health.last_error = ""
            finally:
                health.rounds += 1
                health.ended_ms = self._clock.wall_ms()
                with self._changed:
                    self._running.pop(lane, None)
                    self._changed.notify_all()
            self._pause_after_failure(health)

    def _next_round(self, lane: LaneId) -> LaneSpec | None:
        """Wait until the lane may run, then its spec; None when the link stops."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or (lane in self._wanted and lane not in self._paused)
            )
            if self._stopping:
                return None
            round_s = self._template.round_s
            spec = replace(
                self._template,
                lane=lane,
                generation=self._generations[lane],
                round_number=self.health[lane].rounds,
                partitions=self._wanted[lane],
                expires_at_ms=self._clock.wall_ms() + int((round_s + START_SLACK_S) * 1000),
            )
            self._running[lane] = spec
            return spec

    def _cover(self, deadline_ms: int) -> None:
        """Announce `deadline_ms` unless a later one already is."""
        with self._changed:
            if deadline_ms <= self._deadline_ms:
                return
        self._announce_deadline(deadline_ms)
        with self._changed:
            self._deadline_ms = max(self._deadline_ms, deadline_ms)

    def _failed(self, health: LaneHealth, error: Exception) -> None:
        health.failures_in_a_row += 1
        health.last_error = _essence(str(error))
        with self._changed:
            stopping = self._stopping
        if not stopping:
            self._events.warn(f"lane {health.lane}: round failed: {health.last_error}")

    def _pause_after_failure(self, health: LaneHealth) -> None:
        if health.failures_in_a_row:
            pause_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(health.failures_in_a_row, 10))
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, pause_s)


def _essence(text: str) -> str:
    """The line of a Spark error that says what happened: ours has a code in brackets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    coded = [line for line in lines if ": [" in line and line.startswith("heliostat.")]
    if coded:
        return coded[-1]
    causes = [line for line in lines if "Error" in line or "Exception" in line]
    return (causes or lines or ["no text"])[-1][:500]
