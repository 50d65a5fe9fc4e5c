"""Run links until asked to stop: one Spark session, one service a link."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.link.flow import Lanes
from heliostat.link.history_part import KeptEvents
from heliostat.link.kept_link import KeptLink
from heliostat.link.lane_count import LaneCount
from heliostat.link.lane_set import Runner
from heliostat.link.meters import DriverProcesses
from heliostat.link.places import Places, least_lanes, turns_text
from heliostat.link.report_reader import ReportReader
from heliostat.link.restart_book import RestartBook
from heliostat.link.restart_keeper import RestartKeeper
from heliostat.link.service import LinkService
from heliostat.link.spark_start import SparkStart
from heliostat.link.troubles import Troubles
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.other_links.same_file import Neighbours, TopicNames, ask_topics
from heliostat.records.spark.pipeline import SparkRounds
from heliostat.state_topics import progress_topic
from heliostat.status.board import StatusBoard
from heliostat.status.both_ends import read_ends
from heliostat.status.known_ends import KnownEnds
from heliostat.status.values import LinkStatus

POLL_S = 0.5
READERS_END_S = 5.0


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all tries of one link, and the reader of its reports, share."""

    board: StatusBoard
    events: Events
    troubles: Troubles


class Running:
    """Links that this process drives.

    Parameters
    ----------
    config
        The configuration.
    links
        Which of its links to run.
    events
        Where changes are logged.
    clock
        The clock.
    stop_asked
        Set when `start` must not wait any longer.
    rounds
        A Spark session to run in, which its owner stops; one of our own by default.
    starting
        Our own session, if it is being started already.
    """

    def __init__(
        self,
        config: Config,
        links: Sequence[LinkConfig],
        events: Events,
        clock: Clock | None = None,
        stop_asked: threading.Event | None = None,
        *,
        rounds: SparkRounds | None = None,
        starting: SparkStart | None = None,
    ) -> None:
        self._config = config
        self._links = links
        self._events = events
        self._clock = clock or SystemClock()
        self._lent = rounds
        self._starting = starting
        self.spark: SparkRounds | None = None
        self._processes = DriverProcesses(self._jvm_pid, self._clock)
        self._readers: list[ReportReader] = []
        self._stop_asked = stop_asked or threading.Event()
        self._stopping = threading.Event()
        self._names = TopicNames(functools.partial(ask_topics, config))
        self.kept: list[KeptLink] = []
        """The links, in the order of the file."""
        self._ends: dict[str, KnownEnds] = {}
        """Where logs end whose lags are not reported, by link."""

    def start(self) -> None:
        """Start Spark, then every link; returns while they begin, each by itself.

        Raises
        ------
        SparkUnavailable
            Spark can't be started.
        """
        spark = self._session()
        if spark is None:
            return
        self.spark = spark
        self._warn_of_few_slots(spark)
        for text in sent_in_clear(self._config, self._links):
            self._events.warn(text)
        runner = Runner(
            run=spark.run,
            cancel=spark.cancel,
            misplaced=spark.misplaced,
            refused=spark.refused,
            places=Places(lambda: self._places(spark), self._clock.monotonic_s),
        )
        for link in self._links:
            if self._stop_asked.is_set():
                return
            self._begin(link, runner, self._lane_count(link, spark))

    def _session(self) -> SparkRounds | None:
        """Return the session, once it has started; None if asked to stop meanwhile."""
        if self._lent is not None:
            return self._lent
        self._starting = self._starting or SparkStart(self._config, self._links)
        while not self._starting.is_over(POLL_S / 5):
            if self._stop_asked.is_set():
                return None
        return self._starting.rounds()

    def _begin(self, link: LinkConfig, runner: Runner, lanes: LaneCount) -> None:
        """Start a link, and the reader of its reports: neither waits for another link (I7)."""
        shared = self._shared(link)
        kept = KeptLink(
            link,
            functools.partial(self._service, link, runner, lanes, shared),
            shared.board,
            restarts=self._restarts(link, shared),
            events=shared.events,
            troubles=shared.troubles,
        )
        source, target = (
            self._config.clusters[each].access() for each in (link.source, link.target)
        )
        self._ends[link.name] = KnownEnds(functools.partial(read_ends, source, target), self._clock)
        self.kept.append(kept)
        kept.start()
        reader = self._reader(link, shared)
        self._readers.append(reader)
        reader.start()

    def _restarts(self, link: LinkConfig, shared: _Shared) -> RestartKeeper:
        return RestartKeeper(
            link.name,
            link.restarts.max,
            RestartBook(link, self._config.clusters[link.target].access()),
            shared.board,
            clock=self._clock,
            events=shared.events,
        )

    def _shared(self, link: LinkConfig) -> _Shared:
        board = StatusBoard(LinkName(link.name))
        events = KeptEvents(self._events.of(link.name), link.name, self._clock.wall_ms)
        access = [self._config.clusters[alias].access() for alias in (link.source, link.target)]
        aliases = {each.described: each.alias for each in access}

        def behind() -> int | None:
            return board.status(self._clock.wall_ms()).lag_records

        return _Shared(board, events, Troubles(aliases, self._clock, events, behind))

    def statuses(self) -> list[LinkStatus]:
        """Return the status of each link that has begun; never waits for a cluster."""
        now_ms, found = self._clock.wall_ms(), list[LinkStatus]()
        for kept in list(self.kept):
            unreported = functools.partial(kept.board.to_read, now_ms)
            ends = self._ends[kept.link.name].newest(unreported)
            found.append(kept.board.status(now_ms, ends))
        return found

    @property
    def failures(self) -> dict[LinkName, BaseException]:
        """Links that are halted now, and why; some begin again by themselves."""
        return {
            LinkName(kept.link.name): kept.failure for kept in self.kept if kept.failure is not None
        }

    def wait(self, seconds: float) -> BaseException | None:
        """Wait `seconds`, or until no link begins again or Spark has ended; return why, if so."""
        deadline_s = self._clock.monotonic_s() + seconds
        while not self._stopping.is_set():
            failures = [kept.over for kept in self.kept]
            if failures and None not in failures:
                return failures[0]
            left_s = deadline_s - self._clock.monotonic_s()
            ended = None if self.spark is None else self.spark.why_ended()
            if ended is not None:
                return ended
            if left_s <= 0:
                return None
            self._stopping.wait(min(POLL_S, left_s))
        return None

    def stop(self) -> None:
        """Stop all links gracefully, at once, then Spark."""
        self._stopping.set()
        stops = [threading.Thread(target=kept.stop, daemon=True) for kept in self.kept]
        for thread in stops:  # one whose cluster is dead takes its time
            thread.start()
        for thread in stops:
            thread.join()
        for reader in self._readers:
            reader.join(READERS_END_S)
        spark = self.spark if self._starting is None else self._starting.ended()
        if spark is not None and spark is not self._lent:
            spark.stop()
        self.spark = None

    def _service(
        self, link: LinkConfig, runner: Runner, lanes: Lanes, shared: _Shared
    ) -> LinkService:
        return LinkService(
            self._config,
            link,
            runner,
            lanes,
            board=shared.board,
            clock=self._clock,
            events=shared.events,
            troubles=shared.troubles,
            claimed=Neighbours(self._config, link, self._names.of).claims,
            processes=self._processes.report,
        )

    def _jvm_pid(self) -> int | None:
        return None if self.spark is None else self.spark.jvm_pid

    def _warn_of_few_slots(self, spark: SparkRounds) -> None:
        """Warn at the start if Spark can't run all configured lanes at once."""
        counts = [link.lanes.count for link in self._links]
        lanes = sum(count for count in counts if isinstance(count, int))
        slots = self._slots(spark)
        if (least := least_lanes(self._links)) > (places := self._places(spark)):
            self._events.warn(turns_text(least, places))
        elif max(lanes, len(self._links)) > slots:
            self._events.warn(
                f"{lanes or len(self._links)} lanes are configured, but Spark can run only {slots} "
                "at once beside pipelines: fewer are used; lower spark.task_cpus, or add cores"
            )

    def _places(self, spark: SparkRounds) -> int:
        """Return how many lanes can run at once now."""
        return int(spark.cores / self._config.spark.task_cpus)

    def _slots(self, spark: SparkRounds) -> int:
        """Return how many lanes without a pipeline can run at once now: each pipeline has one."""
        return self._places(spark) - sum(len(link.pipelines) for link in self._links)

    def _lane_count(self, link: LinkConfig, spark: SparkRounds) -> LaneCount:
        """Return the lane count; `auto` is one a core shared by all links, as needed if local."""
        return LaneCount(
            link.lanes.count,
            lambda: spark.cores,
            lambda: self._slots(spark),
            len(self._links),
            self._clock.monotonic_s,
            by_load=spark.is_local,
        )

    def _reader(self, link: LinkConfig, shared: _Shared) -> ReportReader:
        target = self._config.clusters[link.target].access()
        name = LinkName(link.name)
        foreign = ForeignRecords(shared.events.warn)
        return ReportReader(
            name,
            lambda: RecentRecords(target, progress_topic(name), foreign),
            shared.board,
            clock=self._clock,
            events=shared.events,
            troubles=shared.troubles,
            stopping=self._stopping,
        )


def sent_in_clear(config: Config, links: Sequence[LinkConfig]) -> list[str]:
    """Return a line for each cluster of these links that takes credentials without TLS."""
    used = {alias for link in links for alias in (link.source, link.target)}
    told = {alias: config.clusters[alias].security.sent_in_clear for alias in sorted(used)}
    return [
        f"cluster {alias}: SASL_PLAINTEXT is not encrypted: anyone on the network path can read "
        f"{what}; use SASL_SSL"
        for alias, what in told.items()
        if what
    ]
