"""Follows what a link's lanes and its driver write to the target, and feeds a status from it."""

from __future__ import annotations

from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clusters.recent_records import RecentRecords
from heliostat.names import LinkName
from heliostat.records.transport.progress_reports import REFRESH_S
from heliostat.state.link_state import progress_topic
from heliostat.status.board import StatusBoard

LOOK_BACK_S = (REFRESH_S + 10.0, 600.0)
"""How far before the newest record a reader begins: every partition was named within the first, but
of lanes whose rounds fail."""


def last_reported(link: LinkName, target: ClusterAccess) -> StatusBoard | None:
    """What a link's driver and lanes reported last; None where it has no progress topic.

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
        Whose status.
    progress
        Its progress topic; closed by whoever opened it.
    board
        What to feed; a new one by default.
    """

    def __init__(
        self, link: LinkName, progress: RecentRecords, board: StatusBoard | None = None
    ) -> None:
        self.board = board or StatusBoard(link)
        self._progress = progress

    def begin(self) -> None:
        """Read the last reports there are; further back while a lane or partition is missing.

        What counts is when the newest record was written: a link that was stopped long ago is
        read as it was then.
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
        """Take what has come; how many records that was."""
        records = self._progress.poll(timeout_s)
        for record in records:
            self.board.consume(record.key, record.value)
        return len(records)
