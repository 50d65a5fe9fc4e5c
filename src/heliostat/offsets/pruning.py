"""Deletes rows of offset maps whose records are gone: else maps would grow as long as mirrors do.

Nobody needs offsets below a mirror's log start. A log start may go back for a moment, when a
follower that has deleted less becomes the leader: so the start of the previous check counts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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


StartsOf = Callable[[Iterable[MirrorId]], Mapping[MirrorId, Offset]]
"""Tells where maps begin to matter; of those of which that is not known, nothing."""


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
    starts_of
        Tells where maps begin to matter that are not by target offsets; None: these are.
    """

    def __init__(
        self,
        maps: OffsetMaps,
        target: ClusterAdmin,
        monotonic_s: Callable[[], float],
        starts_of: StartsOf | None = None,
    ) -> None:
        self._maps = maps
        self._target = target
        self._starts_of = starts_of or self._log_starts
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
        before, self._starts = self._starts, {}
        if names:
            self._starts = dict(self._starts_of(names))
        both = {
            name: min(start, before[name]) for name, start in self._starts.items() if name in before
        }
        gone = self._maps.prunable(both, ROWS_MIN)
        for prunable in gone:
            self._maps.prune(prunable)
        return sum(len(prunable.rows) for prunable in gone)

    def _log_starts(self, names: Iterable[MirrorId]) -> dict[MirrorId, Offset]:
        asked = {name: name[0] for name in names}
        answers = self._target.list_offsets(dict.fromkeys(asked.values(), EARLIEST))
        return {
            name: Offset(answer.offset)
            for name, mirror in asked.items()
            if (answer := answers.get(mirror)) is not None and not isinstance(answer, BrokerError)
        }
