"""Writes a lane's reports to the link's progress topic."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from heliostat.clusters.wire import produce
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.ops.process_use import ProcessUse, use_of
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.encode import encode_batch
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.transport.progress_reports import Thinning, encode_progress
from heliostat.records.transport.state_connection import ANSWER_S, ONLY, StateConnection

STEP_PAUSE_S = 0.0003
"""Between two steps of encoding: long enough for the copier's thread to get the GIL."""
USE_EVERY_S = 5.0


class ReportWriter:
    """Holds reports until they are written.

    One thread hands them over, another one writes them.

    Parameters
    ----------
    lane
        Lane of the reports.
    connection
        Connection to the progress topic.
    wall_ms
        Wall clock (ms).
    """

    def __init__(
        self, lane: LaneSpec, connection: StateConnection, wall_ms: Callable[[], int]
    ) -> None:
        self._lane = lane
        self._progress = connection
        self._wall_ms = wall_ms
        self._thinning = Thinning()
        self._lock = threading.Lock()
        self._reports: list[RoundReport] = []
        self._unwritten: list[bytes] = []
        self._encoded = 0
        self._use_again_s = 0.0
        self.written = 0
        """Number of the newest report that is durable."""

    def close(self) -> None:
        """Close the connection."""
        self._progress.close()

    def hand_over(self, report: RoundReport) -> None:
        """Queue a report; it is merged with queued ones, and its figures replace theirs."""
        with self._lock:
            self._reports.append(report)

    @property
    def has_any(self) -> bool:
        """Whether there is something to write."""
        return bool(self._reports or self._unwritten)

    @property
    def retry_at_s(self) -> float:
        """Earliest time of the next attempt (monotonic seconds)."""
        return self._progress.retry_at_s

    def write(self) -> None:
        """Write the queued reports; those that can't be written are kept for another attempt."""
        if self._progress.monotonic_s() < self._progress.retry_at_s:
            return
        try:
            while self._unwritten or self._encode():
                self._write(self._unwritten[0])
                self._unwritten.pop(0)
                if not self._unwritten:
                    self.written = self._encoded
                self._progress.worked()
        except (ConnectionLost, BrokerError) as error:
            self._progress.failed(error, self._lane.settings.report_interval_s)

    def _encode(self) -> bool:
        """Encode the queued reports as one; return whether there were any."""
        with self._lock:
            reports, self._reports = self._reports, []
        if not reports:
            return False
        report = reports[-1]
        whole = max((at for at, each in enumerate(reports) if each.is_whole), default=None)
        is_whole = whole is not None
        rows = [row for each in reports[whole or 0 :] for row in each.partitions]
        self._encoded = report.number
        report.lost = [lost for each in reports for lost in each.lost]
        report.topic_latency = [item for each in reports for item in each.topic_latency]
        report.process = self._process_use(report)
        pause = _no_pause if report.ended_by else _pause
        chosen = self._thinning.choose(
            rows,
            self._progress.monotonic_s(),
            whole=is_whole,
            pause=pause,
            is_last=bool(report.ended_by),
        )
        self._unwritten = list(
            encode_progress(
                report,
                chosen,
                self._wall_ms(),
                is_whole=is_whole,
                pause=pause,
            )
        )
        return True

    def _process_use(self, report: RoundReport) -> ProcessUse | None:
        """Return what this process has used, now and then: it costs a look at each open file."""
        now_s = self._progress.monotonic_s()
        if now_s < self._use_again_s:
            return None
        self._use_again_s = now_s + USE_EVERY_S
        return use_of(os.getpid(), report.moved)

    def _write(self, value: bytes) -> None:
        conn = self._progress
        connection, leaders, leader = conn.open()
        key = f"lane/{self._lane.lane}".encode()
        batch = encode_batch([(key, value, self._wall_ms())], codec=Codec.GZIP)
        version = conn.target.produce_version(leader.broker)
        item = produce.ProducePartition(conn.topic, leaders.topic_id, ONLY, [batch], len(batch))
        conn.send(
            produce.API_KEY,
            version,
            produce.encode_produce(version, [item], timeout_ms=int(ANSWER_S * 1000)),
        )
        answers, _ = produce.decode_produce(version, connection.receive(ANSWER_S).buffer, 4)
        if answers[0].error:
            raise BrokerError("a report can't be written", kafka_code=answers[0].error)


def _pause() -> None:
    time.sleep(STEP_PAUSE_S)


def _no_pause() -> None:
    """Do nothing: a round that has ended has no copying to give way to."""
