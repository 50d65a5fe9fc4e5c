"""A topic of one partition, reached by kafka-python: opened when first needed, errors made ours.

A client that failed is left, and the next call opens another, see `opened`.
"""

from __future__ import annotations

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

CLOSE_S = 0.5  # what was written is durable; nothing else is worth waiting for
WRITE, READ = "write", "read"
REQUEST_TIMEOUT_MS = 5_000
"""One request: a leader that hangs is asked in vain, and its successor, which there is within 10 s,
only once metadata are looked up anew. With kafka-python's 30 s all that was asked took as long."""
METADATA_S = 10.0
"""Until another client is asked whether a topic is there; three times."""
PATIENCE_MS = 10_000
"""A question to whichever broker leads by then: longer than an election takes. A client that has
met a change of leaders may ask in vain for as long as it is let, of a cluster that is well."""


class OnePartitionTopic:
    """What all such topics have in common; each says how it reads and writes.

    Writing may be done from any thread, reading from one thread only. Every method raises
    `ConnectionLost` when the brokers do not answer in time and `BrokerError` when they refuse.
    """

    READER_SETTINGS: ClassVar[Mapping[str, Any]] = {}
    WRITER_SETTINGS: ClassVar[Mapping[str, Any]] = {}
    """Of kafka-python's clients, beyond those that all topics have."""

    def __init__(self, cluster: Reachable, topic: str, client_id: str) -> None:
        self.topic = TopicName(topic)
        self._access = access_of(cluster)
        self._client_id = client_id
        self._producer: Any = None
        self._consumer: Any = None
        self._partition = KafkaPartition(topic, 0)
        self._goes_on_at: int | None = None
        """Offset behind the last record that was given; None before any was."""

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
        """Close connections; what was written is durable. Reading begins anew behind it."""
        if self._producer is not None:
            self._producer.close(timeout=CLOSE_S)
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = self._goes_on_at = None

    def _reader(self) -> Any:
        """The consumer, at first at the topic's beginning; None while the topic is missing."""
        if self._consumer is None:
            consumer, is_there = self._open_reader()
            try:
                if not is_there:
                    consumer.close()
                    return None
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

    def _open_reader(self) -> tuple[Any, bool]:
        """A consumer, and whether the topic is there."""
        for is_last in (False, False, True):
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
                return consumer, bool(answered(ask, METADATA_S))
            except BaseException as error:
                close_in_background(consumer.close)  # nobody holds it yet
                if is_last or not isinstance(error, KafkaTimeoutError):
                    raise
        raise AssertionError("the last one answers or raises")

    def look_again(self) -> None:
        """Read by another client: one that has met a broker that hangs may stay with it.

        For half a minute and longer, with another leader there (kafka-python 3.0.12).
        """
        self._leave(READ)

    def _start(self, consumer: Any) -> int:
        """Where the topic begins."""
        partition = self._partition
        return int(consumer.beginning_offsets([partition], timeout_ms=PATIENCE_MS)[partition])

    def _end(self, consumer: Any, patience_ms: int = PATIENCE_MS) -> int:
        """Where it ends now, for who reads what is committed."""
        partition = self._partition
        return int(consumer.end_offsets([partition], timeout_ms=patience_ms)[partition])

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
        """Open another client at the next call; what this one still holds is not sent any more.

        Another thread may have left the one that was `used`, and opened another already.
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
        """A record was given to who reads."""
        self._goes_on_at = offset + 1
