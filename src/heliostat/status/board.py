"""The status of a link, built from what its lanes and its driver wrote to the target.

The driver's own view and `heliostat status` on any other machine read the same records.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heliostat.errors import HeliostatError
from heliostat.handover.fence_forecast import fence_forecast
from heliostat.names import LinkName, Offset, TopicName, TopicPartition
from heliostat.offsets.landed import Landed
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, RoundReport
from heliostat.records.transport.progress_reports import LaneProgress, decode_progress
from heliostat.state_topics import DRIVER_KEY
from heliostat.status.alarms import Alarms
from heliostat.status.halted import show_restarts
from heliostat.status.lag import Ends, missing_records
from heliostat.status.latencies import Percentiles
from heliostat.status.loss import LOSS_NOT_KNOWN
from heliostat.status.progress_watch import report_of
from heliostat.status.reports import Reports, Totals
from heliostat.status.snapshot import NO_ENDS, Snapshot, Stops, standing
from heliostat.status.standing_wishes import show_wishes
from heliostat.status.sums import problems_of
from heliostat.status.values import LinkStatus, PartitionProblem, PartitionStatus
from heliostat.wishes.reading import Remembered
from heliostat.wishes.restarts import RestartMemory

LANE_PREFIX = "lane/"
RATE_MIN = 0.1
"""Records a second; rates below this are not passed to lanes."""
BACKLOG_S = 60.0
"""A minute: about how long the packing of lanes stays unchanged."""
RECORD_BYTES_GUESS = 500
"""Assumed record size of a partition from which nothing was copied yet."""


class StatusBoard:
    """Takes reports as they arrive and returns the status at any time. No I/O; thread-safe.

    Parameters
    ----------
    link
        Name of the link.
    """

    def __init__(self, link: LinkName) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._reports = Reports()
        self._totals = Totals()
        self._codes: Counter[str] = Counter()
        self._stops: Stops = {}
        """The stops in the link's state topic."""
        self._restarts: RestartMemory | None = None
        self._remembered = Remembered(None, None)
        self._can_deny = False
        self.changes = 0
        """How often what is reported of steering was another one than before."""
        self.listener: Callable[[RoundReport | None], None] = lambda _: None
        """Called with each report of a lane, as it is taken; None: with each of the driver."""

    def consume(self, key: str, value: Mapping[str, Any]) -> None:
        """Process one record of the progress topic."""
        if key == DRIVER_KEY:
            with self._lock:
                before = self._reports.steering()
                self._reports.take_driver(value)
                self.changes += self._reports.steering() != before
            self.listener(None)
        elif key.startswith(LANE_PREFIX):
            self.take_lane(decode_progress(value))

    def take_lane(self, progress: LaneProgress, *, is_new: bool = True) -> None:
        """Process a lane's report.

        Parameters
        ----------
        is_new
            Whether it was written after reading began: only then it counts among the totals.
        """
        with self._lock:
            before = len(self._reports.rows)
            news = self._reports.take_lane(progress)
            self.changes += len(self._reports.rows) != before
            if is_new:
                self._totals.add(news)
                self._codes.update(news.codes)
        self.listener(progress.report)

    def totals(self) -> Totals:
        """Return what was copied since reading began, as it is now."""
        with self._lock:
            return self._totals.copy()

    def codes(self) -> dict[str, int]:
        """Return how often partitions got into trouble since reading began, by the code of it."""
        with self._lock:
            return dict(self._codes)

    def topic_latencies(self, now_ms: int) -> dict[TopicName, Percentiles]:
        """Return the latencies of topics of which records were copied within a minute."""
        with self._lock:
            return dict(self._reports.topic_latency.percentiles(now_ms))

    def know_stops(self, stops: Stops) -> None:
        """Set the stops in the link's state, shown where no lane of its driver has reported."""
        with self._lock:
            self._stops = stops

    def know_restarts(self, memory: RestartMemory | None) -> None:
        """Set what is remembered of the link's restarts, shown while no driver reports it."""
        with self._lock:
            self._restarts = memory

    def know_remembered(self, remembered: Remembered) -> None:
        """Set what is known of the link while no driver reports it."""
        self.know_restarts(remembered.restarts)
        with self._lock:
            self.changes += remembered.wishes != self._remembered.wishes
            self._remembered = remembered

    def know_denial(self, *, can_deny: bool) -> None:
        """Set whether rules can keep the link out of its mirrors, while no driver answers."""
        with self._lock:
            self._can_deny = can_deny

    def forget(self) -> None:
        """Forget all reports, but not the stops in the link's state."""
        with self._lock:
            self._reports = Reports()

    def is_complete(self) -> bool:
        """Return whether all running lanes, and all their partitions, have reported."""
        with self._lock:
            return self._reports.is_complete()

    def status(self, now_ms: int, ends: Ends = NO_ENDS) -> LinkStatus:
        """Return the status of the link at `now_ms`; `ends`: where logs end, if they were read."""
        with self._lock:
            status = Snapshot(self._reports, self._stops, now_ms, ends).status(self._link)
            show_restarts(status, self._restarts)
            show_wishes(status, self._remembered)
            status.failover_fence = fence_forecast(
                status.state, status.driver, can_deny=self._can_deny
            )
            status.unfenced = status.unfenced or self._remembered.unfenced
            return status

    def partitions(self, now_ms: int, ends: Ends = NO_ENDS) -> list[PartitionStatus]:
        """Return all partitions at `now_ms`, by topic and number."""
        with self._lock:
            return Snapshot(self._reports, self._stops, now_ms, ends).partitions()

    @property
    def driver(self) -> Mapping[str, Any]:
        """The driver's last report; empty: there is none."""
        with self._lock:
            return self._reports.driver

    @property
    def driver_at_ms(self) -> int | None:
        """When the driver last reported, by its clock; None: it has not, or it has stopped."""
        driver = self.driver
        return int(driver["at_ms"]) if driver.get("state") == "running" else None

    def topics(self) -> set[TopicName]:
        """Return the source topics of all partitions that were reported."""
        with self._lock:
            return {partition.topic for partition in self._reports.rows}

    def to_read(self, now_ms: int) -> list[PartitionReport]:
        """Return the last reports of partitions whose lag they don't tell."""
        with self._lock:
            return Snapshot(self._reports, self._stops, now_ms).outdated()

    def reports(self) -> list[PartitionReport]:
        """Return the last report of each partition."""
        with self._lock:
            return [row.report for row in self._reports.rows.values()]

    def reports_since(self, generations: Mapping[TopicPartition, int]) -> list[PartitionReport]:
        """Return reports of these generations or later; older ones may miss later decisions."""
        with self._lock:
            return [
                row.report
                for source, row in self._reports.rows.items()
                if source in generations and row.reported_in >= generations[source]
            ]

    def load(self) -> dict[TopicPartition, float]:
        """Return the load by source partition, for packing lanes, in bytes a second.

        It counts the recent copying rate, and the backlog as if copied within `BACKLOG_S`.
        """
        with self._lock:
            loads: dict[TopicPartition, float] = {}
            for partition, row in self._reports.rows.items():
                item = row.report
                record_bytes = item.bytes / item.records if item.records else RECORD_BYTES_GUESS
                loads[partition] = missing_records(item) * record_bytes / BACKLOG_S
            for lane in self._reports.lanes.values():
                for partition, (_, sent) in lane.sums().items():
                    if partition in loads:
                        loads[partition] += sent / max(1.0, lane.seconds)
            return loads

    def rates(self, specs: Sequence[PartitionSpec]) -> tuple[tuple[int, float], ...]:
        """Return records a second, as last reported, by index in `specs`."""
        with self._lock:
            newest_ms = max((lane.newest.at_ms for lane in self._reports.lanes.values()), default=0)
            rates: list[tuple[int, float]] = []
            for place, spec in enumerate(specs):
                row = self._reports.rows.get(spec.source)
                if row is None or row.rate < RATE_MIN:
                    continue
                rate = row.rate_now(newest_ms)
                if rate >= RATE_MIN:
                    rates.append((place, round(rate, 2)))
            return tuple(rates)

    def problems(self) -> list[PartitionProblem]:
        """Return partitions that are not copied as they should be."""
        with self._lock:
            return problems_of(standing(self._reports, self._stops))

    def alarms(self, now_ms: int) -> Alarms | None:
        """Return silent lanes, long-open transactions and the like; None: the link does not run."""
        with self._lock:
            return Snapshot(self._reports, self._stops, now_ms).alarms()

    def no_progress(self, now_ms: int) -> dict[str, Any]:
        """Return which partitions lag and move nothing, for the driver's report."""
        with self._lock:
            return report_of(Snapshot(self._reports, self._stops, now_ms).standstills())

    def held(self) -> dict[TopicPartition, int]:
        """Return how many records open transactions hold back, by source partition."""
        with self._lock:
            return {
                partition: row.report.open_records
                for partition, row in self._reports.rows.items()
                if row.report.open_records
            }

    def source_ends(self) -> dict[TopicPartition, Offset]:
        """Return the high watermarks of source partitions, as last reported."""
        with self._lock:
            return {
                partition: Offset(row.report.high_watermark)
                for partition, row in self._reports.rows.items()
                if row.report.high_watermark >= 0
            }

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next source offset to copy of each partition, as last reported."""
        with self._lock:
            return {place: row.report.position for place, row in self._reports.rows.items()}

    def landed(self) -> dict[TopicPartition, Landed]:
        """Return how far each source partition is copied, as last reported."""
        with self._lock:
            return {
                partition: Landed(row.report.position, row.report.target_end)
                for partition, row in self._reports.rows.items()
            }


def unreachable(link: LinkName, now_ms: int, error: HeliostatError) -> LinkStatus:
    """Return the status of a link whose target does not answer."""
    status = StatusBoard(link).status(now_ms)
    as_unreachable(status, error)
    return status


def as_unreachable(status: LinkStatus, error: HeliostatError) -> None:
    """Change a status to that of a link whose target does not answer: nothing is known now."""
    status.state, status.troubles = "unreachable", [str(error)]
    status.lag_records = status.lag_s = None
    status.would_be_lost, status.rereads = LOSS_NOT_KNOWN, None
    status.records_per_s = status.bytes_per_s = 0.0
    for topic in status.topics:
        topic.lag_records = topic.lag_s = None
        topic.would_be_lost = LOSS_NOT_KNOWN
        topic.records_per_s = topic.bytes_per_s = 0.0


def blame_source(status: LinkStatus, error: HeliostatError) -> None:
    """Name a source that does not answer as the reason why a running link is not in sync.

    It decides nothing: lanes may reach a source that we don't.
    """
    is_told = any(error.text in trouble for trouble in status.troubles)
    if status.state == "running" and not is_told and not status.is_in_sync():
        status.troubles.insert(0, str(error))
