"""Reads a link's reports on a thread of its own, through outages of its target."""

from __future__ import annotations

import threading
from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.records.copier.lane import RoundReport
from heliostat.state_topics import progress_topic
from heliostat.status.board import StatusBoard
from heliostat.status.reader import FRESH_MS, StatusReader

POLL_S = 0.5
AGAIN_S = 2.0
"""Between two tries to read reports, when the target does not answer."""
UNREACHABLE_AFTER_S = 5.0


class ReportFollower:
    """Feeds a board from a link's progress topic.

    Parameters
    ----------
    link
        Name of the link.
    target
        Access to its target.
    clock
        The clock.
    """

    def __init__(self, link: LinkName, target: ClusterAccess, clock: Clock) -> None:
        self.board = StatusBoard(link)
        self._link = link
        self._target = target
        self._clock = clock
        self._stopping = threading.Event()
        self._error: HeliostatError | None = None
        self._error_since_s = 0.0
        self._ahead_ms = 0
        """How far the driver's clock is ahead of ours, if they differ by more than a report."""
        self._thread = threading.Thread(target=self._follow, name=f"{link} reports", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being asked may still run for a moment."""
        self._stopping.set()
        self._thread.join(2 * POLL_S)

    @property
    def lost(self) -> HeliostatError | None:
        """Why the reports have not been readable for some seconds; None: they are."""
        lasted_s = self._clock.monotonic_s() - self._error_since_s
        return self._error if lasted_s > UNREACHABLE_AFTER_S else None

    def lose(self, error: HeliostatError) -> None:
        """Note that the target does not answer."""
        if self._error is None:
            self._error_since_s = self._clock.monotonic_s()
        self._error = error

    def now_ms(self) -> int:
        """Return the wall clock of the driver's machine."""
        return self._clock.wall_ms() + self._ahead_ms

    def _follow(self) -> None:
        while not self._stopping.is_set():
            with closing(RecentRecords(self._target, progress_topic(self._link))) as progress:
                try:
                    if progress.exists():
                        self._read(StatusReader(self._link, progress, self.board))
                    else:
                        self._error = None
                except HeliostatError as error:
                    self.lose(error)
            self._stopping.wait(AGAIN_S)

    def _read(self, reader: StatusReader) -> None:
        reader.begin()
        self._error = None
        self.board.listener = self._note_clock
        try:
            while not self._stopping.is_set():
                reader.read(POLL_S)
        finally:
            self.board.listener = lambda _: None

    def _note_clock(self, report: RoundReport | None) -> None:
        if report is None and (at_ms := self.board.driver_at_ms) is not None:
            ahead_ms = at_ms - self._clock.wall_ms()
            self._ahead_ms = 0 if abs(ahead_ms) <= FRESH_MS else ahead_ms
