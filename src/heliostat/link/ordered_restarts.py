"""What is begun anew, or brought up to date, in a running link because somebody ordered it.

Of a link all lanes begin new rounds, what is stopped is tried again, and topics are reconciled now.
Of a topic or partition what is stopped is tried again; others notice nothing of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from heliostat.names import LaneId, TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.wishes.wish import Place

RECONCILED = "topics were looked at, and brought up to date as far as the target lets it"
Pending = Callable[[], str | None]
"""Returns what an order came to, once it is done."""


class RunningLanes(Protocol):
    """The lanes of a link: `LaneSet`, or a fake in tests."""

    @property
    def generations(self) -> Mapping[LaneId, int]:
        """The generation of each lane's round; 0: it has none now."""
        ...

    def is_settled(self) -> bool:
        """Return whether all rounds have what was assigned last."""
        ...


class OrderedRestarts:
    """Orders that concern what copies. `order` and what it returns from any thread.

    Parameters
    ----------
    lanes
        The link's lanes.
    renew
        Lets all of them begin anew soon.
    reports
        Returns the last report of each partition.
    try_again
        Has a lane take a stopped partition anew with the next plan; in a reconciliation only.
    refresh, wake
        Ask for a reconciliation now, and for a look at the lanes.
    """

    def __init__(
        self,
        lanes: RunningLanes,
        renew: Callable[[], None],
        reports: Callable[[], Iterable[PartitionReport]],
        try_again: Callable[[TopicPartition], None],
        *,
        refresh: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._lanes = lanes
        self._renew = renew
        self._reports = reports
        self._try_again = try_again
        self._refresh = refresh
        self._wake = wake
        self._lock = threading.Lock()
        self._stopped: set[TopicPartition] = set()
        self._asked = self._begun = self._ended = 0
        """Numbers of orders: all, those a reconciliation has begun with, and has ended with."""

    def reconcile(self) -> Pending:
        """Have topics reconciled once from their beginning; lanes notice only what changes."""
        with self._lock:
            self._asked += 1
            number = self._asked
        self._refresh()

        def outcome() -> str | None:
            with self._lock:
                return RECONCILED if self._ended >= number else None

        return outcome

    def order(self, place: Place) -> Pending:
        """Begin anew what an order is about."""
        stopped = {
            report.source
            for report in self._reports()
            if report.state.is_stopped and place.holds(report.source)
        }
        rounds = self._lanes.generations if place.topic is None else {}
        with self._lock:
            self._stopped |= stopped
            self._asked += 1
            number = self._asked
        if place.topic is None:
            self._renew()
            self._wake()
        self._refresh()

        def outcome() -> str | None:
            with self._lock:
                is_planned = self._ended >= number
            if not is_planned or not self._lanes.is_settled() or not self._are_new(rounds):
                return None
            return _outcome(place, len(rounds), len(stopped))

        return outcome

    def _are_new(self, rounds: Mapping[LaneId, int]) -> bool:
        """Whether other rounds run instead of these, in lanes that there still are."""
        now = self._lanes.generations
        return all(
            now[lane] not in {0, generation}
            for lane, generation in rounds.items()
            if generation and lane in now
        )

    def turn_begins(self) -> None:
        """Take what was ordered into the reconciliation that begins."""
        with self._lock:
            stopped, self._stopped = self._stopped, set()
            self._begun = self._asked
        for source in sorted(stopped):
            self._try_again(source)

    def turn_ends(self) -> None:
        """Note that it has ended well: one that failed is followed by another."""
        with self._lock:
            self._ended = self._begun


def _outcome(place: Place, lanes: int, stopped: int) -> str:
    again = f"{stopped} stopped partition{' is' if stopped == 1 else 's are'} tried again"
    if place.topic is not None:
        return again if stopped else "nothing of it was stopped"
    began = f"{lanes} lane{'' if lanes == 1 else 's'} began anew"
    return f"{began}, {again}" if stopped else began
