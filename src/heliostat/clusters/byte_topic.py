"""A topic of one partition that other programs read too: records as bytes, by their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from heliostat.access import Reachable, access_of
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.refusals import translated
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import TopicName

ANSWER_TIMEOUT_S = 15.0  # a loop that stops must not wait long; a later turn tries again
REQUEST_TIMEOUT_S = 10.0
POLL_S = 0.5
REPLICAS = 3  # capped by what the cluster has
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
_TOPIC_EXISTS = 36


class ByteRecord(NamedTuple):
    """One record; a timestamp of None is the producer's now."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None


class ByteTopic:
    """Writes and reads partition 0 of a topic.

    `write` may be called from any thread, reading from one thread only. Connections are opened
    when first needed. Every method raises `ConnectionLost` when the brokers do not answer in time
    and `BrokerError` when they refuse.
    """

    def __init__(self, cluster: Reachable, topic: TopicName, client_id: str) -> None:
        self.topic = topic
        self._access = access_of(cluster)
        self._client_id = client_id
        self._producer: Any = None
        self._consumer: Any = None
        self._partition = KafkaPartition(topic, 0)

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
        """Close connections; what `write` returned from is durable."""
        if self._producer is not None:
            self._producer.close(timeout=POLL_S)
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None

    def ensure(self, admin: ClusterAdmin, replication_factor: int | None = None) -> bool:
        """Create it where it is missing: one partition, compacted; whether it was created.

        One that is there is taken as it is: it may be another program's.

        Parameters
        ----------
        replication_factor
            None means 3, or as many as there are brokers.
        """
        if admin.describe_topics([self.topic])[self.topic].error is None:
            return False
        replicas = replication_factor or min(REPLICAS, len(admin.brokers()))
        answer = admin.create_topics([NewTopic(self.topic, 1, replicas, COMPACTED)])[self.topic]
        if not isinstance(answer, BrokerError):
            return True
        if answer.kafka_code != _TOPIC_EXISTS:
            raise answer
        return False

    def write(self, records: Iterable[ByteRecord]) -> None:
        """Write records in order; durable on all replicas in sync when it returns."""
        with self._errors("write"):
            producer = self._writer()
            sent = [
                producer.send(
                    self.topic,
                    key=record.key,
                    value=record.value,
                    timestamp_ms=record.timestamp_ms,
                    partition=0,
                )
                for record in records
            ]
            producer.flush(ANSWER_TIMEOUT_S)
            for future in sent:
                future.get(timeout=ANSWER_TIMEOUT_S)

    def read_all(self) -> Iterator[ByteRecord]:
        """All records up to where the topic ended when reading began; none if it is missing."""
        with self._errors("read"):
            consumer = self._reader()
            if consumer is None:
                return
            consumer.seek_to_beginning(self._partition)
            end = consumer.end_offsets([self._partition])[self._partition]
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while True:
            with self._errors("read"):
                position = consumer.position(self._partition)
            if position >= end:
                return
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            yield from self.poll(POLL_S)

    def end(self) -> int:
        """Where the topic ends; 0 if it is missing."""
        with self._errors("read"):
            consumer = self._reader()
            if consumer is None:
                return 0
            return int(consumer.end_offsets([self._partition])[self._partition])

    def position(self) -> int:
        """Offset of what `poll` gives next; 0 if the topic is missing."""
        with self._errors("read"):
            consumer = self._reader()
            return 0 if consumer is None else int(consumer.position(self._partition))

    def seek_back(self, records: int) -> bool:
        """Let `poll` begin that many records before the end; False if the topic is missing."""
        with self._errors("read"):
            consumer = self._reader()
            if consumer is None:
                return False
            start = consumer.beginning_offsets([self._partition])[self._partition]
            end = consumer.end_offsets([self._partition])[self._partition]
            consumer.seek(self._partition, max(start, end - records))
            return True

    def poll(self, timeout_s: float) -> list[ByteRecord]:
        """What has come since the last read, waiting at most `timeout_s` for a first record."""
        with self._errors("read"):
            consumer = self._reader()
            if consumer is None:
                return []
            polled = consumer.poll(timeout_ms=round(timeout_s * 1000))
        return [
            ByteRecord(record.key, record.value, record.timestamp)
            for records in polled.values()
            for record in records
        ]

    def _reader(self) -> Any:
        if self._consumer is None:
            consumer = KafkaConsumer(
                **client_settings(self._access),
                client_id=self._client_id,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="earliest",
            )
            if not consumer.partitions_for_topic(self.topic):
                consumer.close()
                return None
            consumer.assign([self._partition])
            consumer.seek_to_beginning(self._partition)
            self._consumer = consumer
        return self._consumer

    def _writer(self) -> Any:
        if self._producer is None:
            self._producer = KafkaProducer(
                **client_settings(self._access),
                client_id=self._client_id,
                acks="all",
                allow_auto_create_topics=False,
                request_timeout_ms=round(REQUEST_TIMEOUT_S * 1000),
                delivery_timeout_ms=round(ANSWER_TIMEOUT_S * 1000),
                max_block_ms=round(ANSWER_TIMEOUT_S * 1000),
            )
        return self._producer

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (KafkaError, OSError, RuntimeError) as error:
            text = f"cannot {what} topic {self.topic}"
            raise translated(error, self._access, text) from error
