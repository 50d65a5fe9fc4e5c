"""Reads a link's reports on a thread of its own, from before its first until the process ends.

Leases depend on it: a lane's report is answered once it was read here. So no link waits for
another, nothing that is read ends it, and it goes on though the topic is deleted or its brokers are
away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.errors import HeliostatError
from heliostat.link.troubles import REPORTS, Troubles
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.status.board import StatusBoard
from heliostat.status.changes import Changes
from heliostat.status.reader import StatusReader

POLL_S = 0.5
FOLLOW_AGAIN_S = 2.0
"""Between two tries to read reports, when the target does not answer."""


class ReportReader:
    """Feeds a link's board from its progress topic, as a remote `heliostat status` does.

    Parameters
    ----------
    link
        Name of the link.
    open_topic
        Opens its progress topic.
    board
        The link's status.
    clock, events, troubles
        Time, and where changes and failures are told.
    stopping
        Set when it must end.
    """

    def __init__(
        self,
        link: LinkName,
        open_topic: Callable[[], RecentRecords],
        board: StatusBoard,
        *,
        clock: Clock,
        events: Events,
        troubles: Troubles,
        stopping: threading.Event,
    ) -> None:
        self._link = link
        self._open_topic = open_topic
        self._board = board
        self._clock = clock
        self._events = events
        self._troubles = troubles
        self._stopping = stopping
        self._changes = Changes(link, events)
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name=f"{link} status", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, once asked to."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        progress = self._open_topic()
        try:
            while not self._stopping.is_set():
                try:
                    if progress.exists():
                        self._follow(progress)
                except HeliostatError as error:
                    if not self._stopping.is_set():
                        self._troubles.failed(REPORTS, error)
                except Exception as error:  # noqa: BLE001  # else leases end, and nobody says why
                    self._failed(f"its reports can't be read: {type(error).__name__}: {error}")
                progress.close()
                self._stopping.wait(FOLLOW_AGAIN_S)  # a link that could not start has none yet
        finally:
            progress.close()

    def _failed(self, text: str) -> None:
        if text != self._last_error and not self._stopping.is_set():
            self._events.warn(f"link {self._link}: {text}")
            self._last_error = text

    def _follow(self, progress: RecentRecords) -> None:
        """Read until asked to end."""
        reader = StatusReader(self._link, progress, self._board)
        reader.begin()
        is_live = False  # until a driver reports, what was read is of one that has ended
        while not self._stopping.is_set():
            if reader.read(POLL_S):
                is_live = True
                self._troubles.works(REPORTS)
            if not is_live:
                continue
            now_ms = self._clock.wall_ms()
            self._changes.look(self._board.problems(), now_ms)
            self._changes.consume(self._board.alarms(now_ms))
