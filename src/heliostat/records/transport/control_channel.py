"""A lane's channel to the link's state topics on the target: it reports, and receives changes.

It has its own thread and connections: copying never waits for it. A fetch of the control topic
waits at the broker, so that a new plan arrives within milliseconds; the thread waits for the socket
and for a wake-up together.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.leaders import TopicLeaders
from heliostat.names import TopicName
from heliostat.records.copier.lane import LaneSpec, PlanChange, RoundReport, SchemaIds
from heliostat.records.copier.lane_limits import ByteLimits
from heliostat.records.transport.announcements import Announcements, Heard
from heliostat.records.transport.report_writer import ReportWriter
from heliostat.records.transport.state_connection import ANSWER_S, StateConnection

SECOND_AFTER_S = 0.2
FIRST_WITHIN_S = 0.2
"""The first report asks for the lease: it comes at once, and goes before anything is read."""
CLOSE_S = 5.0
"""How long the end of a round waits for its last report to be written."""


class StateChannel:
    """Writes one lane's reports to the progress topic, and reads its control topic.

    The copier's thread calls the methods; all but `close` return at once.

    Parameters
    ----------
    lane
        The lane, with the names of the topics and the report interval.
    target
        Target cluster connection (a `WireCluster` of its own, not the copier's).
    monotonic_s, wall_ms
        Monotonic clock (s) and wall clock (ms).
    """

    def __init__(
        self,
        lane: LaneSpec,
        target: WireCluster,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._lane = lane
        self._monotonic_s = monotonic_s
        self._next_report_s = 0.0
        self._heard = Heard()
        names = (TopicName(lane.control_topic), TopicName(lane.progress_topic))
        together: dict[TopicName, TopicLeaders | None] = dict.fromkeys(names)
        self._control = StateConnection(lane.control_topic, target, monotonic_s, together)
        self._progress = StateConnection(lane.progress_topic, target, monotonic_s, together)
        self._thread = _ChannelThread(
            f"lane-{lane.lane} state",
            Announcements(lane, self._control, self._heard),
            ReportWriter(lane, self._progress, wall_ms),
            target,
            monotonic_s,
        )
        self._thread.start()

    def is_superseded(self) -> bool:
        """Return whether this round must end, as another one, or none, was announced.

        Raises
        ------
        ConnectionLost, BrokerError
            The control topic could not be read for `SILENT_S_MAX`.
        """
        self._thread.raise_if_broken()
        self._control.raise_if_silent()
        return self._heard.is_superseded

    def answered(self) -> int:
        """Return the number of the newest report that the driver has answered."""
        return self._heard.answered

    def changes(self) -> tuple[PlanChange, ...]:
        """Return the announced changes of the round's plan, those taken already included."""
        return self._heard.changes

    def schema_ids(self) -> SchemaIds:
        """Return what the driver has announced of schema ids."""
        return self._heard.schema_ids

    def limits(self) -> ByteLimits | None:
        """Return the announced limits; None before the first announcement."""
        return self._heard.limits

    def running(self) -> frozenset[str] | None:
        """Return ids of rounds that may send, by the latest announcement; None before the first."""
        return self._heard.running

    def publish(self, report: RoundReport) -> None:
        """Hand over a report; the next one is due a second later.

        Its partitions are those that may have changed since the previous report: all of them in the
        round's first. Reports not written yet are merged, with the latest one's figures.

        Raises
        ------
        ConnectionLost, BrokerError
            The progress topic could not be written for `SILENT_S_MAX`.
        """
        # The first one holds no partitions: these follow soon, so that a status knows them.
        interval_s = self._lane.settings.report_interval_s if report.number > 1 else SECOND_AFTER_S
        self._next_report_s = self._monotonic_s() + interval_s
        self._thread.hand_over(report)
        if not report.ended_by:
            self._thread.raise_if_broken()
            self._progress.raise_if_silent()

    def is_written(self, number: int) -> bool:
        """Whether the report of this number, or a later one, is durable.

        Raises
        ------
        ConnectionLost, BrokerError
            As `publish`.
        """
        self._thread.raise_if_broken()
        self._progress.raise_if_silent()
        return self._thread.written >= number

    def due(self) -> bool:
        """Whether a report is due now; building one takes processor time."""
        return self._monotonic_s() >= self._next_report_s

    def close(self) -> None:
        """Write the reports handed over, within `CLOSE_S`, and close the connections."""
        self._thread.end(CLOSE_S)


class _ChannelThread:
    """The thread: waits for announcements, and writes reports."""

    def __init__(
        self,
        name: str,
        announcements: Announcements,
        reports: ReportWriter,
        target: WireCluster,
        now_s: Callable[[], float],
    ) -> None:
        self._announcements = announcements
        self._reports = reports
        self._target = target
        self._now_s = now_s
        self._ending = False
        self._broken: Exception | None = None
        self._first = threading.Event()
        self._lock = threading.Lock()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hand_over(self, report: RoundReport) -> None:
        """Queue a report, and wake the thread."""
        self._reports.hand_over(report)
        self._first.set()
        self._nudge()

    @property
    def written(self) -> int:
        """Number of the newest report that is durable."""
        return self._reports.written

    def raise_if_broken(self) -> None:
        """Raise the error that ended the thread, if there was one."""
        if self._broken is not None:
            raise self._broken

    def end(self, timeout_s: float) -> None:
        """Write the remaining reports and end, within `timeout_s`."""
        self._ending = True
        self._first.set()
        self._nudge()
        self._thread.join(timeout_s)

    def _nudge(self) -> None:
        with self._lock:  # once closed, its descriptor may belong to another file
            if self._wake >= 0:
                with contextlib.suppress(BlockingIOError):  # full: it is awake anyway
                    os.write(self._wake, b"\0")

    def _run(self) -> None:
        deadline_s: float | None = None
        self._first.wait(FIRST_WITHIN_S)
        try:
            while True:  # ends: `end` is called when the round ends
                ending = self._ending
                self._reports.write()
                if ending:
                    deadline_s = deadline_s or self._now_s() + CLOSE_S
                    if not self._reports.has_any or self._now_s() > deadline_s:
                        return
                else:
                    self._announcements.listen()
                self._wait(ending=ending)
        except Exception as error:  # noqa: BLE001  # `raise_if_broken` ends the round with it
            self._broken = error
        finally:
            self._announcements.close()
            self._reports.close()
            self._target.close()
            with self._lock:
                os.close(self._wake)
                self._wake = -1
            os.close(self._woken)

    def _wait(self, *, ending: bool) -> None:
        """Wait for a report, an announcement, or the time of another attempt."""
        now_s = self._now_s()
        times_s = [now_s + ANSWER_S]
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        if not ending:
            until_s = self._announcements.wait_with(poller)
            if until_s is None:
                return
            times_s.append(until_s)
        if self._reports.has_any:
            times_s.append(self._reports.retry_at_s)
        ready = poller.poll(max(0.0, min(times_s) - now_s) * 1000)
        if any(descriptor == self._woken for descriptor, _ in ready):
            os.read(self._woken, 4096)
