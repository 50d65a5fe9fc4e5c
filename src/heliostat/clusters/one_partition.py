"""A topic of one partition of our own, read and written over lent connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ClassVar, Self

from heliostat.access import Reachable
from heliostat.clusters.log_reader import LogReader
from heliostat.clusters.log_writer import LogWriter
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.names import TopicName


class OnePartitionTopic:
    """Base of such topics; subclasses define how to read and write.

    Any thread may write. Reading has a place, which one call must not move under another: see each
    subclass. Every method raises `ConnectionLost` if the brokers do not answer in time, and
    `BrokerError` if they refuse.

    Parameters
    ----------
    cluster
        Access to the cluster; connections are lent by it if it is a `LentClusters`.
    """

    COMMITTED: ClassVar[bool] = False
    """Whether records of open and aborted transactions are left out."""
    CHECKED: ClassVar[bool] = True
    """Whether checksums of batches are checked, see `LogReader`."""
    WRITE_S: ClassVar[float] = 60.0
    """How long a write may take: a broker that restarts is back in less."""
    REQUEST_S: ClassVar[float] = 5.0
    """How long one request of it may take, see `LogWriter`."""

    def __init__(self, cluster: Reachable, topic: str, client_id: str) -> None:
        self.topic = TopicName(topic)
        self._clusters, self._are_ours = lent_clusters(cluster, client_id)
        self._access = self._clusters.access
        self._client_id = client_id
        self._log: LogReader | None = None
        self._reading = threading.Lock()
        """Held by the one thread that reads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections; writes are durable. A later read begins at the topic's start again."""
        self._log = None
        if self._are_ours:
            self._clusters.close_idle()

    def _reader(self) -> LogReader | None:
        """The reader, initially at the topic's beginning; None while the topic is missing."""
        if self._log is None:
            log = LogReader(
                self._clusters, self.topic, committed=self.COMMITTED, checked=self.CHECKED
            )
            if not log.exists():
                return None
            self._log = log
        return self._log

    def _writer(self) -> LogWriter:
        return LogWriter(
            *(self._clusters, self.topic), within_s=self.WRITE_S, request_s=self.REQUEST_S
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second reader: it would move the place of the first, which then misses rows."""
        is_alone = self._reading.acquire(blocking=False)
        assert is_alone, f"two threads read topic {self.topic} through one reader"
        try:
            yield
        finally:
            self._reading.release()
