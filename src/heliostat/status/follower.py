"""Follows one link from outside of its driver: its status at any time, whatever has failed."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.records.copier.lane import RoundReport
from heliostat.state.link_state import LinkState, progress_topic
from heliostat.status.board import StatusBoard, as_unreachable
from heliostat.status.both_ends import read_ends
from heliostat.status.changes import Changes
from heliostat.status.cluster_watch import ClusterWatch
from heliostat.status.event_log import EventLog
from heliostat.status.lag import Ends
from heliostat.status.reader import FRESH_MS, StatusReader
from heliostat.status.reports import Totals
from heliostat.status.snapshot import NO_ENDS
from heliostat.status.values import LinkStatus, PartitionStatus

POLL_S = 0.5
AGAIN_S = 2.0
"""Between two tries to read reports, when the target does not answer."""
LOOK_EVERY_S = 5.0
"""Between two looks at what lanes do not tell."""
LOOK_WITHIN_S = 4.0
OUTDATED_S = 15.0
"""A look that is older tells nothing."""
UNREACHABLE_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Observation:
    """A link as it is seen from outside."""

    status: LinkStatus
    totals: Totals
    """What was copied since it is followed."""


class LinkFollower:
    """Reads a link's reports, and what they can't tell from its state and from both logs.

    Parameters
    ----------
    config, link
        The link.
    clock
        The clock.
    target
        Watches its target: a reader of reports waits for a dead one without an error.
    """

    def __init__(
        self, config: Config, link: LinkConfig, clock: Clock, target: ClusterWatch
    ) -> None:
        self.link = link
        self._config = config
        self._target = target
        self._clock = clock
        self._name = LinkName(link.name)
        self.board = StatusBoard(self._name)
        self.events = EventLog(clock.wall_ms, self._name)
        """What has happened lately, as it is seen from outside."""
        self._changes = Changes(self._name, self.events)
        self._state = ""
        self._stopping = threading.Event()
        self._error: HeliostatError | None = None
        self._error_since_s = 0.0
        self._ahead_ms = 0
        """How far the driver's clock is ahead of ours, if they differ by more than a report."""
        self._ends: Ends = NO_ENDS
        self._ends_at_s = 0.0
        self._stops_of = ""
        """Whose stops were read: a driver, and whether it runs."""
        self._threads = [
            threading.Thread(target=self._follow, name=f"{link.name} reports", daemon=True),
            threading.Thread(target=self._look, name=f"{link.name} looks", daemon=True),
        ]

    def start(self) -> None:
        """Begin to follow it."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; what is being asked may still run for a moment."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(POLL_S * 2)

    def observation(self) -> Observation:
        """Return the link as it is now."""
        now_ms, now_s = self._now_ms(), self._clock.monotonic_s()
        status, error = self.board.status(now_ms, self._ends_now()), self._target.reach().lost
        if self._error is not None and now_s - self._error_since_s > UNREACHABLE_AFTER_S:
            error = self._error
        if error is not None:
            as_unreachable(status, error)
        return Observation(status, self.board.totals())

    def partitions(self) -> list[PartitionStatus]:
        """Return all its partitions as they are now."""
        return self.board.partitions(self._now_ms(), self._ends_now())

    def look_for_changes(self) -> None:
        """Write what has begun or ended since the last look among the events."""
        status, now_ms = self.observation().status, self._now_ms()
        if status.state != self._state:
            say = self.events.info if status.state == "running" else self.events.warn
            say("; ".join([f"the link is {status.state}", *status.troubles]))
            self._state = status.state
        if status.state == "running":
            self._changes.look(status.problems, now_ms)
            self._changes.consume(self.board.alarms(now_ms))

    def _ends_now(self) -> Ends:
        age_s = self._clock.monotonic_s() - self._ends_at_s
        return self._ends if age_s < OUTDATED_S else NO_ENDS

    def lose(self, error: HeliostatError) -> None:
        """Note that the target does not answer."""
        if self._error is None:
            self._error_since_s = self._clock.monotonic_s()
        self._error = error

    def _now_ms(self) -> int:
        return self._clock.wall_ms() + self._ahead_ms

    # -- reports -------------------------------------------------------------------------------

    def _follow(self) -> None:
        target = self._config.clusters[self.link.target].access()
        while not self._stopping.is_set():
            with closing(RecentRecords(target, progress_topic(self._name))) as progress:
                try:
                    if progress.exists():
                        self._read(StatusReader(self._name, progress, self.board))
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

    # -- what they don't tell ------------------------------------------------------------------

    def _look(self) -> None:
        while not self._stopping.wait(LOOK_EVERY_S):
            asked = PendingAnswer(self._look_once, f"{self.link.name} look")
            try:
                asked.answer(LOOK_WITHIN_S)
            except (HeliostatError, NoAnswerYet):
                continue  # the status says that it is not known

    def _look_once(self) -> None:
        self._read_stops()
        reports = self.board.to_read(self._now_ms())
        if reports:
            clusters = self._config.clusters
            source = clusters[self.link.source].access()
            self._ends = read_ends(source, clusters[self.link.target].access(), reports)
            self._ends_at_s = self._clock.monotonic_s()

    def _read_stops(self) -> None:
        """Read the stops where no lane tells them: at first, and when a driver comes or goes."""
        driver = self.board.status(self._now_ms()).driver
        whose = f"{driver.get('instance')} {driver.get('state')}"
        if whose == self._stops_of:
            return
        target = self._config.clusters[self.link.target]
        with closing(LinkState(self.link, target)) as state:
            self.board.know_stops(state.read_stops())
        self._stops_of = whose
