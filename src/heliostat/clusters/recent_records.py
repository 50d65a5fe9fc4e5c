"""Recent records of a topic of ours with many writers, read to be shown to people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.kafka_codes import TOPIC_ALREADY_EXISTS
from heliostat.clusters.one_partition import (
    PATIENCE_MS,
    READ,
    REQUEST_TIMEOUT_MS,
    OnePartitionTopic,
)
from heliostat.errors import BrokerError, ConnectionLost

RETENTION_MS = 3_600_000
SEGMENT_BYTES = 16 * 1024 * 1024
"""An hour of reports is kept, in segments small enough that old ones are really deleted."""
REPLICAS = 3
ANSWER_TIMEOUT_S = 30.0
END_POLL_S = 0.2  # a poll returns at once if there are records


@dataclass(frozen=True, slots=True)
class Recent:
    """One record, decoded."""

    key: str
    value: dict[str, Any]
    timestamp_ms: int
    offset: int


class RecentRecords(OnePartitionTopic):
    """Records of a one-partition topic from some time on. Not thread-safe.

    Every method raises `ConnectionLost` if the brokers do not answer in time.

    Parameters
    ----------
    foreign
        Notes records that are not ours; they are ignored.
    """

    READER_SETTINGS = MappingProxyType({"max_partition_fetch_bytes": 8 * 1024 * 1024})

    def __init__(
        self, cluster: Reachable, topic: str, foreign: ForeignRecords | None = None
    ) -> None:
        super().__init__(cluster, topic, "heliostat-status")
        self._foreign = foreign or ForeignRecords()

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing: one partition, kept for an hour.

        Raises
        ------
        BrokerError
            It can't be created.
        """
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(RETENTION_MS),
            "segment.bytes": str(SEGMENT_BYTES),
            # The broker must not refuse records if our clock is ahead (KIP-937).
            "message.timestamp.type": "LogAppendTime",
        }
        with ClusterAdmin(self._access, "heliostat-state") as admin:
            replicas = replication_factor or min(REPLICAS, len(admin.brokers()))
            answer = admin.create_topics([NewTopic(self.topic, 1, replicas, configs)])[self.topic]
        if isinstance(answer, BrokerError) and answer.kafka_code != TOPIC_ALREADY_EXISTS:
            raise answer

    def exists(self) -> bool:
        """Whether the topic exists: a link that never ran has none."""
        with ClusterAdmin(
            self._access, self._client_id, request_timeout_ms=REQUEST_TIMEOUT_MS
        ) as admin:
            return admin.describe_topics([self.topic])[self.topic].error is None

    def newest_ms(self) -> int | None:
        """When the newest record was written; None if there is none."""
        with self._errors(READ):
            consumer = self._assigned()
            end = self._end(consumer)
            if end <= self._start(consumer):
                return None
            consumer.seek(self._partition, end - 1)
        newest = self._polled(ANSWER_TIMEOUT_S)
        return int(newest[-1].timestamp) if newest else None

    def seek(self, from_ms: int) -> None:
        """Begin with the first record written at or after `from_ms`."""
        with self._errors(READ):
            consumer = self._assigned()
            partition = self._partition
            times = {partition: from_ms}
            found = consumer.offsets_for_times(times, timeout_ms=PATIENCE_MS)[partition]
            if found is None:
                consumer.seek_to_end(partition)
                self._goes_on_at = self._at(consumer)
            else:
                consumer.seek(partition, found.offset)
                self._goes_on_at = found.offset

    def read_to_end(self) -> Iterator[Recent]:
        """All records up to where the topic ends now, without those written meanwhile.

        Raises
        ------
        ConnectionLost
            They could not be read within `ANSWER_TIMEOUT_S`.
        """
        with self._errors(READ):
            end = self._end(self._assigned())
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while self._position() < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            yield from self.poll(END_POLL_S)

    def poll(self, timeout_s: float) -> list[Recent]:
        """Records since the last poll, waiting at most `timeout_s` for the first."""
        found: list[Recent] = []
        for row in self._polled(timeout_s):
            try:
                value = json.loads(row.value)
                if not isinstance(value, dict):
                    raise TypeError("no object")  # one way for all that is odd
                found.append(Recent(row.key.decode(), value, row.timestamp, row.offset))
            except NOT_A_ROW as error:
                self._foreign.note(self.topic, row.offset, row.key, error)
        return found

    def ignore(self, record: Recent, why: object) -> None:
        """Note a record that only its reader can tell from one of ours."""
        self._foreign.note(self.topic, record.offset, record.key, why)

    def _polled(self, timeout_s: float) -> list[Any]:
        with self._errors(READ):
            polled = self._assigned().poll(timeout_ms=int(timeout_s * 1000), max_records=5000)
        rows = [record for records in polled.values() for record in records]
        if rows:
            self._given(rows[-1].offset)
        return rows

    def _position(self) -> int:
        with self._errors(READ):
            return self._at(self._assigned())

    def _assigned(self) -> Any:
        consumer = self._reader()
        if consumer is None:
            raise ConnectionLost(f"topic {self.topic} does not exist")
        return consumer
