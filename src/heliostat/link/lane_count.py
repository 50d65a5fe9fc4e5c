"""How many lanes a link has: as configured, or as many as there are cores and work for them.

On one machine two lanes send twice the requests of one and take processor time from both brokers:
at 5,000 records/s in 8 partitions one lane has a p50 of 1.6 instead of 2.3 ms, a p99 of 9.7 instead
of 14.4 ms and three quarters of the processor time (`bench/compare latency`, 2026-11-21, 2 cores).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FEWER_AFTER_S = 60.0
"""How long cores must be missing, or idle: a dead executor is mostly back within seconds, others
run its lanes until then, and a new lane is a process that has to start."""
GUESS_LASTS_S = 10.0
"""The same for the lanes that a link begins with, as many as it could need: its load is not known
yet, and each idle one costs requests."""
LANE_BYTES_PER_S = 4e6
"""Load of one lane before there is a second; it could copy fifty times as much (`bulk`)."""
LANE_PARTITIONS = 1_000
"""Partitions of one lane before there is a second; each lane may use three tenths of a core of each
broker to watch quiet ones (`fetch_plan`)."""


@dataclass(slots=True)
class _Known:
    """The last answer for some partitions."""

    is_guess: bool
    count: int = 0
    fewer_since_s: float | None = None


class LaneCount:
    """The most lanes there may be, asked at each reconciliation.

    Partitions without a pipeline are asked for first; those of each pipeline whose steps are done
    in place have lanes of their own, as many as they need and Spark has room for.

    Parameters
    ----------
    configured
        A number of lanes, or `auto` = one a core.
    cores
        Cores that Spark offers now.
    slots
        How many lanes Spark can run at once now, beside one of each pipeline: a lane more would
        wait for ever.
    links
        Returns how many links share them.
    monotonic_s
        The clock.
    by_load
        Whether `auto` leaves cores unused that the load does not need.
    """

    def __init__(
        self,
        configured: int | str,
        cores: Callable[[], int],
        slots: Callable[[], int],
        links: Callable[[], int],
        monotonic_s: Callable[[], float],
        *,
        by_load: bool = False,
    ) -> None:
        self._configured = configured
        self._cores = cores
        self._slots = slots
        self._links = links
        self._monotonic_s = monotonic_s
        self._by_load = by_load
        self._known: dict[str, _Known] = {}

    def __call__(
        self, partitions: int = 0, bytes_per_s: float | None = None, pipeline: str = ""
    ) -> int:
        """Return the most lanes, at least 1; it rises at once and falls after a while.

        Parameters
        ----------
        partitions
            Number of partitions to copy.
        bytes_per_s
            Load, including the backlog; None before anything is known.
        pipeline
            Their pipeline; empty: none.
        """
        known = self._known.setdefault(pipeline, _Known(self._by_load))
        now_s = self._monotonic_s()
        count = min(self._wanted(partitions, bytes_per_s), self._room(pipeline))
        if count >= known.count:
            known.fewer_since_s = None
        elif known.fewer_since_s is None:
            known.fewer_since_s = now_s
        after_s = GUESS_LASTS_S if known.is_guess else FEWER_AFTER_S
        if count >= known.count or now_s >= (known.fewer_since_s or now_s) + after_s:
            known.is_guess &= count >= known.count
            known.count = count
            known.fewer_since_s = None
        return known.count

    def _wanted(self, partitions: int, bytes_per_s: float | None) -> int:
        if isinstance(self._configured, int):
            return self._configured
        count = max(1, self._cores() // self._links())
        if self._by_load and bytes_per_s is not None:
            needed = max(bytes_per_s / LANE_BYTES_PER_S, partitions / LANE_PARTITIONS, 1.0)
            count = min(count, math.ceil(needed))
        return count

    def _room(self, pipeline: str) -> int:
        """Return how many lanes there is room for beside the others' last counts."""
        taken = sum(
            known.count - bool(name)  # a slot of each pipeline is not in `slots`
            for name, known in self._known.items()
            if name != pipeline
        )
        return max(1, self._slots() // self._links() - taken + bool(pipeline))
