"""A topic of one partition, reached by kafka-python: opened when first needed, errors translated.

A client that failed is dropped, and the next call opens another, see `opened`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from heliostat.access import Reachable, access_of
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.opened import answered, close_in_background, opened
from heliostat.clusters.refusals import translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.errors import ConnectionLost
from heliostat.names import TopicName

CLOSE_S = 0.5  # acknowledged writes are durable; nothing else is worth waiting for
WRITE, READ = "write", "read"
REQUEST_TIMEOUT_MS = 5_000
"""One request: a leader that hangs never answers, and its successor, elected within 10 s, is found
only by new metadata. With kafka-python's 30 s each call took as long."""
METADATA_S = 10.0
"""How long to wait for a client to say whether a topic exists."""
CLIENTS_TRIED = 3
LOOKS = 2
"""A broker that has just started, or has lost touch, may not know a topic that exists."""
PATIENCE_MS = 10_000
"""One question to the current leader: longer than an election takes. After a change of leaders a
client may retry without success until this limit, although the cluster is healthy."""


class OnePartitionTopic:
    """Base of such topics; subclasses define how to read and write.

    Any thread may write. Reading has a place, which one call must not move under another: see each
    subclass. Every method raises `ConnectionLost` if the brokers do not answer in time, and
    `BrokerError` if they refuse.
    """

    READER_SETTINGS: ClassVar[Mapping[str, Any]] = {}
    WRITER_SETTINGS: ClassVar[Mapping[str, Any]] = {}
    """Settings of kafka-python's clients, beyond those of all topics."""

    def __init__(self, cluster: Reachable, topic: str, client_id: str) -> None:
        self.topic = TopicName(topic)
        self._access = access_of(cluster)
        self._client_id = client_id
        self._producer: Any = None
        self._consumer: Any = None
        self._partition = KafkaPartition(topic, 0)
        self._reading = threading.Lock()
        """Held by the one thread that reads."""
        self._goes_on_at: int | None = None
        """Offset after the last record returned; None before the first."""

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
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = self._goes_on_at = None

    def _reader(self) -> Any:
        """The consumer, initially at the topic's beginning; None while the topic is missing."""
        if self._consumer is None:
            consumer = self._open_reader()
            if consumer is None:
                return None
            try:
                consumer.assign([self._partition])
                if self._goes_on_at is None:
                    consumer.seek_to_beginning(self._partition)
                else:
                    consumer.seek(self._partition, self._goes_on_at)
            except BaseException:
                close_in_background(consumer.close)  # nobody holds it yet
                raise
            self._consumer = consumer
        return self._consumer

    def _open_reader(self) -> Any | None:
        """Return a consumer; None if two of them, one after the other, know no such topic."""
        timeouts = unknown = 0
        while unknown < LOOKS:
            consumer = opened(
                KafkaConsumer,
                **client_settings(with_seeds_that_answer(self._access)),
                client_id=self._client_id,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="earliest",
                **{"request_timeout_ms": REQUEST_TIMEOUT_MS, **self.READER_SETTINGS},
            )
            ask = partial(consumer.partitions_for_topic, self.topic)
            try:
                if answered(ask, METADATA_S):
                    return consumer
            except BaseException as error:
                close_in_background(consumer.close)  # nobody holds it yet
                timeouts += 1
                if timeouts == CLIENTS_TRIED or not isinstance(error, KafkaTimeoutError):
                    raise
            else:
                consumer.close()
                unknown += 1
        return None

    def look_again(self) -> None:
        """Read with another client from now on.

        One whose broker hangs may stay with it for half a minute or longer, although there is a
        new leader (kafka-python 3.0.12).
        """
        self._leave(READ)

    def _start(self, consumer: Any) -> int:
        """First offset of the topic."""
        partition = self._partition
        return int(consumer.beginning_offsets([partition], timeout_ms=PATIENCE_MS)[partition])

    def _end(self, consumer: Any, patience_ms: int = PATIENCE_MS) -> int:
        """End of the topic now, for this reader's isolation level."""
        partition = self._partition
        return int(consumer.end_offsets([partition], timeout_ms=patience_ms)[partition])

    def _at(self, consumer: Any) -> int:
        """Offset of the next record that this reader returns.

        Without a limit of time a reader that has to look it up waits as long as no broker answers
        (kafka-python 3.0.12).
        """
        found = consumer.position(self._partition, timeout_ms=PATIENCE_MS)
        if found is None:
            raise KafkaTimeoutError(f"a reader does not know where it is in {self.topic}")
        return int(found)

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
    def _errors(self, what: str) -> Iterator[None]:
        if what == WRITE:
            with self._translated(what):
                yield
            return
        # A second reader would move the place of the first, which would then miss records.
        is_alone = self._reading.acquire(blocking=False)
        assert is_alone, f"two threads read topic {self.topic} through one reader"
        try:
            with self._translated(what):
                yield
        finally:
            self._reading.release()

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        used = self._producer if what == WRITE else self._consumer
        try:
            yield
        except ConnectionLost:
            self._leave(what, used)
            raise
        except (KafkaError, OSError, RuntimeError) as error:
            self._leave(what, used)
            text = f"cannot {what} topic {self.topic}"
            raise translated(error, self._access, text) from error

    def _leave(self, what: str, used: Any = None) -> None:
        """Open another client at the next call; what this one has not sent is dropped.

        Another thread may have dropped the `used` one already, and opened another.
        """
        if what == WRITE:
            producer = self._producer
            if producer is not None and (used is None or used is producer):
                self._producer = None
                close_in_background(lambda: producer.close(timeout=0))
        else:
            consumer = self._consumer
            if consumer is not None and (used is None or used is consumer):
                self._consumer = None
                close_in_background(consumer.close)

    def _given(self, offset: int) -> None:
        """Note that a record was returned to the reader."""
        self._goes_on_at = offset + 1
