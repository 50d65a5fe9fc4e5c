"""Deletes rows of offset maps whose records are gone: else maps would grow as long as mirrors do.

Nobody needs offsets below a mirror's log start. A log start may go back for a moment, when a
follower that has deleted less becomes the leader: so the start of the previous check counts too.
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clusters.admin import EARLIEST, ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import Offset
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.store import OffsetMaps

EVERY_S = 600.0
"""Seconds between checks; brokers look for old segments every 300 s
(`log.retention.check.interval.ms`)."""
ROWS_MIN = 8
"""Rows of one map: fewer are not worth a record that allows their deletion."""


class MapPruning:
    """Deletes rows that nobody needs; used only by the driver's reconciliation.

    Parameters
    ----------
    maps
        The maps of the link.
    target
        Target cluster connection, which is asked for log starts.
    monotonic_s
        Returns the time of a monotonic clock, in seconds.
    """

    def __init__(
        self, maps: OffsetMaps, target: ClusterAdmin, monotonic_s: Callable[[], float]
    ) -> None:
        self._maps = maps
        self._target = target
        self._monotonic_s = monotonic_s
        self._looks_at_s = monotonic_s() + EVERY_S
        self._starts: dict[MirrorId, Offset] = {}

    def look(self) -> int:
        """Delete rows of records that were gone at this check and the one before; return how many.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer. The next check deletes what is left.
        """
        if self._monotonic_s() < self._looks_at_s:
            return 0
        self._looks_at_s = self._monotonic_s() + EVERY_S
        names = self._maps.names()
        asked = dict.fromkeys((mirror for mirror, _ in names), EARLIEST)
        answers = self._target.list_offsets(asked) if asked else {}
        before, self._starts = self._starts, {}
        for name in names:
            answer = answers.get(name[0])
            if answer is not None and not isinstance(answer, BrokerError):
                self._starts[name] = Offset(answer.offset)
        both = {
            name: min(start, before[name]) for name, start in self._starts.items() if name in before
        }
        gone = self._maps.prunable(both, ROWS_MIN)
        for each in gone:
            self._maps.prune(each)
        return sum(len(each.rows) for each in gone)
