"""Run links until told to stop: one Spark session, one service a link."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import SparkUnavailable
from heliostat.link.lane_count import LaneCount
from heliostat.link.lane_set import Runner
from heliostat.link.operations import claimed_by_others
from heliostat.link.service import LinkService
from heliostat.link.state import progress_topic
from heliostat.link.status import StatusReader
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.records.pipeline import SparkRounds

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
        Where changes are told.
    clock
        Time.
    """

    def __init__(
        self,
        config: Config,
        links: Sequence[LinkConfig],
        events: Events,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._links = links
        self._events = events
        self._clock = clock or SystemClock()
        self.spark: SparkRounds | None = None
        self._readers: list[threading.Thread] = []
        self._stopping = threading.Event()
        self.services: list[LinkService] = []

    def start(self) -> None:
        """Start Spark, then every link.

        Raises
        ------
        HeliostatError
            A link can't begin; what was started is stopped by `stop`.
        """
        spark = SparkRounds(
            "heliostat " + ",".join(link.name for link in self._links),
            self._config.spark.master,
            self._config.spark.conf,
            task_cpus=self._config.spark.task_cpus,
        )
        self.spark = spark
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
            service.start()
            reader = threading.Thread(
                target=self._follow, args=(service,), name=f"{link.name} status", daemon=True
            )
            reader.start()
            self._readers.append(reader)
            self._events.info(f"link {link.name}: {link.source} → {link.target} runs")

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
        for reader in self._readers:
            reader.join(5)
        if self.spark is not None:
            self.spark.stop()
            self.spark = None

    def _lane_count(self, link: LinkConfig, spark: SparkRounds) -> LaneCount:
        """`auto`: one lane a core, shared between the links."""
        return LaneCount(
            link.lanes.count, lambda: spark.cores, len(self._links), self._clock.monotonic_s
        )

    def _follow(self, service: LinkService) -> None:
        """Feed a link's board from its progress topic, as `heliostat status` does from afar."""
        target = self._config.clusters[service.link.target].access()
        name = LinkName(service.link.name)
        progress = RecentRecords(target, progress_topic(name))
        reader = StatusReader(name, progress, service.board)
        try:
            reader.begin(self._clock.wall_ms())
            while not self._stopping.is_set():
                reader.read(POLL_S)
        except Exception as error:  # noqa: BLE001  # without figures a link must not look well
            self._events.warn(f"link {name}: its reports can't be read: {error}")
        finally:
            progress.close()
