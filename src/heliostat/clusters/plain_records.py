"""Records of any topic as a consumer sees them, and writes to given partitions.

For a few thousand records of others' topics; code that must be fast reads batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from heliostat.access import Reachable, access_of
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.kafka_python import lend_codecs
from heliostat.clusters.opened import opened
from heliostat.clusters.refusals import translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.errors import ConnectionLost
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

ANSWER_TIMEOUT_S = 60.0  # a broker that restarts is back in less
POLL_S = 0.5
POLL_RECORDS = 10_000
PARTITION_BYTES = 4 << 20  # of one fetch; partitions are read one by one
CLIENT_ID = "heliostat-records"


class PlainRecord(NamedTuple):
    """One record with all that a consumer sees."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class LogBounds(NamedTuple):
    """First readable offset of a log, and its end as the reader sees it."""

    start: Offset
    end: Offset


class RecordToWrite(NamedTuple):
    """A record to write; without a partition the key's hash decides, as in Java's producer."""

    key: bytes
    value: bytes | None
    partition: int | None = None


class PlainReader:
    """Reads partitions one by one. Use as a context manager, from one thread.

    Every method raises `ConnectionLost` if the brokers do not answer in time, and `BrokerError`
    if they refuse.

    Parameters
    ----------
    committed
        Whether records of aborted and open transactions are left out.
    """

    def __init__(self, cluster: Reachable, *, committed: bool) -> None:
        lend_codecs()
        self._access = access_of(cluster)
        with self._errors("reach the cluster"):
            self._consumer: Any = opened(
                KafkaConsumer,
                **client_settings(with_seeds_that_answer(self._access)),
                client_id=CLIENT_ID,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="none",
                isolation_level="read_committed" if committed else "read_uncommitted",
                max_poll_records=POLL_RECORDS,
                max_partition_fetch_bytes=PARTITION_BYTES,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def partitions(self, topic: TopicName) -> tuple[TopicPartition, ...]:
        """All partitions of a topic; none if it does not exist."""
        with self._errors(f"describe {topic}"):
            numbers = self._consumer.partitions_for_topic(topic) or ()
        return tuple(TopicPartition(topic, PartitionId(number)) for number in sorted(numbers))

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """Start and end of logs; with `committed` the end is the last stable offset."""
        asked = {
            KafkaPartition(partition.topic, partition.partition): partition
            for partition in partitions
        }
        if not asked:
            return {}
        with self._errors("ask for offsets"):
            ends = self._consumer.end_offsets(list(asked))
            starts = self._consumer.beginning_offsets(list(asked))
        return {
            partition: LogBounds(starts[kafka_partition], ends[kafka_partition])
            for kafka_partition, partition in asked.items()
        }

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[PlainRecord]:
        """Records at offsets `[start, end)`, as far as they exist."""
        kafka_partition = KafkaPartition(partition.topic, partition.partition)
        position = start
        if start < end:
            with self._errors(f"read {partition}"):
                self._consumer.assign([kafka_partition])
                self._consumer.seek(kafka_partition, start)
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while position < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"{partition} was not read in time", at=position, end=end)
            with self._errors(f"read {partition}"):
                polled = self._consumer.poll(timeout_ms=round(POLL_S * 1000))
                # None: it has to look that up, and no broker answers.
                reached = self._consumer.position(kafka_partition, timeout_ms=round(POLL_S * 1000))
            if reached is not None and reached > position:
                position, deadline_s = reached, monotonic() + ANSWER_TIMEOUT_S
            for record in polled.get(kafka_partition, ()):
                if record.offset < end:
                    headers = tuple(record.headers)
                    yield PlainRecord(
                        record.offset, record.timestamp, record.key, record.value, headers
                    )

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (KafkaError, OSError, RuntimeError) as error:
            raise translated(error, self._access, f"cannot {what}") from error


def write_records(cluster: Reachable, topic: TopicName, records: Iterable[RecordToWrite]) -> None:
    """Write in order; durable on all replicas in sync when it returns.

    Raises
    ------
    ConnectionLost, BrokerError
        Not all of them were written.
    """
    access = access_of(cluster)
    try:
        producer = opened(
            KafkaProducer,
            **client_settings(with_seeds_that_answer(access)),
            client_id=CLIENT_ID,
            acks="all",
            allow_auto_create_topics=False,
            delivery_timeout_ms=round(ANSWER_TIMEOUT_S * 1000),
            max_block_ms=round(ANSWER_TIMEOUT_S * 1000),
        )
        try:
            sent = [
                producer.send(topic, key=record.key, value=record.value, partition=record.partition)
                for record in records
            ]
            producer.flush(ANSWER_TIMEOUT_S)
            for future in sent:
                future.get(timeout=ANSWER_TIMEOUT_S)
        finally:
            producer.close(timeout=POLL_S)
    except (KafkaError, OSError, RuntimeError) as error:
        raise translated(error, access, f"cannot write topic {topic}") from error
