"""A lane's line to the link's state topics on the target: it reports, and it hears of newer plans.

All of it happens on a thread of its own, over connections of its own: the copying never waits for
it. A fetch of the control topic waits at the broker, so that a new plan is heard within
milliseconds; the socket and a wake-up are waited for together.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from collections.abc import Callable

from heliostat.clusters.kafka_codes import EARLIEST
from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection, Frame
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.invariants import is_from_current_owner
from heliostat.names import TopicName, TopicPartition
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.encode import decode_batches, encode_batch
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.transport.progress_reports import Thinning, encode_progress
from heliostat.records.transport.state_connection import ONLY, StateConnection

CONTROL_KEY = "lanes"
CONTROL_FETCH_BYTES = 1024 * 1024
CONTROL_WAIT_MS = 500
"""How long the broker holds a fetch of the control topic when nothing is announced."""
ANSWER_S = 8.0
"""Longest wait for one answer; well within `SILENT_S_MAX`, so that a failure is known by then."""
CLOSE_S = 5.0
"""How long the end of a round waits until its last report is written."""
STEP_PAUSE_S = 0.0003
"""Between two steps of encoding: long enough that the copier's thread gets the interpreter."""


class StateChannel:
    """Reports of one lane to the progress topic, newer generations from the control topic.

    Its methods are called from the copier's thread and return at once, but for `close`.

    Parameters
    ----------
    lane
        Names the topics and how often to report.
    target
        The target cluster (a `WireCluster` of its own: it must not share the copier's).
    monotonic_s, wall_ms
        The clocks.
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
        self._wall_ms = wall_ms
        self._next_report_s = 0.0
        self._heard = _Heard()
        self._control = StateConnection(lane.control_topic, target, monotonic_s)
        self._progress = StateConnection(lane.progress_topic, target, monotonic_s)
        self._thread = _ChannelThread(
            lane, self._control, self._progress, self._heard, wall_ms=wall_ms
        )
        self._thread.start()

    def is_superseded(self) -> bool:
        """Whether this round must end now: a newer generation, or a stop, was announced.

        An announcement may name a later time, up to which the round goes on (`switch_at_ms`).

        Raises
        ------
        ConnectionLost, BrokerError
            The control topic could not be read for `SILENT_S_MAX`.
        """
        self._thread.raise_if_broken()
        self._control.raise_if_silent()
        answered = self._heard
        if not answered.is_superseded:
            return False
        return answered.switch_at_ms is None or self._wall_ms() >= answered.switch_at_ms

    @property
    def switch_at_ms(self) -> int | None:
        """When this round, superseded, must end (wall ms); None: it is not, or must at once."""
        return self._heard.switch_at_ms if self._heard.is_superseded else None

    def running(self) -> frozenset[str] | None:
        """Ids of the rounds that run, by the latest announcement; None before the first."""
        return self._heard.running

    def publish(self, report: RoundReport) -> None:
        """Hand over a report; the next one is due a second later.

        Its partitions are those that may have changed since the report before: all of them in the
        round's first. A report that was not written yet is superseded by the next one.

        Raises
        ------
        ConnectionLost, BrokerError
            The progress topic could not be written for `SILENT_S_MAX`.
        """
        self._next_report_s = self._monotonic_s() + self._lane.settings.report_interval_s
        self._thread.hand_over(report)
        if not report.ended_by:
            self._thread.raise_if_broken()
            self._progress.raise_if_silent()

    def due(self) -> bool:
        """Whether a report is wanted now: making one costs something."""
        return self._monotonic_s() >= self._next_report_s

    def close(self) -> None:
        """Write what was handed over, within `CLOSE_S`, and close the connections."""
        self._thread.end(CLOSE_S)


class _Heard:
    """What the control topic last said; written by the channel's thread, read by the copier's."""

    __slots__ = ("is_superseded", "running", "switch_at_ms")

    def __init__(self) -> None:
        self.is_superseded = False
        self.switch_at_ms: int | None = None
        self.running: frozenset[str] | None = None

    def take(self, control: dict[str, object], lane: LaneSpec) -> None:
        """Take one announcement; the newest one counts.

        `{"lanes": {lane: generation}, "switch_at_ms": wall ms, "running": [round, ...]}`: a lane
        that is not named, or is named with another generation, has ended.
        """
        lanes, switch_at_ms = control.get("lanes"), control.get("switch_at_ms")
        running = control.get("running")
        current = lanes.get(str(lane.lane)) if isinstance(lanes, dict) else None
        self.running = frozenset(map(str, running if isinstance(running, list) else ()))
        # In this order: whoever sees that the round is superseded must see until when as well.
        self.switch_at_ms = switch_at_ms if isinstance(switch_at_ms, int) else None
        self.is_superseded = current != lane.generation


class _ChannelThread:
    """The thread: waits for announcements, writes reports."""

    def __init__(
        self,
        lane: LaneSpec,
        control: StateConnection,
        progress: StateConnection,
        answered: _Heard,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._lane = lane
        self._now_s = control.monotonic_s
        self._control = control
        self._progress = progress
        self._heard = answered
        self._wall_ms = wall_ms
        self._thinning = Thinning()
        self._unwritten: list[bytes] = []
        self._offset = -1
        self._announced: dict[str, object] | None = None
        self._asked_at_s = -1.0  # when the fetch that is in flight was sent; negative: none is
        self._reports: list[RoundReport] = []
        self._lock = threading.Lock()
        self._is_first = True
        self._ending = False
        self._broken: Exception | None = None
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        name = f"lane-{lane.lane} state"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hand_over(self, report: RoundReport) -> None:
        """Give it a report to write."""
        with self._lock:
            self._reports.append(report)
        self._nudge()

    def raise_if_broken(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._broken is not None:
            raise self._broken

    def end(self, timeout_s: float) -> None:
        """Write what is left and end, within `timeout_s`."""
        self._ending = True
        self._nudge()
        self._thread.join(timeout_s)

    def _nudge(self) -> None:
        with self._lock:  # its descriptor is another file's once it is closed
            if self._wake >= 0:
                with contextlib.suppress(BlockingIOError):  # full: it is awake anyway
                    os.write(self._wake, b"\0")

    def _run(self) -> None:
        deadline_s: float | None = None
        try:
            while True:  # ends: `end` is called when the round ends
                ending = self._ending
                self._tell()
                if ending:
                    deadline_s = deadline_s or self._now_s() + CLOSE_S
                    if not (self._reports or self._unwritten) or self._now_s() > deadline_s:
                        return
                else:
                    self._listen()
                self._wait(ending=ending)
        except Exception as error:  # noqa: BLE001  # told to the copier, which ends the round by it
            self._broken = error
        finally:
            self._control.close()
            self._progress.close()
            self._control.target.close()
            with self._lock:
                os.close(self._wake)
                self._wake = -1
            os.close(self._woken)

    def _wait(self, *, ending: bool) -> None:
        """Until something is to be done: a report, an announcement, another try."""
        now_s = self._now_s()
        times_s = [now_s + ANSWER_S]
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        connection = self._control.connection
        if self._asked_at_s >= 0 and connection is not None and not ending:
            if connection.has_held():
                return
            poller.register(connection.fileno(), select.POLLIN)
            times_s.append(self._asked_at_s + CONTROL_WAIT_MS / 1000 + ANSWER_S)
        elif not ending:
            times_s.append(self._control.retry_at_s)
        if self._reports or self._unwritten:
            times_s.append(self._progress.retry_at_s)
        ready = poller.poll(max(0.0, min(times_s) - now_s) * 1000)
        if any(descriptor == self._woken for descriptor, _ in ready):
            os.read(self._woken, 4096)

    # -- reports -------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Write reports; what could not be written is kept and tried again."""
        if self._now_s() < self._progress.retry_at_s:
            return
        try:
            while self._unwritten or self._encode():
                self._write(self._unwritten[0])
                self._unwritten.pop(0)
                self._progress.worked()
        except (ConnectionLost, BrokerError) as error:
            self._progress.failed(error, self._lane.settings.report_interval_s)

    def _encode(self) -> bool:
        """Encode what was handed over last; whether there was anything."""
        with self._lock:
            reports, self._reports = self._reports, []
        if not reports:
            return False
        report = reports[-1]
        rows = [row for each in reports for row in each.partitions]
        is_whole = self._is_first or report.ended_by == "plan"
        self._is_first = False
        pause = _no_pause if report.ended_by else _pause
        chosen = self._thinning.choose(
            rows, self._now_s(), whole=is_whole, pause=pause, is_last=bool(report.ended_by)
        )
        self._unwritten = list(
            encode_progress(
                report,
                chosen,
                self._wall_ms(),
                lane_partitions=len(self._lane.partitions),
                is_whole=is_whole,
                pause=pause,
            )
        )
        return True

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
            raise BrokerError("progress can't be written", kafka_code=answers[0].error)

    # -- announcements -------------------------------------------------------------------------

    def _listen(self) -> None:
        """Take the answer that has come, and ask again."""
        now_s = self._now_s()
        if now_s < self._control.retry_at_s:
            return
        try:
            if self._asked_at_s < 0:
                self._ask()
            connection, _, leader = self._control.open()
            while (frame := _frame_that_came(connection)) is not None:
                self._take(frame.buffer, self._control.target.fetch_version(leader.broker))
                self._ask()
        except (ConnectionLost, BrokerError) as error:
            self._not_heard(error)
        else:
            if now_s > self._asked_at_s + CONTROL_WAIT_MS / 1000 + ANSWER_S:
                self._not_heard(ConnectionLost("a fetch of the control topic is not answered"))

    def _not_heard(self, error: ConnectionLost | BrokerError) -> None:
        self._asked_at_s = -1.0
        self._offset = -1  # of a topic that was made anew it would be out of range
        self._control.failed(error, self._lane.settings.control_interval_s)

    def _ask(self) -> None:
        conn = self._control
        _, leaders, leader = conn.open()
        if self._offset < 0:
            partition = TopicPartition(TopicName(conn.topic), ONLY)
            found = conn.target.list_offsets(leader.broker, [partition], timestamp=EARLIEST)
            start = found[partition]
            if isinstance(start, BrokerError):
                raise start
            self._offset = start
        version = conn.target.fetch_version(leader.broker)
        want = fetch.FetchPartition(
            conn.topic, leaders.topic_id, ONLY, self._offset, CONTROL_FETCH_BYTES
        )
        body = fetch.encode_fetch(
            version,
            [want],
            max_wait_ms=CONTROL_WAIT_MS,
            min_bytes=1,
            max_bytes=CONTROL_FETCH_BYTES,
            read_committed=True,
        )
        conn.send(fetch.API_KEY, version, [body])
        self._asked_at_s = self._now_s()

    def _take(self, buffer: memoryview, version: int) -> None:
        for got in fetch.decode_fetch(version, buffer, 4).partitions:
            if got.error:
                raise BrokerError("the control topic can't be read", kafka_code=got.error)
            for offset, _, key, value in decode_batches(buffer[got.start : got.end]):
                self._offset = max(self._offset, offset + 1)
                if key == CONTROL_KEY.encode() and value is not None:
                    control = json.loads(value)
                    if _is_for_us(control, self._lane):
                        self._announced = control
            # Old announcements, read on the way to the newest, must end no round.
            if self._announced is not None and self._offset >= got.high_watermark:
                self._heard.take(self._announced, self._lane)
                self._announced = None
        self._control.worked()


def _is_for_us(control: dict[str, object], lane: LaneSpec) -> bool:
    """`"claim"` says which owner announces: one that was taken over is not listened to (I10)."""
    claim = control.get("claim")
    return not isinstance(claim, int) or is_from_current_owner(claim, lane.generation)


def _frame_that_came(connection: Connection) -> Frame | None:
    """A whole frame, if one is there: asked for only where reading does not wait."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return connection.pump() if connection.has_held() or poller.poll(0) else None


def _pause() -> None:
    time.sleep(STEP_PAUSE_S)


def _no_pause() -> None:
    """A round that has ended has no copying to be kind to."""
