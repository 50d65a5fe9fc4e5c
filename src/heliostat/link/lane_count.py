"""How many lanes a link has: as configured, or as many as there are cores and work for them.

On one machine two lanes make twice the requests of one and keep both brokers from working: at
5,000 records/s in 8 partitions one lane has a p50 of 1.6 instead of 2.3 ms, a p99 of 9.7 instead
of 14.4 ms and three quarters of the processor time (`bench/compare latency`, 2026-11-21, 2 cores).
"""

from __future__ import annotations

import math
from collections.abc import Callable

FEWER_AFTER_S = 60.0
"""Cores must be missing, or idle, for so long: an executor that died is mostly back within seconds,
until then others run its lanes, and spreading partitions anew ends rounds."""
LANE_BYTES_PER_S = 4e6
"""What a lane is given before there is a second one; it could do fifty times as much (`bulk`)."""
LANE_PARTITIONS = 1_000
"""Each lane may use a quarter of a core of each broker to look at sparse ones (`fetch_plan`)."""


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
    by_load
        Whether `auto` leaves cores alone that the load does not need.
    """

    def __init__(
        self,
        configured: int | str,
        cores: Callable[[], int],
        links: int,
        monotonic_s: Callable[[], float],
        *,
        by_load: bool = False,
    ) -> None:
        self._configured = configured
        self._cores = cores
        self._links = links
        self._monotonic_s = monotonic_s
        self._by_load = by_load
        self._count = 0
        self._fewer_since_s: float | None = None

    def __call__(self, partitions: int = 0, bytes_per_s: float | None = None) -> int:
        """Lanes at most, at least 1: more at once, fewer after a while.

        Parameters
        ----------
        partitions
            To be copied.
        bytes_per_s
            What is copied, and what lags; None before anything is known.
        """
        if isinstance(self._configured, int):
            return self._configured
        now_s = self._monotonic_s()
        count = max(1, self._cores() // self._links)
        if self._by_load and bytes_per_s is not None:
            needed = max(bytes_per_s / LANE_BYTES_PER_S, partitions / LANE_PARTITIONS, 1.0)
            count = min(count, math.ceil(needed))
        if count >= self._count:
            self._fewer_since_s = None
        elif self._fewer_since_s is None:
            self._fewer_since_s = now_s
        if count >= self._count or now_s >= (self._fewer_since_s or now_s) + FEWER_AFTER_S:
            self._count = count
            self._fewer_since_s = None
        return self._count
