"""A topic of one partition, reached by kafka-python: opened when first needed, errors made ours.

A client that failed is left, and the next call opens another, see `opened`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from heliostat.access import Reachable, access_of
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.opened import close_in_background, opened
from heliostat.clusters.refusals import translated
from heliostat.errors import ConnectionLost
from heliostat.names import TopicName

CLOSE_S = 0.5  # what was written is durable; nothing else is worth waiting for
WRITE, READ = "write", "read"


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
            consumer = opened(
                KafkaConsumer,
                **client_settings(self._access),
                client_id=self._client_id,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="earliest",
                **self.READER_SETTINGS,
            )
            if not consumer.partitions_for_topic(self.topic):
                consumer.close()
                return None
            consumer.assign([self._partition])
            if self._goes_on_at is None:
                consumer.seek_to_beginning(self._partition)
            else:
                consumer.seek(self._partition, self._goes_on_at)
            self._consumer = consumer
        return self._consumer

    def _writer(self) -> Any:
        if self._producer is None:
            self._producer = opened(
                KafkaProducer,
                **client_settings(self._access),
                client_id=self._client_id,
                acks="all",
                allow_auto_create_topics=False,
                **self.WRITER_SETTINGS,
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
