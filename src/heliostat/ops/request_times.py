"""How long requests took, as counts by bounds that metrics show. Thread-safe."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; longer ones count beyond the last."""
SIDE_NUMBERS = len(BOUNDS_S) + 3
"""Numbers of `RequestCounts.numbers`."""
NAMES_MAX = 40
"""Most names that are counted apart, more than there are kinds of requests."""


class RequestCounts:
    """Counts requests of one kind by their time, and how long brokers throttled. One thread."""

    __slots__ = ("_counts", "_seconds", "throttled_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._seconds = 0.0
        self.throttled_ms = 0

    def took(self, seconds: float) -> None:
        """Count an answered request."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._seconds += seconds

    def numbers(self) -> list[int]:
        """Return the counts by bound, the sum of times (ms), and the throttle time (ms)."""
        return [*self._counts, round(self._seconds * 1000), self.throttled_ms]


class RequestTimes:
    """Counts requests by their name and time.

    Parameters
    ----------
    names_max
        Most names that are counted apart; others are not counted.
    """

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def took(self, name: str, seconds: float) -> None:
        """Count a request, answered or not."""
        with self._lock:
            if name not in self._counts and len(self._counts) >= self._names_max:
                return
            counts = self._counts.setdefault(name, [0] * (len(BOUNDS_S) + 1))
            counts[bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def rows(self) -> Iterator[tuple[str, float, list[int]]]:
        """Yield each name with the sum of seconds and the counts by bound."""
        with self._lock:
            rows = [(name, self._seconds[name], list(row)) for name, row in self._counts.items()]
        yield from sorted(rows)
