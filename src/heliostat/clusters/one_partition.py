"""A topic of one partition of our own: read over lent connections, written by kafka-python.

A producer that failed is dropped, and the next write opens another, see `opened`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from heliostat.access import Reachable
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.log_reader import LogReader
from heliostat.clusters.opened import close_in_background, opened
from heliostat.clusters.refusals import translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.errors import ConnectionLost
from heliostat.names import TopicName

CLOSE_S = 0.5  # acknowledged writes are durable; nothing else is worth waiting for
REQUEST_TIMEOUT_MS = 5_000
"""One request: a leader that hangs never answers, and its successor, elected within 10 s, is found
only by new metadata. With kafka-python's 30 s each call took as long."""


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
    WRITER_SETTINGS: ClassVar[Mapping[str, Any]] = {}
    """Settings of kafka-python's producer, beyond those of all topics."""

    def __init__(self, cluster: Reachable, topic: str, client_id: str) -> None:
        self.topic = TopicName(topic)
        self._clusters, self._are_ours = lent_clusters(cluster, client_id)
        self._access = self._clusters.access
        self._client_id = client_id
        self._producer: Any = None
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
        if self._producer is not None:
            self._producer.close(timeout=CLOSE_S)
        self._producer = self._log = None
        if self._are_ours:
            self._clusters.close_idle()

    def _reader(self) -> LogReader | None:
        """The reader, initially at the topic's beginning; None while the topic is missing."""
        if self._log is None:
            log = LogReader(self._clusters, self.topic, committed=self.COMMITTED)
            if not log.exists():
                return None
            self._log = log
        return self._log

    def _writer(self) -> Any:
        if self._producer is None:
            self._producer = opened(
                KafkaProducer,
                **client_settings(with_seeds_that_answer(self._access)),
                client_id=self._client_id,
                acks="all",
                allow_auto_create_topics=False,
                **{"request_timeout_ms": REQUEST_TIMEOUT_MS, **self.WRITER_SETTINGS},
            )
        return self._producer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second reader: it would move the place of the first, which then misses rows."""
        is_alone = self._reading.acquire(blocking=False)
        assert is_alone, f"two threads read topic {self.topic} through one reader"
        try:
            yield
        finally:
            self._reading.release()

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        used = self._producer
        try:
            yield
        except ConnectionLost:
            self._leave(used)
            raise
        except (KafkaError, OSError, RuntimeError) as error:
            self._leave(used)
            raise translated(error, self._access, f"cannot write topic {self.topic}") from error

    def _leave(self, used: Any) -> None:
        """Open another producer at the next write; what this one has not sent is dropped.

        Another thread may have dropped the `used` one already, and opened another.
        """
        producer = self._producer
        if producer is not None and (used is None or used is producer):
            self._producer = None
            close_in_background(lambda: producer.close(timeout=0))
