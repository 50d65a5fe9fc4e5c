"""Asks all brokers of a cluster now and then whether they answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.wire.answering import answering
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import HeliostatError
from heliostat.names import BrokerId
from heliostat.ops.events import Events

EVERY_S = 5.0
ANSWER_S = 3.0
SETTINGS = DialSettings("heliostat-watch", connect_timeout_s=ANSWER_S, request_timeout_s=ANSWER_S)


@dataclass(frozen=True, slots=True)
class Reach:
    """Who of a cluster answered lately."""

    brokers: Mapping[BrokerId, bool] = field(default_factory=dict)
    """Brokers that were ever named, and whether they answer."""
    answered_s_ago: float | None = None
    """Since when all brokers have not answered, or 0; None: they never did."""
    lost: HeliostatError | None = None
    """Why no broker answers, or it refuses us; None: it can be asked."""


class ClusterWatch:
    """Watches one cluster on a thread of its own.

    Parameters
    ----------
    access
        Access to the cluster.
    clock
        The clock.
    events
        Told when no broker answers, and when one does again.
    """

    def __init__(self, access: ClusterAccess, clock: Clock, events: Events) -> None:
        self._access = access
        self._events = events
        self._clock = clock
        self._stopping = threading.Event()
        self._brokers: dict[BrokerId, bool] = {}
        self._answered_at_s: float | None = None
        self._lost: HeliostatError | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {access.alias}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being asked may still run for a moment."""
        self._stopping.set()

    def reach(self) -> Reach:
        """Return who answered lately."""
        at_s = self._answered_at_s
        ago_s = None if at_s is None else max(0.0, self._clock.monotonic_s() - at_s)
        return Reach(dict(self._brokers), ago_s, self._lost)

    def _run(self) -> None:
        with closing(WireCluster(self._access, SETTINGS)) as cluster:
            while True:  # ends when asked to stop
                self._ask(cluster)
                if self._stopping.wait(EVERY_S):
                    return

    def _ask(self, cluster: WireCluster) -> None:
        """Ask once; before an outage is told once more, unless all brokers were waited for."""
        began_s = self._clock.monotonic_s()
        lost = _why_lost(cluster)
        if lost is not None and self._lost is None:
            if self._clock.monotonic_s() - began_s < ANSWER_S:
                lost = _why_lost(cluster)
            if lost is not None:
                self._events.warn(f"{self._access.alias} does not answer: {lost}")
        elif lost is None and self._lost is not None:
            self._events.info(f"{self._access.alias} answers again")
        self._lost = lost
        self._brokers |= answering(cluster)
        if lost is None and all(self._brokers.values()):
            self._answered_at_s = began_s


def _why_lost(cluster: WireCluster) -> HeliostatError | None:
    try:
        cluster.metadata([])
    except HeliostatError as error:
        return error
    return None
