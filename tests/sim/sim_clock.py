"""The clock of the simulation."""

from __future__ import annotations


class SimClock:
    """A clock that advances only when the copier waits."""

    def __init__(self, wall_ms: int) -> None:
        self.now_s = 1000.0
        self._wall_ms = wall_ms

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return self._wall_ms + int((self.now_s - 1000.0) * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
