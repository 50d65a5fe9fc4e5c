"""Loops with a health record: last successful run, failures in a row, last error.

A loop continues after a failure, and the status shows its health: it is stale after three missed
runs. A failure is told once, see `troubles`: some loops run each second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.errors import HeliostatError, Verdict
from heliostat.link.troubles import Troubles
from heliostat.ops.loop_spec import LoopSpec
from heliostat.ops.scheduler import ScheduledTask, Scheduler

STALE_AFTER_TURNS = 3
STOP_WITHIN_S = 20.0
PAUSE_MAX_S = 10.0
"""The longest pause after a failure, whatever the interval."""


@dataclass(slots=True)
class LoopHealth:
    """A loop's health; times by the wall clock, in ms."""

    name: str
    interval_s: float
    last_good_ms: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""

    def is_stale(self, now_ms: int) -> bool:
        """Return whether it missed three runs."""
        return now_ms - self.last_good_ms > STALE_AFTER_TURNS * self.interval_s * 1000


class Loop:
    """Calls `turn` every `interval_s` until stopped, on threads that it shares with other loops.

    Parameters
    ----------
    link, spec
        What it is part of, for health, logs and threads; its name there, and what it runs, each
        `interval_s` from the end of one run on. A `HeliostatError` whose verdict is HALT ends the
        loop through `on_halt`.
    scheduler
        Runs it.
    on_halt
        Called with an error after which the loop must not continue.
    wall_ms
        The wall clock, in ms since the epoch.
    troubles
        Where failures are told.
    """

    def __init__(
        self,
        link: str,
        spec: LoopSpec,
        scheduler: Scheduler,
        *,
        on_halt: Callable[[BaseException], None],
        wall_ms: Callable[[], int],
        troubles: Troubles,
    ) -> None:
        name = f"{link} {spec.name}"
        self.part = spec.name
        self.health = LoopHealth(name, spec.interval_s)
        self._spec = spec
        self._scheduler = scheduler
        self._on_halt = on_halt
        self._wall_ms = wall_ms
        self._troubles = troubles
        self._stop = threading.Event()
        self._task: ScheduledTask | None = None

    def start(self) -> None:
        """Begin; the first run is at once."""
        self.health.last_good_ms = self._wall_ms()
        spec = self._spec
        task = self._scheduler.start(self.health.name, self._run, is_urgent=spec.is_urgent)
        self._task = task
        if (wake := spec.wake) is not None:
            wake.listener = task.wake
            if wake.is_set():  # it was set before it had a listener
                task.wake()

    def wake(self) -> None:
        """Have it run at once, or once more if it runs now."""
        if self._task is not None:
            self._task.wake()

    def ask_to_end(self) -> None:
        """Have it begin no more turns; does not wait."""
        self._stop.set()

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end and wait for that; return whether it has ended."""
        self.ask_to_end()
        return self._task is None or self._task.end(timeout_s)

    def _run(self) -> float | None:
        """Run it once; return the pause until the next time, None: it must not go on."""
        if self._stop.is_set():
            return None
        if self._spec.wake is not None:
            self._spec.wake.clear()
        try:
            self._spec.turn()
        except HeliostatError as error:
            self._failed(error)
            if error.verdict is Verdict.HALT:
                self._on_halt(error)
                return None
            self._troubles.failed(self.part, error)
        except Exception as error:  # noqa: BLE001  # a bug in a loop must be seen, not vanish
            self._failed(error)
            self._on_halt(error)
            return None
        else:
            self.health.last_good_ms = self._wall_ms()
            self.health.failures_in_a_row = 0
            self.health.last_error = ""
            self._troubles.works(self.part)
        return self._pause_s()

    def is_ending(self) -> bool:
        """Return whether it was asked to end."""
        return self._stop.is_set()

    def _failed(self, error: BaseException) -> None:
        self.health.failures_in_a_row += 1
        self.health.last_error = str(error)

    def _pause_s(self) -> float:
        failures = self.health.failures_in_a_row
        if failures == 0:
            return self.health.interval_s
        return min(PAUSE_MAX_S, self.health.interval_s, 0.2 * float(2 ** min(failures, 10)))


class Loops:
    """The loops of one link.

    Parameters
    ----------
    link
        Its name, the prefix of the loops' names.
    on_halt
        See `Loop`.
    clock, troubles
        Time, and where failures are told.
    scheduler
        Runs them; by default one of their own.
    """

    def __init__(
        self,
        link: str,
        on_halt: Callable[[BaseException], None],
        clock: Clock,
        troubles: Troubles,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._link = link
        self._scheduler = scheduler or Scheduler()
        self._on_halt = on_halt
        self._clock = clock
        self._troubles = troubles
        self._loops: list[Loop] = []

    def start(self, *specs: LoopSpec) -> list[Loop]:
        """Start loops; a loop may call this too."""
        started = [
            Loop(
                self._link,
                spec,
                self._scheduler,
                on_halt=self._on_halt,
                wall_ms=self._clock.wall_ms,
                troubles=self._troubles,
            )
            for spec in specs
        ]
        self._loops += started
        for loop in started:
            loop.start()
        return started

    def end(self, loop: Loop) -> None:
        """Stop a loop that has done its work, and drop it from reports."""
        loop.stop(STOP_WITHIN_S)
        if loop in self._loops:  # nobody forgot all of them meanwhile
            self._loops.remove(loop)

    def end_parts(self, parts: Collection[str]) -> None:
        """Stop the loops of these names, if there are any; another loop may call this."""
        for loop in [loop for loop in self._loops if loop.part in parts]:
            self.end(loop)

    def pace(self, part: str, interval_s: float) -> None:
        """Have a loop run at another interval from its next pause on."""
        for loop in self._loops:
            if loop.part == part:
                loop.health.interval_s = interval_s

    def wake(self, *parts: str) -> None:
        """Have loops of these names run at once."""
        for loop in self._loops:
            if loop.part in parts:
                loop.wake()

    def forget(self) -> None:
        """Drop loops that were stopped from reports."""
        self._loops.clear()

    def ask_to_end(self) -> None:
        """Have those that run now begin no more turns; does not wait."""
        for loop in list(self._loops):
            loop.ask_to_end()

    def stop(self) -> None:
        """Stop all, including those that another loop starts or ends meanwhile.

        None begins a turn while another one ends.
        """
        stopped: set[Loop] = set()
        while left := [loop for loop in list(self._loops) if loop not in stopped]:
            self.ask_to_end()
            for loop in left:
                loop.stop(STOP_WITHIN_S)
            stopped.update(left)

    def report(self, now_ms: int) -> list[dict[str, object]]:
        """Return the loops' part of the driver's report."""
        return [
            {
                "name": health.name,
                "last_good_s_ago": round((now_ms - health.last_good_ms) / 1000, 1),
                "failures_in_a_row": health.failures_in_a_row,
                "last_error": health.last_error,
                "is_stale": health.is_stale(now_ms),
            }
            for health in (loop.health for loop in self._loops)
        ]
