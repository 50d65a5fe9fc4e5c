"""Connections and metadata of one cluster that several threads use one after the other.

What one has opened and learnt serves the next: over a long line a connection costs one to four
round trips, and each client that begins anew three more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from heliostat.access import ClusterAccess, Reachable, access_of
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings

REQUEST_TIMEOUT_S = 30.0


class LentClusters:
    """Lends a `WireCluster` to one thread at a time; there are as many as threads at once.

    Parameters
    ----------
    access, settings
        The cluster, and how to open connections.
    """

    def __init__(self, access: ClusterAccess, settings: DialSettings) -> None:
        self.access = access
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[WireCluster] = []
        self._is_closed = False

    @contextmanager
    def lent(self) -> Iterator[WireCluster]:
        """Yield one that no other thread has; the one used last is the first to be used again."""
        with self._lock:
            cluster = self._idle.pop() if self._idle else None
        cluster = cluster or WireCluster(self.access, self._settings)
        try:
            yield cluster
        finally:
            with self._lock:
                is_kept = not self._is_closed
                if is_kept:
                    self._idle.append(cluster)
            if not is_kept:
                cluster.close()

    def close(self) -> None:
        """Close those that are idle now, and the others when they are given back."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close those that are idle now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for cluster in idle:
            cluster.close()


def lent_clusters(
    cluster: Reachable, client_id: str, within_s: float = REQUEST_TIMEOUT_S
) -> tuple[LentClusters, bool]:
    """Return what lends connections to a cluster, and whether that is new: the caller closes it.

    `within_s` limits each request of new ones.
    """
    if isinstance(cluster, LentClusters):
        return cluster, False
    settings = DialSettings(client_id, request_timeout_s=within_s)
    return LentClusters(access_of(cluster), settings), True
