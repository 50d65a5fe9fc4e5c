"""How much to ask of a source broker for partitions far behind, so that a long line is never idle.

One fetch is on a connection at a time, so a line of 150 ms carries what a fetch asks for, each
150 ms. So a fetch asks for twice as much where the line was idle for most of the time that the last
answer took, and partitions get several connections. Brokers nearby see no difference
(docs/adr/0034).
"""

from __future__ import annotations

from math import inf

from heliostat.records.copier.lane import CopySettings

FAR_S = 0.02
"""A broker whose fastest answer takes so long is far: those of a megabyte take 2 to 8 ms nearby."""
ANSWERS_MIN = 3
"""So many answers tell: a single slow one may be due to a busy machine."""
IDLE_SHARE = 0.25
"""A line is full enough if the round trip is a smaller part of the time that answers take."""
CONNECTIONS_FAR = 4
QUEUED_SHARE = 0.5
"""All partitions far behind together ask for so much of a lane's memory at most: what is received
waits there until it has been appended."""


class LineFit:
    """Observes the answers of one source broker to a lane's fetches for partitions far behind.

    Parameters
    ----------
    settings
        The settings of the lane, which are upper limits.
    """

    def __init__(self, settings: CopySettings) -> None:
        self._settings = settings
        self._answers = 0
        self.round_trip_s = inf
        """The shortest time of an answer: a little more than the line's round trip."""

    def answered(self, took_s: float) -> None:
        """Take the time (s) from a fetch to the end of its answer, which had records."""
        self._answers += 1
        self.round_trip_s = min(self.round_trip_s, took_s)

    @property
    def is_far(self) -> bool:
        """Whether the broker is so far that its line would be idle most of the time."""
        return self._answers >= ANSWERS_MIN and self.round_trip_s >= FAR_S

    @property
    def connections(self) -> int:
        """Connections to the broker for partitions far behind."""
        return self._settings.backlog_connections or (CONNECTIONS_FAR if self.is_far else 1)

    def wanted_bytes(self, asked: int, took_s: float, behind: int) -> int:
        """Return what the next fetch of a partition asks for, after a full answer.

        Parameters
        ----------
        asked
            Bytes that the answered fetch asked for.
        took_s
            Time from that fetch to the end of its answer (s).
        behind
            Partitions of the broker that are far behind.
        """
        if not self.is_far or self.round_trip_s < took_s * IDLE_SHARE:
            return asked
        share = int(self._settings.lane_queued_bytes_max * QUEUED_SHARE) // max(1, behind)
        return max(asked, min(2 * asked, share, self._settings.partition_fetch_bytes_max))
