"""Connections and metadata of one cluster that several threads use one after the other.

What one has opened and learnt serves the next: over a long line a connection costs one to four
round trips, and each client that begins anew three more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from heliostat.access import ClusterAccess, Reachable, access_of
from heliostat.clusters.wire.brokers import BrokerFacts
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.names import BrokerId, ProducerId, TopicName, TopicPartition

REQUEST_TIMEOUT_S = 30.0


@dataclass(slots=True)
class WrittenTopic:
    """What a topic's idempotent producer must know: its id, and the next record's sequence."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    producer_id: ProducerId | None = None
    sequence: int = 0

    def forget(self) -> None:
        """Begin with another id: what the broker has of the last one is not known."""
        self.producer_id, self.sequence = None, 0


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
        self._facts = BrokerFacts()
        self._written: dict[TopicName, WrittenTopic] = {}
        self.leaders: dict[TopicPartition, BrokerId] = {}
        """Of partitions of own topics, as last seen."""
        self.producer_id: ProducerId | None = None
        """Of all topics that this process writes; None: the next write asks for another."""
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether a connection was open when the last one was given back."""
        return bool(self._facts.connected)

    @contextmanager
    def lent(self) -> Iterator[WireCluster]:
        """Yield one that no other thread has; the one used last is the first to be used again."""
        with self._lock:
            cluster = self._idle.pop() if self._idle else None
        cluster = cluster or WireCluster(self.access, self._settings, self._facts)
        try:
            yield cluster
        finally:
            facts = cluster.brokers.facts()
            with self._lock:
                self._facts = facts
                is_kept = not self._is_closed
                if is_kept:
                    self._idle.append(cluster)
            if not is_kept:
                cluster.close()

    @contextmanager
    def written(self, topic: TopicName) -> Iterator[WrittenTopic]:
        """Yield what the one that writes a topic must know; after a failure it begins anew."""
        with self._lock:
            session = self._written.setdefault(topic, WrittenTopic())
        with session.lock:
            try:
                yield session
            except BaseException:
                session.forget()
                self.producer_id = None
                raise

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
