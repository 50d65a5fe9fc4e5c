"""Follows one link from outside of its driver: its status at any time, whatever has failed."""

from __future__ import annotations

import contextlib
import itertools
import threading
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.names import LinkName, TopicName
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.state.link_state import LinkState
from heliostat.status.board import as_unreachable, blame_source
from heliostat.status.both_ends import read_ends
from heliostat.status.changes import Changes
from heliostat.status.cluster_watch import ClusterWatch
from heliostat.status.event_log import EventLog
from heliostat.status.halted import NO_DRIVER
from heliostat.status.known_ends import KnownEnds
from heliostat.status.latencies import Percentiles
from heliostat.status.report_follower import ReportFollower
from heliostat.status.reports import Totals
from heliostat.status.snapshot import NO_ENDS
from heliostat.status.source_retention import SourceRetention
from heliostat.status.values import LinkStatus, PartitionStatus
from heliostat.wishes.reading import MemoryReader

LOOK_EVERY_S = 1.5
"""Between two looks for what is wished of a link without a driver."""
OTHERS_EACH = 3
"""Of so many looks one is also for the stops in the link's state, and what its source keeps."""
LOOK_WITHIN_S = 4.0


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
    source, target
        Watch its clusters: a lane does not report while it waits for a frozen source, and a reader
        of reports waits for a dead target without an error.
    events
        Keeps what happens.
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        clock: Clock,
        source: ClusterWatch,
        target: ClusterWatch,
        *,
        events: EventLog,
    ) -> None:
        self.link = link
        self._config = config
        self._source = source
        self._target = target
        source_access = config.clusters[link.source].access()
        target_access = config.clusters[link.target].access()
        self.reports = ReportFollower(LinkName(link.name), target_access, clock)
        self.events = events
        """What has happened lately, as it is seen from outside."""
        self._memory = MemoryReader(LinkName(link.name), target_access)
        self._changes = Changes(LinkName(link.name), self.events)
        self._state = ""
        self._known_ends = KnownEnds(partial(read_ends, source_access, target_access), clock)
        self._ends = NO_ENDS
        self.retention = SourceRetention(
            lambda: ClusterAdmin(source_access, connect_timeout_s=LOOK_WITHIN_S), clock
        )
        self._stops_of = ""
        """Whose stops were read: a driver, and whether it runs."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"{link.name} looks", daemon=True)

    def start(self) -> None:
        """Begin to follow it."""
        self.reports.start()
        self._thread.start()

    def stop(self) -> None:
        """End; what is being asked may still run for a moment."""
        self._stopping.set()
        self.reports.stop()

    def observation(self) -> Observation:
        """Return the link as it is now. Not thread-safe."""
        board, now_ms = self.reports.board, self.reports.now_ms()
        self._ends = self._known_ends.newest(lambda: board.to_read(now_ms))
        status = board.status(now_ms, self._ends)
        error = self.reports.lost or self._target.reach().lost
        if error is not None:
            as_unreachable(status, error)
        elif (lost := self._source.reach().lost) is not None:
            blame_source(status, lost)
        return Observation(status, board.totals())

    def partitions(self) -> list[PartitionStatus]:
        """Return all its partitions as they are now."""
        return self.reports.board.partitions(self.reports.now_ms(), self._ends)

    def latencies(self) -> dict[TopicName, Percentiles]:
        """Return the latencies of topics of which records were copied within a minute."""
        return self.reports.board.topic_latencies(self.reports.now_ms())

    def look_for_changes(self, status: LinkStatus) -> None:
        """Write what has begun or ended since the last look among the events."""
        now_ms = self.reports.now_ms()
        if status.state != self._state:
            if status.state == "running":  # its troubles are told one by one
                self.events.info("the link is running")
            else:
                self.events.warn("; ".join([status.state_in_words(), *status.troubles]))
            self._state = status.state
        if status.state == "running":
            self._changes.look(status.problems, now_ms)
            self._changes.consume(self.reports.board.alarms(now_ms))

    # -- what reports don't tell ---------------------------------------------------------------

    def _look(self) -> None:
        for turn in itertools.count(1):
            if self._stopping.wait(LOOK_EVERY_S):
                break
            others = () if turn % OTHERS_EACH else (self._read_stops, self._read_retention)
            for look in (self._read_restarts, *others):
                asked = PendingAnswer(look, f"{self.link.name} looks")
                # What is not known is absent, in the status as in the metrics.
                with contextlib.suppress(HeliostatError, NoAnswerYet):
                    asked.answer(LOOK_WITHIN_S)
        self._memory.close()

    def _read_retention(self) -> None:
        self.retention.look(self.reports.board.topics())

    def _read_stops(self) -> None:
        """Read the stops where no lane tells them: at first, and when a driver comes or goes."""
        board = self.reports.board
        driver = board.driver
        whose = f"{driver.get('instance')} {driver.get('state')}"
        if whose == self._stops_of:
            return
        target = self._config.clusters[self.link.target]
        with closing(LinkState(self.link, target)) as state:
            board.know_stops(state.read_stops())
        self._stops_of = whose

    def _read_restarts(self) -> None:
        """Read what is remembered of restarts and wishes, while no driver tells it."""
        board = self.reports.board
        state = board.status(self.reports.now_ms()).state
        if state not in {*NO_DRIVER, "halted"}:
            self._memory.close()
        elif (remembered := self._memory.read()) is not None:
            board.know_remembered(remembered)
