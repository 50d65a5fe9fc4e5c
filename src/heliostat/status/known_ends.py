"""Where logs end, for a view that can't wait: read on a thread of its own, and only if needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from heliostat.clock import Clock
from heliostat.errors import HeliostatError
from heliostat.ops.asked import NoAnswerYet, PendingAnswer
from heliostat.records.copier.lane import PartitionReport
from heliostat.status.lag import Ends
from heliostat.status.snapshot import NO_ENDS

LOOK_S = 2.0
"""Between two looks whether some lag is not reported."""
NEEDED_S = 5.0
"""Lags that are not reported for less are not read: lanes that begin find them themselves."""
READ_EVERY_S = 10.0
OLD_S = 25.0
"""Ends that were read before this are no longer shown: a reading takes seconds if brokers hang."""


class KnownEnds:
    """The ends of a link's logs, as they were read lately; not thread-safe.

    Parameters
    ----------
    read
        Reads the ends of both logs of these partitions.
    clock
        The clock.
    """

    def __init__(self, read: Callable[[Sequence[PartitionReport]], Ends], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._pending: PendingAnswer[Ends] | None = None
        self._ends = NO_ENDS
        self._read_at_s = self._asked_at_s = self._looked_at_s = -READ_EVERY_S
        self._needed_since_s: float | None = None

    def newest(self, unreported: Callable[[], Sequence[PartitionReport]]) -> Ends:
        """Return the ends that are known; never waits.

        Parameters
        ----------
        unreported
            Returns partitions whose lag their reports don't tell, see `StatusBoard.to_read`.
        """
        now_s = self._clock.monotonic_s()
        self._take(now_s)
        if now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            self._look(unreported(), now_s)
        return self._ends if now_s - self._read_at_s < OLD_S else NO_ENDS

    def _take(self, now_s: float) -> None:
        if self._pending is None:
            return
        with suppress(NoAnswerYet):
            try:
                self._ends = self._pending.answer(0.0)
            except HeliostatError:
                self._ends = NO_ENDS  # not known, which is what the view shows
            self._pending, self._read_at_s = None, now_s

    def _look(self, needed: Sequence[PartitionReport], now_s: float) -> None:
        if not needed:
            self._needed_since_s = None
            return
        if self._needed_since_s is None:
            self._needed_since_s = now_s
        is_due = now_s - self._asked_at_s >= READ_EVERY_S
        if self._pending is None and is_due and now_s - self._needed_since_s >= NEEDED_S:
            self._asked_at_s = now_s
            self._pending = PendingAnswer(lambda: self._read(needed), "ends for the view")
