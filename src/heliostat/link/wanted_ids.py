"""The schema ids that lanes wait for, by their reports. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from heliostat.names import LaneId
from heliostat.ops.loop_spec import Wake
from heliostat.ops.request_times import RequestCounts
from heliostat.records.copier.lane import RoundReport

WANTED_MAX = 100_000
"""More are noise that looks like ids: of these only what is waited for now is kept."""


class WantedIds:
    """Collects ids from reports; what is new wakes the loop that looks for it.

    Parameters
    ----------
    monotonic_s
        The monotonic clock.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self.wake = Wake()
        self._monotonic_s = monotonic_s
        self._since_s: dict[LaneId, dict[int, float]] = {}
        self._waits = RequestCounts()
        self._is_asked = False
        self._lock = threading.Lock()
        self._ever: set[int] = set()
        self._waiting: dict[LaneId, tuple[int, ...]] = {}

    def take(self, report: RoundReport) -> None:
        """Take what a lane's partitions wait for now."""
        with self._lock:
            waiting = () if report.ended_by else report.schema_ids
            self._count(report.lane, waiting)
            self._waiting[report.lane] = waiting
            new = set(report.schema_ids) - self._ever
            if len(self._ever) + len(new) > WANTED_MAX:
                self._ever = set().union(*self._waiting.values())
            self._ever |= new
        if new:
            self.ask()

    def _count(self, lane: LaneId, schema_ids: tuple[int, ...]) -> None:
        """Count the waits that have ended; in a lane's next round a wait begins anew."""
        now_s, since_s = self._monotonic_s(), self._since_s.get(lane, {})
        for schema_id in since_s.keys() - set(schema_ids):
            self._waits.took(now_s - since_s[schema_id])
        self._since_s[lane] = {each: since_s.get(each, now_s) for each in schema_ids}

    def waits(self) -> list[int]:
        """Return how long lanes have waited for ids, as `RequestCounts.numbers`."""
        with self._lock:
            return self._waits.numbers()

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
