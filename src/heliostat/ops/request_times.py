"""How long requests took, as counts by bounds that metrics show. Thread-safe."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; longer ones count beyond the last."""
NAMES_MAX = 40
"""Most names that are counted apart, more than there are kinds of requests."""


class RequestTimes:
    """Counts requests by their name and time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def took(self, name: str, seconds: float) -> None:
        """Count a request, answered or not."""
        with self._lock:
            if name not in self._counts and len(self._counts) >= NAMES_MAX:
                return
            counts = self._counts.setdefault(name, [0] * (len(BOUNDS_S) + 1))
            counts[bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def rows(self) -> Iterator[tuple[str, float, list[int]]]:
        """Yield each name with the sum of seconds and the counts by bound."""
        with self._lock:
            rows = [(name, self._seconds[name], list(row)) for name, row in self._counts.items()]
        yield from sorted(rows)
