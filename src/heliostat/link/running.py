"""Run links until told to stop: one Spark session, one service a link."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, SparkUnavailable
from heliostat.link.lane_count import LaneCount
from heliostat.link.lane_set import Runner
from heliostat.link.operations import claimed_by_others
from heliostat.link.service import LinkService
from heliostat.link.state import progress_topic
from heliostat.link.status_reader import StatusReader
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.records.pipeline import SparkRounds

POLL_S = 0.5
FOLLOW_AGAIN_S = 2.0
"""Between two tries to read reports, when the target does not answer."""
BEGIN_STOP_S = 65.0
"""More than a link's own wait for what it is asking while it begins."""


class Running:
    """Links that this process drives.

    Parameters
    ----------
    config
        The configuration.
    links
        Which of its links to run.
    events
        Where changes are told.
    clock
        Time.
    stop_asked
        Set when `start` must not wait any longer.
    rounds
        A Spark session to run in, which stays its owner's to stop; one of our own by default.
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
    ) -> None:
        self._config = config
        self._links = links
        self._events = events
        self._clock = clock or SystemClock()
        self._lent = rounds
        self.spark: SparkRounds | None = None
        self._readers: list[threading.Thread] = []
        self._stop_asked = stop_asked or threading.Event()
        self._beginnings: list[_Beginning] = []
        self._stopping = threading.Event()
        self.services: list[LinkService] = []

    def start(self) -> None:
        """Start Spark, then every link; returns when each runs, or waits for another instance.

        Raises
        ------
        HeliostatError
            A link can't begin; what was started is stopped by `stop`.
        """
        spark = self._lent or SparkRounds(
            "heliostat " + ",".join(link.name for link in self._links),
            self._config.spark.master,
            self._config.spark.conf,
            task_cpus=self._config.spark.task_cpus,
        )
        self.spark = spark
        self._tell_room(spark)
        runner = Runner(run=spark.run, cancel=spark.cancel)
        for link in self._links:
            service = LinkService(
                self._config,
                link,
                runner,
                self._lane_count(link, spark),
                clock=self._clock,
                events=self._events,
                claimed=functools.partial(claimed_by_others, self._config, link),
            )
            self.services.append(service)
            self._beginnings.append(_Beginning(service, self._events))
        for service, beginning in zip(self.services, self._beginnings, strict=True):
            beginning.wait(self._stop_asked)
            reader = threading.Thread(
                target=self._follow, args=(service,), name=f"{link.name} status", daemon=True
            )
            reader.start()
            self._readers.append(reader)

    def wait(self, seconds: float) -> BaseException | None:
        """Wait so long, or until a link halts; its reason then."""
        deadline_s = self._clock.monotonic_s() + seconds
        while not self._stopping.is_set():
            for service in self.services:
                if service.failure is not None:
                    return service.failure
            left_s = deadline_s - self._clock.monotonic_s()
            if self.spark is not None and self.spark.has_ended():
                return SparkUnavailable("Spark has ended this program's session")
            if left_s <= 0:
                return None
            self._stopping.wait(min(POLL_S, left_s))
        return None

    def stop(self) -> None:
        """Stop all links gracefully, then Spark."""
        self._stopping.set()
        for service in self.services:
            service.stop()
        for beginning in self._beginnings:
            beginning.join(BEGIN_STOP_S)
        for reader in self._readers:
            reader.join(5)
        if self.spark is not None and self.spark is not self._lent:
            self.spark.stop()
        self.spark = None

    def _tell_room(self, spark: SparkRounds) -> None:
        """Say at the start when Spark can't run all configured lanes at once."""
        counts = [link.lanes.count for link in self._links]
        lanes = sum(count for count in counts if isinstance(count, int))
        slots = int(spark.cores / self._config.spark.task_cpus)
        if lanes > slots:
            self._events.warn(
                f"{lanes} lanes are configured, and Spark has room for {slots} at once: the others "
                "wait for their rounds to end; lower lanes.count or spark.task_cpus, or add cores"
            )

    def _lane_count(self, link: LinkConfig, spark: SparkRounds) -> LaneCount:
        """`auto`: one lane a core, shared between the links; on this machine as needed."""
        return LaneCount(
            link.lanes.count,
            lambda: spark.cores,
            len(self._links),
            self._clock.monotonic_s,
            by_load=spark.is_local,
        )

    def _follow(self, service: LinkService) -> None:
        """Feed a link's board from its progress topic, as `heliostat status` does from afar."""
        target = self._config.clusters[service.link.target].access()
        name = LinkName(service.link.name)
        progress = RecentRecords(target, progress_topic(name))
        reader = StatusReader(name, progress, service.board)
        try:
            while not self._stopping.is_set():
                try:
                    reader.begin()
                    while not self._stopping.is_set():
                        reader.read(POLL_S)
                except (ConnectionLost, BrokerError) as error:
                    self._events.warn(f"link {name}: its reports can't be read now: {error}")
                    progress.close()
                    self._stopping.wait(FOLLOW_AGAIN_S)
        except Exception as error:  # noqa: BLE001  # without figures a link must not look well
            self._events.warn(f"link {name}: its reports can't be read: {error}")
        finally:
            progress.close()


class _Beginning:
    """A link that begins on a thread of its own: one that waits must not keep others waiting."""

    def __init__(self, service: LinkService, events: Events) -> None:
        self._service = service
        self._events = events
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"{service.link.name} begins", daemon=True
        )
        self._thread.start()

    def wait(self, stopping: threading.Event) -> None:
        """Until it runs, waits for another instance, or `stopping`; raises why it can't begin."""
        while not (self._ended.is_set() or self._service.waits.is_set() or stopping.is_set()):
            self._ended.wait(POLL_S / 5)
        if self._error is not None:
            raise self._error

    def join(self, timeout_s: float) -> None:
        """Until it is over."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        link = self._service.link
        try:
            if self._service.start():
                self._events.info(f"link {link.name}: {link.source} → {link.target} runs")
        except BaseException as error:  # noqa: BLE001  # told by `wait`, or as why the link halts
            self._error = self._service.failure = error
        finally:
            self._ended.set()
