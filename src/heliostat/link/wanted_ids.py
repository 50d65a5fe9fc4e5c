"""The schema ids that lanes wait for, by their reports. Thread-safe."""

from __future__ import annotations

import threading

from heliostat.names import LaneId
from heliostat.records.copier.lane import RoundReport

WANTED_MAX = 100_000
"""More are noise that looks like ids: of these only what is waited for now is kept."""


class WantedIds:
    """Collects ids from reports; what is new wakes the loop that looks for it."""

    def __init__(self) -> None:
        self.wake = threading.Event()
        self._is_asked = False
        self._lock = threading.Lock()
        self._ever: set[int] = set()
        self._waiting: dict[LaneId, tuple[int, ...]] = {}

    def take(self, report: RoundReport) -> None:
        """Take what a lane's partitions wait for now."""
        with self._lock:
            self._waiting[report.lane] = () if report.ended_by else report.schema_ids
            new = set(report.schema_ids) - self._ever
            if len(self._ever) + len(new) > WANTED_MAX:
                self._ever = set().union(*self._waiting.values())
            self._ever |= new
        if new:
            self.ask()

    def ask(self) -> None:
        """Wake the loop to look."""
        self._is_asked = True
        self.wake.set()

    def asks(self) -> bool:
        """Return whether anybody has asked since the last call, or waits now."""
        was_asked, self._is_asked = self._is_asked, False
        return was_asked or bool(self.now())

    def ever(self) -> frozenset[int]:
        """Return the ids that partitions have waited for, as far as they are remembered."""
        with self._lock:
            return frozenset(self._ever)

    def now(self) -> list[int]:
        """Return the ids that partitions wait for by the last reports, ascending."""
        with self._lock:
            return sorted({each for ids in self._waiting.values() for each in ids})
