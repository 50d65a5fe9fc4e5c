"""The schema ids that lanes wait for, by their reports. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

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


class SureIds:
    """Ids that lanes wait for which know where a topic's records have ids for sure.

    Only these may be taken for foreign (`SchemaIds`): a lane that does not know yet that all values
    of a topic are framed would let a foreign id pass there, before its schema is registered.

    Parameters
    ----------
    told
        Returns from which plan on each lane knows what is wanted of all its partitions; lanes that
        do not yet are missing.
    """

    def __init__(self, told: Callable[[], Mapping[LaneId, int]]) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._is_planned = False
        """Whether what is wanted of partitions has it."""
        self._known: set[int] = set()

    def planned(self) -> None:
        """Take it that plans have it from now on."""
        with self._lock:
            self._is_planned = True

    def changed(self) -> None:
        """Take it that no lane knows it any more."""
        with self._lock:
            self._is_planned = False
            self._known.clear()

    def take(self, report: RoundReport) -> bool:
        """Take what a lane's partitions wait for; return whether there is a new id."""
        with self._lock:
            new = set(report.schema_ids) - self._known
            if not new or not self._is_planned:
                return False
            since = self._told().get(report.lane)
            if since is None or report.plan < since:
                return False
            self._known |= new
            return True

    def known(self) -> frozenset[int]:
        """Return them."""
        with self._lock:
            return frozenset(self._known)
