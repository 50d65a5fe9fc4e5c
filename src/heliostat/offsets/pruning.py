"""Rows of offset maps go when no log holds what they tell of: maps grow as long as mirrors do.

Nobody asks what stood below a mirror's log start. A log start may go back for a moment, where a
follower that has deleted less becomes the leader: so what counts is the start of a while ago.
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clusters.admin import EARLIEST, ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import Offset
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.store import OffsetMaps

EVERY_S = 600.0
"""Brokers look for old segments every 5 minutes (`log.retention.check.interval.ms`)."""
ROWS_MIN = 8
"""Of one map: fewer are not worth a record that says which may go."""


class MapPruning:
    """Used by the driver's turn only.

    Parameters
    ----------
    maps
        Whose rows are pruned.
    target
        Tells where the logs of mirrors start.
    monotonic_s
        The clock.
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
        """Delete rows that tell only of what was gone from the target at the last look; how many.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer. What was not deleted is the next time.
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
