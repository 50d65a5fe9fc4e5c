"""How many lanes a link has: as configured, or as many as Spark has cores, also as they change."""

from __future__ import annotations

from collections.abc import Callable

FEWER_AFTER_S = 60.0
"""Cores must be missing for so long: an executor that died is mostly back within seconds, until
then others run its lanes, and spreading partitions anew ends rounds."""


class LaneCount:
    """Lanes at most, asked at each turn.

    Parameters
    ----------
    configured
        A number of lanes, or `auto` = one a core.
    cores
        Cores that Spark has for us now.
    links
        How many links share them.
    monotonic_s
        The clock.
    """

    def __init__(
        self,
        configured: int | str,
        cores: Callable[[], int],
        links: int,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._configured = configured
        self._cores = cores
        self._links = links
        self._monotonic_s = monotonic_s
        self._count = 0
        self._fewer_since_s: float | None = None

    def __call__(self) -> int:
        """Lanes at most, at least 1: more as soon as there are cores, fewer after a while."""
        if isinstance(self._configured, int):
            return self._configured
        now_s = self._monotonic_s()
        count = max(1, self._cores() // self._links)
        if count >= self._count:
            self._fewer_since_s = None
        elif self._fewer_since_s is None:
            self._fewer_since_s = now_s
        if count >= self._count or now_s >= (self._fewer_since_s or now_s) + FEWER_AFTER_S:
            self._count = count
            self._fewer_since_s = None
        return self._count
