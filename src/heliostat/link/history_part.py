"""Writes a link's history to its target: a loop of its own, so that copying never waits for it.

What happens is written within a second, figures once a minute.

Only the owner writes, as the loop's turn is guarded. What could not be written is kept for a while
and written with the next minutes.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import astuple

from typing_extensions import override

from heliostat.clock import Clock
from heliostat.clusters.past_records import PastRecords
from heliostat.errors import HeliostatError, HistoryNotWritten, Verdict
from heliostat.ops.events import NOTHING, Events, Subject
from heliostat.ops.loop_spec import LoopSpec
from heliostat.status.board import StatusBoard
from heliostat.status.history import FINE_S
from heliostat.status.history_minutes import EVENTS_MAX, Figures, HistoryMinutes, Record
from heliostat.status.history_records import PastEvent

EVENTS_S = 0.5
"""Between two looks for what has happened."""
UNWRITTEN_MAX = 90
"""Records that wait for a target that takes none: half an hour of them."""


class KeptEvents(Events):
    """Passes a link's events on, and keeps them until its history takes them. Thread-safe.

    Parameters
    ----------
    events
        Where they go as well.
    link
        Name of the link.
    wall_ms
        Wall clock (ms).
    """

    def __init__(self, events: Events, link: str, wall_ms: Callable[[], int]) -> None:
        super().__init__(wall_ms, None)
        self._events = events
        self._prefix = f"link {link}: "
        self._clock_ms = wall_ms
        self._kept: deque[PastEvent] = deque(maxlen=EVENTS_MAX)
        self._kept_lock = threading.Lock()

    @override
    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, of all links."""
        return self._events.recent(count)

    @override
    def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
        """Pass an event on, and keep it."""
        self._events.write(level, text, about)
        own = " ".join(text.split()).removeprefix(self._prefix)
        with self._kept_lock:
            self._kept.append(PastEvent(self._clock_ms(), level, own, *astuple(about)[1:]))

    def taken(self) -> list[PastEvent]:
        """Return those kept since the last call."""
        with self._kept_lock:
            events = list(self._kept)
            self._kept.clear()
        return events


class HistoryPart:
    """Writes what happens at once, and a link's figures, taken each five seconds, once a minute.

    Parameters
    ----------
    topic
        Where they are written.
    board
        The link's status.
    clock
        The clock.
    events
        What happens; only those of a `KeptEvents` are written.
    """

    def __init__(
        self, topic: PastRecords, board: StatusBoard, clock: Clock, events: Events
    ) -> None:
        self._topic = topic
        self._board = board
        self._clock = clock
        self._events = events
        self._minutes = HistoryMinutes()
        self._taken_ms = 0
        self._unwritten: deque[Record] = deque(maxlen=UNWRITTEN_MAX)

    def loop(self, guarded: Callable[[Callable[[], None]], Callable[[], None]]) -> LoopSpec:
        """Return the loop that keeps the history, which only the link's owner may."""
        return LoopSpec("history", EVENTS_S, guarded(self.turn))

    def turn(self) -> None:
        """Write what has happened, take the figures of now, and write a minute that is over.

        Raises
        ------
        ConnectionLost, BrokerError, HistoryNotWritten
            The target does not take it; it is kept, and copying goes on.
        """
        self._take_events()
        # Where the target takes nothing, events go with their minute: these have the place.
        records = [] if self._unwritten else self._minutes.new_events()
        now_ms = self._clock.wall_ms()
        if abs(now_ms - self._taken_ms) > (FINE_S - EVENTS_S) * 1000:
            self._taken_ms = now_ms
            records += self._minutes.take(self._figures())
        self._write(records)

    def end(self) -> None:
        """Write what was not: the link stops. If that fails, the last minute is lost."""
        self._take_events()
        with contextlib.suppress(HeliostatError):  # of the service's own writes it is the least
            self._write(self._minutes.end(self._figures()))

    def _take_events(self) -> None:
        if isinstance(self._events, KeptEvents):
            self._minutes.add_events(self._events.taken())

    def _figures(self) -> Figures:
        board, now_ms = self._board, self._clock.wall_ms()
        return Figures(
            board.status(now_ms),
            lambda: board.totals().copied,
            lambda: board.topic_latencies(now_ms),
            board.positions,
        )

    def _write(self, records: list[Record]) -> None:
        self._unwritten.extend(records)
        if not self._unwritten:
            return
        try:
            self._topic.append(tuple(self._unwritten))
        except HeliostatError as error:
            if error.verdict is Verdict.RETRY:
                raise
            # Whatever it is, it is no reason to halt.
            raise HistoryNotWritten(
                "the history can't be written", topic=self._topic.topic, why=str(error)
            ) from error
        self._unwritten.clear()
