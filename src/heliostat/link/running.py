"""Run links until asked to stop: one Spark session, one service a link."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from heliostat.clock import Clock, SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.config.changes import ConfigChanges, LinkChange, LinkFate, changes_between
from heliostat.link.driven_link import DrivenLink, ProcessParts
from heliostat.link.held_changes import NotInForce
from heliostat.link.kept_link import KeptLink
from heliostat.link.lane_count import LaneCount
from heliostat.link.lane_set import Runner
from heliostat.link.meters import DriverProcesses
from heliostat.link.places import Places, few_places_text, lanes_in_use, least_lanes
from heliostat.link.spark_start import SparkStart
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.ops.places import places_of, task_cpus_of
from heliostat.ops.scheduler import Scheduler
from heliostat.other_links.same_file import ask_topics
from heliostat.other_links.same_process import StatesTogether, TopicNames
from heliostat.records.spark.pipeline import SparkRounds
from heliostat.status.values import LinkStatus

POLL_S = 0.5


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
        self._stop_asked = stop_asked or threading.Event()
        self._stopping = threading.Event()
        self._scheduler = Scheduler()
        self._changing = threading.Lock()
        """Held while links come and go."""
        self._parts: ProcessParts | None = None
        """What links need to begin; None: Spark has not started."""
        self.driven: list[DrivenLink] = []
        """The links, in the order in which they began."""

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
            places=Places(
                lambda: self._places(spark),
                self._clock.monotonic_s,
                lambda: least_lanes(self._links),
            ),
        )
        names = TopicNames(lambda alias: ask_topics(self._config, alias))
        with self._changing:
            self._parts = ProcessParts(
                self._events,
                self._clock,
                runner,
                lambda link: self._lane_count(link, spark),
                names.of,
                StatesTogether(lambda: self._config),
                self._processes.report,
                self._scheduler,
            )
            self._begin_links()

    def _session(self) -> SparkRounds | None:
        """Return the session, once it has started; None if asked to stop meanwhile."""
        if self._lent is not None:
            return self._lent
        self._starting = self._starting or SparkStart(
            self._config, self._links, say=self._events.info
        )
        while not self._starting.is_over(POLL_S / 5):
            if self._stop_asked.is_set():
                return None
        return self._starting.rounds()

    def _begin_links(self) -> None:
        """Begin the links that have not begun."""
        begun = {driven.name for driven in self.driven}
        for link in self._links:
            if self._parts is None or self._stop_asked.is_set() or self._stopping.is_set():
                return
            if link.name not in begun:
                driven = DrivenLink(self._config, link, self._parts)
                self.driven.append(driven)
                driven.start()

    def change_to(self, config: Config, links: Sequence[LinkConfig] | None = None) -> ConfigChanges:
        """Go by another configuration from now on; returns when links that end have ended.

        Links whose configuration is equal are not touched. One that has halted begins anew if its
        own has changed. From any thread; before `start` it only takes the configuration.

        Parameters
        ----------
        config
            The configuration.
        links
            Which of its links to run; by default all.

        Returns
        -------
        What differs. What needs another process to take effect (`Effect.RESTART`) is left to it.
        """
        with self._changing:
            wanted = config.links if links is None else tuple(links)
            changes = changes_between(
                self._config.model_copy(update={"links": tuple(self._links)}),
                config.model_copy(update={"links": wanted}),
            )
            # Spark runs on as it began.
            self._config = config.model_copy(update={"spark": self._config.spark})
            self._links = wanted
            changed = {change.link: change for change in changes.links}
            ending = [driven for driven in self.driven if _ends(driven, changed)]
            _stop_all(ending)
            self.driven = [driven for driven in self.driven if driven not in ending]
            by_name = {LinkName(link.name): link for link in wanted}
            for driven in self.driven:
                driven.change_to(config, by_name[driven.name])
            self._begin_links()
        return changes

    def tell(self, link: LinkName, text: str) -> None:
        """Tell what is changed of a link: in its history too, if it is one of these."""
        of = (driven.events for driven in list(self.driven) if driven.name == link)
        next(of, self._events.of(link)).info(text)

    def remark(self, remarks: Mapping[LinkName, NotInForce]) -> None:
        """Say this in the status of links until it is called again."""
        for driven in list(self.driven):
            driven.wanted.not_in_force = remarks.get(driven.name, NotInForce())

    def source_topics(self, link: LinkName) -> frozenset[TopicName] | None:
        """Return all topics of a link's source, as seen last; None: not yet."""
        of = (driven for driven in list(self.driven) if driven.name == link)
        return next((driven.kept.source_topics for driven in of), None)

    def statuses(self) -> list[LinkStatus]:
        """Return the status of each link that has begun; never waits for a cluster."""
        now_ms = self._clock.wall_ms()
        return [driven.status(now_ms) for driven in list(self.driven)]

    @property
    def kept(self) -> list[KeptLink]:
        """The links themselves."""
        return [driven.kept for driven in list(self.driven)]

    @property
    def failures(self) -> dict[LinkName, BaseException]:
        """Links that are halted now, and why; some begin again by themselves."""
        return {
            LinkName(kept.link.name): kept.failure for kept in self.kept if kept.failure is not None
        }

    def wait(self, seconds: float) -> BaseException | None:
        """Wait `seconds`, or until no link begins again or Spark has ended; return why, if so.

        Returns None at once when a stop is asked.
        """
        deadline_s = self._clock.monotonic_s() + seconds
        while not (self._stop_asked.is_set() or self._stopping.is_set()):
            failures = [kept.over for kept in self.kept]
            if failures and None not in failures:
                return failures[0]
            left_s = deadline_s - self._clock.monotonic_s()
            ended = None if self.spark is None else self.spark.why_ended()
            if ended is not None:
                return ended
            if left_s <= 0:
                return None
            self._stop_asked.wait(min(POLL_S, left_s))
        return None

    def stop(self) -> None:
        """Stop all links gracefully, at once, then Spark."""
        self._stopping.set()
        with self._changing:
            _stop_all(self.driven)
        spark = self.spark if self._starting is None else self._starting.ended()
        if spark is not None and spark is not self._lent:
            spark.stop()
        self.spark = None

    def _jvm_pid(self) -> int | None:
        return None if self.spark is None else self.spark.jvm_pid

    def _warn_of_few_slots(self, spark: SparkRounds) -> None:
        """Warn at the start if Spark can't run all configured lanes at once."""
        counts = [link.lanes.count for link in self._links]
        lanes = sum(count for count in counts if isinstance(count, int))
        slots = self._slots(spark)
        if text := few_places_text(self._links, self._places(spark)):
            self._events.warn(text)
        elif max(lanes, len(self._links)) > slots:
            self._events.warn(
                f"{lanes or len(self._links)} lanes are configured, but Spark can run only {slots} "
                "at once beside pipelines: fewer are used; lower spark.task_cpus, or add cores"
            )

    def _places(self, spark: SparkRounds) -> int:
        """Return how many lanes can run at once now."""
        settings = self._config.spark
        return places_of(spark.cores, task_cpus_of(settings.task_cpus, settings.master))

    def _slots(self, spark: SparkRounds) -> int:
        """Return how many lanes without a pipeline can run at once now, beside those of them."""
        places, links = self._places(spark), self._links
        return places - (lanes_in_use(links, places) - len(links))

    def _lane_count(self, link: LinkConfig, spark: SparkRounds) -> LaneCount:
        """Return the lane count; `auto` is one a core shared by all links, as needed if local."""
        return LaneCount(
            link.lanes.count,
            lambda: spark.cores,
            lambda: self._slots(spark),
            lambda: max(1, len(self._links)),
            self._clock.monotonic_s,
            by_load=spark.is_local,
        )


def _ends(driven: DrivenLink, changed: Mapping[LinkName, LinkChange]) -> bool:
    """Return whether a link must end, for good or to begin anew."""
    change = changed.get(driven.name)
    if change is None:
        return False
    has_halted = driven.kept.failure is not None
    return change.fate is LinkFate.GONE or change.begins_anew or has_halted


def _stop_all(links: Sequence[DrivenLink]) -> None:
    """Stop links gracefully, all at once: one whose cluster is dead takes its time."""
    stops = [threading.Thread(target=driven.stop, daemon=True) for driven in links]
    for thread in stops:
        thread.start()
    for thread in stops:
        thread.join()


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
