"""Reads what a link's lanes and its driver write to the target, and updates a status with it."""

from __future__ import annotations

from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clusters.recent_records import RecentRecords
from heliostat.names import LinkName
from heliostat.records.transport.progress_reports import REFRESH_S
from heliostat.state.link_state import progress_topic
from heliostat.status.board import StatusBoard

LOOK_BACK_S = (REFRESH_S + 10.0, 600.0)
"""How far before the newest record a reader begins: within the first of these every partition was
reported, except those of lanes whose rounds fail."""


def last_reported(link: LinkName, target: ClusterAccess) -> StatusBoard | None:
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
        newest_ms = self._progress.newest_ms()
        if newest_ms is None:
            return
        for back_s in LOOK_BACK_S:
            self.board.forget()
            self._progress.seek(newest_ms - int(back_s * 1000))
            for record in self._progress.read_to_end():
                self.board.consume(record.key, record.value)
            if self.board.is_complete():
                break

    def read(self, timeout_s: float) -> int:
        """Process new records, waiting up to `timeout_s`; return their number."""
        records = self._progress.poll(timeout_s)
        for record in records:
            self.board.consume(record.key, record.value)
        return len(records)
