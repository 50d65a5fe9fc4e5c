"""The end of a topic of ours that many write to and people look at: only what is recent matters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from heliostat.access import Reachable, access_of
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.opened import close_in_background, opened
from heliostat.clusters.refusals import translated
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import TopicName

RETENTION_MS = 3_600_000
SEGMENT_BYTES = 16 * 1024 * 1024
"""An hour of reports is kept, in segments small enough that old ones really go."""
TOPIC_EXISTS = 36
REPLICAS = 3
ANSWER_TIMEOUT_S = 30.0
END_POLL_S = 0.2  # a poll returns at once when records are there


@dataclass(frozen=True, slots=True)
class Recent:
    """One record, decoded."""

    key: str
    value: dict[str, Any]
    timestamp_ms: int


class RecentRecords:
    """Records of a one-partition topic from some time on. Not thread-safe.

    Every method raises `ConnectionLost` when the brokers do not answer in time.
    """

    def __init__(self, cluster: Reachable, topic: str) -> None:
        self.topic = TopicName(topic)
        self._access = access_of(cluster)
        self._consumer: Any = None
        self._goes_on_at: int | None = None
        """Offset behind the last record that was given, or where a look began."""

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic where it is missing: one partition, kept for an hour.

        Raises
        ------
        BrokerError
            It can't be created.
        """
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(RETENTION_MS),
            "segment.bytes": str(SEGMENT_BYTES),
            # A clock of ours that is ahead must not make the broker refuse (KIP-937).
            "message.timestamp.type": "LogAppendTime",
        }
        with ClusterAdmin(self._access, "heliostat-state") as admin:
            replicas = replication_factor or min(REPLICAS, len(admin.brokers()))
            answer = admin.create_topics([NewTopic(self.topic, 1, replicas, configs)])[self.topic]
        if isinstance(answer, BrokerError) and answer.kafka_code != TOPIC_EXISTS:
            raise answer

    def exists(self) -> bool:
        """Whether the topic is there: a link that never ran has none."""
        with ClusterAdmin(self._access, "heliostat-status") as admin:
            return admin.describe_topics([self.topic])[self.topic].error is None

    def newest_ms(self) -> int | None:
        """When the newest record was written; None where there is none."""
        with self._errors():
            consumer = self._assigned()
            end = consumer.end_offsets([self._partition])[self._partition]
            start = consumer.beginning_offsets([self._partition])[self._partition]
            if end <= start:
                return None
            consumer.seek(self._partition, end - 1)
        newest = self.poll(ANSWER_TIMEOUT_S)
        return newest[-1].timestamp_ms if newest else None

    def seek(self, from_ms: int) -> None:
        """Begin with the first record written at or after `from_ms`."""
        with self._errors():
            consumer = self._assigned()
            partition = self._partition
            found = consumer.offsets_for_times({partition: from_ms})[partition]
            if found is None:
                consumer.seek_to_end(partition)
                self._goes_on_at = int(consumer.position(partition))
            else:
                consumer.seek(partition, found.offset)
                self._goes_on_at = found.offset

    def read_to_end(self) -> Iterator[Recent]:
        """All records up to where the topic ends now; what is written meanwhile is not waited for.

        Raises
        ------
        ConnectionLost
            They could not be read within `ANSWER_TIMEOUT_S`.
        """
        with self._errors():
            end = self._assigned().end_offsets([self._partition])[self._partition]
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while self._position() < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            yield from self.poll(END_POLL_S)

    def poll(self, timeout_s: float) -> list[Recent]:
        """What has come since the last poll, waiting at most `timeout_s` for a first record."""
        with self._errors():
            polled = self._assigned().poll(timeout_ms=int(timeout_s * 1000), max_records=5000)
        rows = [record for records in polled.values() for record in records]
        if rows:
            self._goes_on_at = rows[-1].offset + 1
        return [Recent(row.key.decode(), json.loads(row.value), row.timestamp) for row in rows]

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._goes_on_at = None

    def _position(self) -> int:
        with self._errors():
            return int(self._assigned().position(self._partition))

    def _assigned(self) -> Any:
        if self._consumer is None:
            from kafka import KafkaConsumer

            self._consumer = opened(
                KafkaConsumer,
                **client_settings(self._access),
                client_id="heliostat-status",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                max_partition_fetch_bytes=8 * 1024 * 1024,
            )
            self._consumer.assign([self._partition])
            if self._goes_on_at is not None:
                self._consumer.seek(self._partition, self._goes_on_at)
        return self._consumer

    @property
    def _partition(self) -> Any:
        from kafka import TopicPartition

        return TopicPartition(self.topic, 0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from kafka.errors import KafkaError

        try:
            yield
        except KafkaError as error:
            # A client that timed out was seen to do so for ever, with all brokers back.
            failed, self._consumer = self._consumer, None
            if failed is not None:
                close_in_background(failed.close)
            raise translated(error, self._access, f"cannot read topic {self.topic}") from error
