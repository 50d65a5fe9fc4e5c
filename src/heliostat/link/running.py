"""Run links until asked to stop: one Spark session, one service a link."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.link.flow import Lanes
from heliostat.link.kept_link import KeptLink
from heliostat.link.lane_count import LaneCount
from heliostat.link.lane_set import Runner
from heliostat.link.service import LinkService
from heliostat.link.spark_start import SparkStart
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.other_links.same_file import Neighbours
from heliostat.records.spark.pipeline import SparkRounds
from heliostat.state.link_state import progress_topic
from heliostat.status.board import StatusBoard
from heliostat.status.changes import Changes
from heliostat.status.reader import StatusReader

POLL_S = 0.5
SILENT_S = 4.0
"""Without a report for so long, though a driver writes one a second, they are read with another
client: lanes without answers stop, and one whose broker hangs stays with it."""
FOLLOW_AGAIN_S = 2.0
"""Between two tries to read reports, when the target does not answer."""


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
        self._readers: list[threading.Thread] = []
        self._stop_asked = stop_asked or threading.Event()
        self._stopping = threading.Event()
        self.kept: list[KeptLink] = []
        """The links, in the order of the file."""

    def start(self) -> None:
        """Start Spark, then every link.

        Returns when each runs, waits for another instance, has halted, or can't start now and is
        retried.

        Raises
        ------
        SparkUnavailable
            Spark can't be started.
        """
        if self._lent is not None:
            spark = self._lent
        else:
            spark = (self._starting or SparkStart(self._config, self._links)).rounds()
        self.spark = spark
        self._warn_of_few_slots(spark)
        for text in sent_in_clear(self._config, self._links):
            self._events.warn(text)
        runner = Runner(
            run=spark.run, cancel=spark.cancel, misplaced=spark.misplaced, refused=spark.refused
        )
        for link in self._links:
            board = StatusBoard(LinkName(link.name))
            kept = KeptLink(
                link,
                functools.partial(
                    self._service, link, runner, self._lane_count(link, spark), board
                ),
                board,
                clock=self._clock,
                events=self._events,
            )
            self.kept.append(kept)
            kept.start()
        for kept in self.kept:
            while not (kept.is_settled or self._stop_asked.is_set()):
                self._stopping.wait(POLL_S / 5)
            reader = threading.Thread(
                target=self._follow, args=(kept,), name=f"{kept.link.name} status", daemon=True
            )
            reader.start()
            self._readers.append(reader)

    @property
    def failures(self) -> dict[LinkName, BaseException]:
        """Links that have halted, and why."""
        return {
            LinkName(kept.link.name): kept.failure for kept in self.kept if kept.failure is not None
        }

    def wait(self, seconds: float) -> BaseException | None:
        """Wait `seconds`, or until all links have halted or Spark has ended; return why, if so."""
        deadline_s = self._clock.monotonic_s() + seconds
        while not self._stopping.is_set():
            failures = [kept.failure for kept in self.kept]
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
        """Stop all links gracefully, then Spark."""
        self._stopping.set()
        for kept in self.kept:
            kept.stop()
        for reader in self._readers:
            reader.join(5)
        if self.spark is not None and self.spark is not self._lent:
            self.spark.stop()
        self.spark = None

    def _service(
        self, link: LinkConfig, runner: Runner, lanes: Lanes, board: StatusBoard
    ) -> LinkService:
        return LinkService(
            self._config,
            link,
            runner,
            lanes,
            board=board,
            clock=self._clock,
            events=self._events,
            claimed=Neighbours(self._config, link).claims,
        )

    def _warn_of_few_slots(self, spark: SparkRounds) -> None:
        """Warn at the start if Spark can't run all configured lanes at once."""
        counts = [link.lanes.count for link in self._links]
        lanes = sum(count for count in counts if isinstance(count, int))
        slots = self._slots(spark)
        if max(lanes, len(self._links)) > slots:
            self._events.warn(
                f"{lanes or len(self._links)} lanes are configured, but Spark can run only {slots} "
                "at once beside pipelines: fewer are used, and a link without any waits; lower "
                "spark.task_cpus, or add cores"
            )

    def _slots(self, spark: SparkRounds) -> int:
        """Return how many lanes without a pipeline can run at once now: each pipeline has one."""
        pipelines = sum(len(link.pipelines) for link in self._links)
        return int(spark.cores / self._config.spark.task_cpus) - pipelines

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

    def _follow(self, kept: KeptLink) -> None:
        """Feed a link's board from its progress topic, as a remote `heliostat status` does."""
        target = self._config.clusters[kept.link.target].access()
        name = LinkName(kept.link.name)
        progress = RecentRecords(target, progress_topic(name))
        reader = StatusReader(name, progress, kept.board)
        changes = Changes(name, self._events)
        try:
            while not self._stopping.is_set():
                try:
                    if not progress.exists():  # a link that could not start has none yet
                        self._stopping.wait(FOLLOW_AGAIN_S)
                        continue
                    reader.begin()
                    heard_s = self._clock.monotonic_s()
                    while not self._stopping.is_set():
                        now_s = self._clock.monotonic_s()
                        if reader.read(POLL_S):
                            heard_s = now_s
                        elif now_s > heard_s + SILENT_S:
                            heard_s = now_s
                            progress.look_again()
                        now_ms = self._clock.wall_ms()
                        changes.look(kept.board.problems(), now_ms)
                        changes.consume(kept.board.alarms(now_ms))
                except (ConnectionLost, BrokerError) as error:
                    if not self._stopping.is_set():
                        self._events.warn(f"link {name}: its reports can't be read now: {error}")
                    progress.close()
                    self._stopping.wait(FOLLOW_AGAIN_S)
        except Exception as error:  # noqa: BLE001  # a link without reports must not look healthy
            self._events.warn(f"link {name}: its reports can't be read: {error}")
        finally:
            progress.close()


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
