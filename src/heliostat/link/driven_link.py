"""One link of a process, with all that goes with it: it comes, changes and goes as a whole."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import ClusterConfig, Config, LinkConfig
from heliostat.link.copying import Resources
from heliostat.link.flow import Lanes
from heliostat.link.history_part import KeptEvents
from heliostat.link.kept_link import KeptLink
from heliostat.link.lane_set import Runner
from heliostat.link.link_context import WantedLink
from heliostat.link.report_reader import ReportReader
from heliostat.link.restart_book import RestartBook
from heliostat.link.restart_keeper import RestartKeeper
from heliostat.link.service import LinkService
from heliostat.link.troubles import Troubles
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.scheduler import Scheduler
from heliostat.other_links.at_target import StatesAtTarget
from heliostat.other_links.claims import Claims
from heliostat.other_links.same_file import NamesOf, Neighbours, neighbours_of
from heliostat.other_links.same_process import StatesTogether
from heliostat.state_topics import progress_topic
from heliostat.status.board import StatusBoard
from heliostat.status.both_ends import read_ends
from heliostat.status.known_ends import KnownEnds
from heliostat.status.values import LinkStatus

READER_ENDS_S = 5.0


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What a process has for each of its links.

    Parameters
    ----------
    events, clock
        Where changes are logged, and time.
    runner
        Runs rounds on Spark.
    lane_count
        Makes the lane count of a link.
    names_of, states
        Returns all topics of a cluster, by its alias; reads links' states at one.
    processes
        Returns what the processes of this driver have used.
    scheduler
        Runs what links do again and again, on threads that they share.
    """

    events: Events
    clock: Clock
    runner: Runner
    lane_count: Callable[[LinkConfig], Lanes]
    names_of: NamesOf
    states: StatesTogether
    processes: Callable[[], Mapping[str, ProcessUse]]
    scheduler: Scheduler


class DrivenLink:
    """A link that this process drives, the reader of its reports, and what is known of it.

    Parameters
    ----------
    config, link
        The configuration, and the link of it.
    process
        What the process has for each of its links.
    """

    def __init__(self, config: Config, link: LinkConfig, process: ProcessParts) -> None:
        self._config = config
        self._process = process
        self._stopping = threading.Event()
        self._neighbours = Neighbours(config, link, process.names_of)
        self._lanes = process.lane_count(link)
        source, target = (config.clusters[each].access() for each in (link.source, link.target))
        self.wanted = WantedLink(link)
        name, clock = LinkName(link.name), process.clock
        board = self.board = StatusBoard(name)
        self.events = KeptEvents(process.events.of(link.name), link.name, clock.wall_ms)
        aliases = {each.described: each.alias for each in (source, target)}
        self._troubles = Troubles(aliases, clock, self.events, self._behind)
        restarts = RestartKeeper(
            name,
            link.restarts.max,
            RestartBook(link, target),
            board,
            clock=clock,
            events=self.events,
        )
        self.kept = KeptLink(
            self.wanted,
            self._service,
            board,
            restarts=restarts,
            events=self.events,
            troubles=self._troubles,
            scheduler=process.scheduler,
        )
        self._ends = KnownEnds(functools.partial(read_ends, source, target), clock)
        foreign = ForeignRecords(self.events.warn)
        self._reader = ReportReader(
            name,
            lambda: RecentRecords(target, progress_topic(name), foreign),
            board,
            clock=clock,
            events=self.events,
            troubles=self._troubles,
            stopping=self._stopping,
        )

    @property
    def name(self) -> LinkName:
        """The link's name."""
        return LinkName(self.wanted.link.name)

    def start(self) -> None:
        """Start the link, and the reader of its reports: neither waits for another link (I7)."""
        self.kept.start()
        self._reader.start()

    def change_to(self, config: Config, link: LinkConfig) -> None:
        """Have the link go by another configuration of which lanes don't depend."""
        if _others(config, link) != _others(self._config, self.wanted.link):
            self._neighbours = Neighbours(config, link, self._process.names_of)
        self._config = config
        if link != self.wanted.link:
            self.kept.change_to(link)

    def stop(self) -> None:
        """End it gracefully; returns when its rounds and loops have ended."""
        self._stopping.set()
        self.kept.stop()
        self._reader.join(READER_ENDS_S)

    def status(self, now_ms: int) -> LinkStatus:
        """Return its status; never waits for a cluster."""
        ends = self._ends.newest(functools.partial(self.board.to_read, now_ms))
        return self.board.status(now_ms, ends)

    def _behind(self) -> int | None:
        return self.board.status(self._process.clock.wall_ms()).lag_records

    def _service(self) -> LinkService:
        process = self._process
        self.wanted.takes_effect(process.clock.wall_ms())
        return LinkService(
            self._config,
            self.wanted,
            Resources(process.runner, self._lanes, self._claims, self._states()),
            board=self.board,
            clock=process.clock,
            events=self.events,
            troubles=self._troubles,
            processes=process.processes,
            scheduler=process.scheduler,
        )

    def _states(self) -> StatesAtTarget | None:
        """Return what reads states for several links; None: this one reads over its connections."""
        links = sum(link.target == self.wanted.link.target for link in self._config.links)
        return self._process.states.at(self.wanted.link.target) if links > 1 else None

    def _claims(self, wanted: Collection[TopicName], ours: Collection[TopicName]) -> Claims:
        return self._neighbours.claims(wanted, ours)


def _others(config: Config, link: LinkConfig) -> list[tuple[LinkConfig, ClusterConfig]]:
    """Return the links of the file that may write the same mirrors, with their sources."""
    return [(other, config.clusters[other.source]) for other in neighbours_of(config, link)]
