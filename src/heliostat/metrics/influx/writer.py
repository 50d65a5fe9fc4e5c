"""Writes the figures of links to InfluxDB, each some seconds; keeps them while it is away.

One thread makes points, another sends them, so that points keep their pace whatever InfluxDB does.
A batch that is sent twice is written once: its points have the same series and times.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from heliostat.clock import Clock
from heliostat.config.influx import InfluxConfig
from heliostat.metrics import families as f
from heliostat.metrics.influx.backlog import Backlog, Batch, batch_of
from heliostat.metrics.influx.over_http import TOLD_MAX, InfluxHttp, Outcome
from heliostat.metrics.influx.points import Places, PointSamples
from heliostat.metrics.text import Samples
from heliostat.ops.events import Events

AGAIN_S, AGAIN_MAX_S = 1.0, 15.0
"""Pause after a failure; it doubles."""
QUIET_S = 60.0
"""Without a refusal: then that trouble is over. One of two batches may be refused each time."""


class Sender(Protocol):
    """Sends points, see `InfluxHttp`."""

    def send(self, body: bytes, points: int) -> Outcome:
        """Send compressed lines, so many points."""
        ...


@dataclass(slots=True)
class Counts:
    """Points since the start, by what became of them."""

    written: int = 0
    refused: int = 0
    """InfluxDB will never take them."""
    dropped: int = 0
    """They waited too long, or there were too many."""


class InfluxWriter:
    """Writes what a service measures.

    Parameters
    ----------
    config
        Where to, and how often.
    measure
        Adds all samples; called by a thread of this object.
    events
        Told once that InfluxDB is away, refuses points or that some were dropped, and once that
        all is well again.
    clock
        The clock.
    sender
        In place of HTTP.
    """

    def __init__(
        self,
        config: InfluxConfig,
        measure: Callable[[Samples], None],
        events: Events,
        clock: Clock,
        sender: Sender | None = None,
    ) -> None:
        self._every_s = config.every_s
        self._measure = measure
        self._events = events
        self._clock = clock
        self._sender = sender or InfluxHttp(config)
        self._place = f"InfluxDB at {config.url}, database {config.database}"
        self._places = Places(socket.gethostname())
        self._backlog = Backlog(config.keep_s)
        self._counts = Counts()
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._stopping = threading.Event()
        self._troubles: set[str] = set()
        self._refused_s = 0.0

    def start(self) -> None:
        """Begin to write."""
        for run, name in ((self._keep_making, "influx points"), (self._keep_sending, "influx")):
            threading.Thread(target=run, name=name, daemon=True).start()

    def stop(self) -> None:
        """End; what waits is lost."""
        self._stopping.set()
        self._waiting.set()

    def write(self, samples: Samples) -> None:
        """Add samples of the writer itself."""
        with self._lock:
            for result in ("written", "refused", "dropped"):
                count = getattr(self._counts, result)
                samples.add(f.INFLUX_POINTS, f'result="{result}"', count)
            samples.add(f.INFLUX_WAITING, "", self._backlog.points)
            samples.add(f.INFLUX_WAITING_BYTES, "", self._backlog.size)

    # -- points --------------------------------------------------------------------------------

    def _keep_making(self) -> None:
        due_s = self._clock.monotonic_s()
        while not self._stopping.is_set():
            self.make()
            now_s = self._clock.monotonic_s()
            due_s = max(due_s + self._every_s, now_s)  # after a pause no points one upon another
            self._stopping.wait(due_s - now_s)

    def make(self) -> None:
        """Make the points of this moment."""
        samples = PointSamples(self._places)
        self._measure(samples)
        now_s = self._clock.monotonic_s()
        for rows in samples.batches(self._clock.wall_ms()):
            batch = batch_of(now_s, rows)
            with self._lock:
                dropped = self._backlog.add(batch, now_s)
                self._counts.dropped += dropped
            if dropped:
                self._begin("dropped", "the oldest points are dropped: too many wait")
        self._waiting.set()

    # -- requests ------------------------------------------------------------------------------

    def _keep_sending(self) -> None:
        pause_s = AGAIN_S
        while not self._stopping.is_set():
            self._waiting.wait()
            self._waiting.clear()
            while not self._stopping.is_set() and (is_well := self.send_oldest()) is not None:
                if is_well:
                    pause_s = AGAIN_S
                else:
                    self._stopping.wait(pause_s)
                    pause_s = min(2 * pause_s, AGAIN_MAX_S)

    def send_oldest(self) -> bool | None:
        """Send the oldest batch; return whether it is over, None if none waits."""
        with self._lock:
            batch = self._backlog.oldest()
        if batch is None:
            return None
        outcome = self._sender.send(batch.body, batch.points)
        if not outcome.is_over:
            self._begin("away", f"does not take points, they are kept: {outcome.why[:TOLD_MAX]}")
            return False
        self._settle(batch, outcome)
        return True

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        with self._lock:
            if self._backlog.remove(batch):
                self._counts.refused += outcome.refused
                self._counts.written += batch.points - outcome.refused
            waiting, dropped = self._backlog.points, self._counts.dropped
        self._end("away", f"takes points again; {waiting} still wait")
        if not waiting:
            self._end("dropped", f"no more points are dropped, {dropped} were in all")
        now_s = self._clock.monotonic_s()
        if outcome.refused:
            self._refused_s = now_s
            self._begin("refused", f"refuses points, they are lost: {outcome.why[:TOLD_MAX]}")
        elif now_s - self._refused_s > max(QUIET_S, 2 * self._every_s):
            self._end("refused", "refuses no more points")

    def _begin(self, trouble: str, text: str) -> None:
        with self._lock:
            is_new = trouble not in self._troubles
            self._troubles.add(trouble)
        if is_new:
            self._events.warn(f"{self._place}: {text}")

    def _end(self, trouble: str, text: str) -> None:
        with self._lock:
            was = trouble in self._troubles
            self._troubles.discard(trouble)
        if was:
            self._events.info(f"{self._place}: {text}")
