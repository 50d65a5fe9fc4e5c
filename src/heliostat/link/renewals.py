"""Which lanes are to begin anew though nothing failed: as ordered, or where they find more room."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from heliostat.clock import Clock
from heliostat.names import LaneId

PLACE_EVERY_S = 5.0
"""How often lanes are compared with Spark's executors: one moves at a time."""


class Renewals:
    """The lanes of one link that are to begin anew. `order` from any thread.

    Parameters
    ----------
    misplaced
        Returns a lane that would have more of a core elsewhere, after executors came or went.
    clock
        Time.
    """

    def __init__(self, misplaced: Callable[[], LaneId | None], clock: Clock) -> None:
        self._misplaced = misplaced
        self._clock = clock
        self._at_s = clock.monotonic_s() + PLACE_EVERY_S
        self._all = False

    def order(self) -> None:
        """Let all lanes begin anew at the next look."""
        self._all = True

    def due(self, lanes: Iterable[LaneId]) -> list[LaneId]:
        """Return those of the lanes that are to begin anew now."""
        if self._all:
            self._all = False
            return list(lanes)
        now_s = self._clock.monotonic_s()
        if now_s < self._at_s:
            return []
        self._at_s = now_s + PLACE_EVERY_S
        lane = self._misplaced()
        return [] if lane is None else [lane]
