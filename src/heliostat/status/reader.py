"""Reads what a link's lanes and its driver write to the target, and updates a status with it."""

from __future__ import annotations

from contextlib import closing

from heliostat.access import Reachable
from heliostat.clock import Clock
from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.clusters.recent_records import Recent, RecentRecords
from heliostat.names import LinkName
from heliostat.records.transport.progress_reports import (
    REFRESH_S,
    LaneProgress,
    decode_progress,
)
from heliostat.state_topics import DRIVER_KEY, progress_topic
from heliostat.status.board import LANE_PREFIX, StatusBoard
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S

LOOK_BACK_S = (REFRESH_S + 10.0, 600.0)
"""How far before the newest record a reader begins: within the first of these every partition was
reported, except those of lanes whose rounds fail."""
NEXT_REPORT_S = 2.0
"""A driver reports each second; one that does not within this is silent."""
FRESH_MS = 2_000
"""A driver that has reported within this is alive."""
READ_S = 0.25


def last_reported(link: LinkName, target: Reachable) -> StatusBoard | None:
    """Return what a link's driver and lanes last reported; None if it has no progress topic.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer.
    """
    with closing(RecentRecords(target, progress_topic(link))) as progress:
        if not progress.exists():
            return None
        reader = StatusReader(link, progress)
        reader.begin()
        return reader.board


def last_heard(link: LinkName, target: Reachable, clock: Clock) -> tuple[StatusBoard, int] | None:
    """Return what `last_reported` does, and when to see it: see `StatusReader.seen_at_ms`."""
    with closing(RecentRecords(target, progress_topic(link))) as progress:
        if not progress.exists():
            return None
        reader = StatusReader(link, progress)
        reader.begin()
        return reader.board, reader.seen_at_ms(clock)


class StatusReader:
    """Follows a link's progress topic.

    Parameters
    ----------
    link
        Name of the link.
    progress
        Its progress topic; the caller closes it.
    board
        Status to update; a new one by default.
    """

    def __init__(
        self, link: LinkName, progress: RecentRecords, board: StatusBoard | None = None
    ) -> None:
        self.board = board or StatusBoard(link)
        self._progress = progress

    def begin(self) -> None:
        """Read the latest reports; further back if a lane or partition is missing.

        Times count back from the newest record: a link that stopped long ago is shown as it was
        then.
        """
        newest = self._progress.newest()
        if newest is None:
            return
        newest_ms, end = newest
        for back_s in LOOK_BACK_S:
            self.board.forget()
            self._progress.seek(newest_ms - int(back_s * 1000))
            for record in self._progress.read_to(end):
                self._take(record, is_new=False)
            if self.board.is_complete():
                break

    def seen_at_ms(self, clock: Clock) -> int:
        """Return the wall clock time at which the link is seen, after its driver's next report.

        Other machines have other clocks: a driver that seems late, or ahead, is alive if it reports
        now, and silent if it does not, whatever the clocks say.
        """
        first_ms = self.board.driver_at_ms
        until_s = clock.monotonic_s() + NEXT_REPORT_S
        while first_ms is not None and not 0 <= clock.wall_ms() - first_ms <= FRESH_MS:
            if clock.monotonic_s() >= until_s:
                silent_ms = first_ms + int(DRIVER_SILENT_AFTER_S * 1000) + 1
                return max(clock.wall_ms(), silent_ms)
            self.read(READ_S)
            at_ms = self.board.driver_at_ms
            if at_ms is None or at_ms > first_ms:
                return clock.wall_ms() if at_ms is None else at_ms
        return clock.wall_ms()

    def read(self, timeout_s: float) -> int:
        """Process new records, waiting up to `timeout_s`; return their number."""
        records = self._progress.poll(timeout_s)
        for record in records:
            self._take(record, is_new=True)
        return len(records)

    def _take(self, record: Recent, *, is_new: bool) -> None:
        """Update the status with a record; one that is no report is ignored, and told."""
        progress: LaneProgress | None = None
        try:
            if record.key == DRIVER_KEY:
                _check_driver(record)
            elif record.key.startswith(LANE_PREFIX):
                progress = decode_progress(record.value)
            else:
                raise KeyError(record.key)  # one way for all that is odd
        except NOT_A_ROW as error:
            self._progress.ignore(record, error)
            return
        if progress is None:
            self.board.consume(record.key, record.value)
        else:
            self.board.take_lane(progress, is_new=is_new)


def _check_driver(record: Recent) -> None:
    """Raise unless a status can be made of a driver's report: the board would keep a bad one."""
    board, now_ms = StatusBoard(LinkName("")), record.timestamp_ms
    board.consume(record.key, record.value)
    looks = (board.status, board.alarms, board.to_read)
    for look in looks:
        look(now_ms)
    _ = board.is_complete(), board.driver_at_ms
