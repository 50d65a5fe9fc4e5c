"""Reads a topic of one partition over lent connections: where it begins and ends, and its records.

It asks the leader that metadata name, and again after an election. Nothing here has a thread or a
connection of its own: a reader costs as many round trips as it has questions.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from heliostat.clusters.kafka_codes import (
    CONSUMER,
    EARLIEST,
    LATEST,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from heliostat.clusters.kafka_python import lend_codecs
from heliostat.clusters.led_partition import LedPartition
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.fetch import FetchPartition
from heliostat.clusters.wire.fetch_once import BY_NAME, FetchedOnce, FetchOnce
from heliostat.clusters.wire.lent import LentClusters
from heliostat.clusters.wire.log_ends import VERSION_MAX as LIST_OFFSETS_VERSION_MAX
from heliostat.clusters.wire.log_ends import LogEndsAnswer, LogEndsRequest
from heliostat.clusters.wire.questions import Question
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError, kafka_error
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition

PATIENCE_S = 10.0
"""One question: longer than an election takes."""
KNOWN_WITHIN_S = 2.0
"""A topic unknown for longer than this does not exist: somebody deleted it."""
WAIT_MAX_S = 1.0
"""For how long one fetch waits at the broker: a longer silence is that of a broker that hangs."""
BYTES_MAX = 8 * 1024 * 1024
DAMAGED = (CorruptRecordError, LookupError, ValueError, struct.error)
"""What reading a batch raises whose bytes are damaged."""
COMMIT = 1
"""Key type of a control record that ends a committed transaction (ControlRecordType)."""
Answer = TypeVar("Answer")


class LogRecord(NamedTuple):
    """One record as it was written."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    offset: int
    leader_epoch: int


class LogReader:
    """Reads from a place that moves on. For one thread at a time.

    Parameters
    ----------
    clusters
        Connections to the cluster.
    topic
        The topic, of one partition.
    committed
        Whether records of open and aborted transactions are left out.
    checked
        Whether checksums of batches are checked, at 5 MB a second. Who leaves that out has values
        with a checksum of their own.
    """

    def __init__(
        self,
        clusters: LentClusters,
        topic: str,
        *,
        committed: bool = False,
        checked: bool = True,
    ) -> None:
        self._partition = TopicPartition(TopicName(topic), PartitionId(0))
        self._led = LedPartition(clusters, self._partition)
        self._committed = committed
        self._checked = checked
        self._position: Offset | None = None
        lend_codecs()

    @property
    def position(self) -> Offset:
        """Offset to read next: at first the log's start."""
        if self._position is None:
            self._position = self.bounds()[0]
        return self._position

    @position.setter
    def position(self, offset: Offset) -> None:
        self._position = offset

    def exists(self) -> bool:
        """As `LedPartition.exists`."""
        return self._led.exists()

    def bounds(self) -> tuple[Offset, Offset]:
        """Where the log begins and ends now, for the records that this reader returns.

        Raises
        ------
        BrokerError, ConnectionLost
            The leader refuses, or none answers within `PATIENCE_S`.
        """
        return self._settled(self._bounds)

    def _bounds(self, cluster: WireCluster, leader: BrokerId) -> tuple[Offset, Offset]:
        conn = cluster.brokers.known(leader)
        return self._ends_of(conn.exchange_kinds(self._ends_asked(cluster))[0])

    def _ends_asked(self, cluster: WireCluster) -> Question:
        some, epochs, committed = [self._partition], cluster.epochs, self._committed
        both = [
            LogEndsRequest(some, timestamp, CONSUMER, epochs, committed=committed)
            for timestamp in (EARLIEST, LATEST)
        ]
        return Question(both, LogEndsAnswer, LIST_OFFSETS_VERSION_MAX)

    def _ends_of(self, answers: Sequence[Any]) -> tuple[Offset, Offset]:
        start, end = (answer[self._partition] for answer in answers)
        for offset in (start, end):
            if isinstance(offset, BrokerError):
                raise offset
        return start, end

    def from_start(self) -> tuple[Offset, list[LogRecord]]:
        """Begin at the log's start; return where it ends, and its first records or none.

        All with one exchange, as a compacted log begins at offset 0 unless somebody deleted rows.

        Raises
        ------
        As `bounds` and `poll`.
        """

        def asked(
            cluster: WireCluster, leader: BrokerId
        ) -> tuple[Offset, Offset, FetchedOnce] | BrokerError:
            conn = cluster.brokers.known(leader)
            ends, fetched = conn.exchange_kinds(
                self._ends_asked(cluster),
                Question([self._fetch(cluster, Offset(0), 0.0)], FetchedOnce, BY_NAME),
            )
            start, end = self._ends_of(ends)
            return start, end, fetched[0]

        start, end, fetched = self._settled(asked)
        self.position = start
        is_read = start == 0 and not fetched.error
        return end, self._rows(fetched) if is_read else []

    def first_since(self, from_ms: int) -> Offset:
        """Offset of the first record written at or after a time (ms); the end if there is none."""

        def asked(cluster: WireCluster, leader: BrokerId) -> Offset | BrokerError:
            some = [self._partition]
            return cluster.list_offsets(leader, some, timestamp=from_ms)[self._partition]

        offset = self._settled(asked)
        return offset if offset >= 0 else self.bounds()[1]

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return records from `position` on, and move it; none if none came within `wait_s`.

        Raises
        ------
        BrokerError, ConnectionLost
            The leader refuses, or none answers within `PATIENCE_S`.
        ProtocolError
            A batch is damaged.
        """
        until_s = time.monotonic() + wait_s
        while True:  # ends with records, or when the time is over
            left_s = max(0.0, until_s - time.monotonic())
            rows = self._polled(min(left_s, WAIT_MAX_S))
            if rows or left_s <= WAIT_MAX_S:
                return rows

    def _polled(self, wait_s: float) -> list[LogRecord]:
        answer = self._settled(lambda cluster, leader: self._fetched(cluster, leader, wait_s))
        if answer.error == OFFSET_OUT_OF_RANGE:  # compaction or retention has overtaken it
            start, end = self.bounds()
            if start <= self.position <= end:
                return []  # it was behind a leader's end just now
            self.position = start
            return []
        return self._rows(answer)

    def _rows(self, answer: FetchedOnce) -> list[LogRecord]:
        try:
            return list(self._records(answer))
        except DAMAGED as error:
            raise ProtocolError(
                "a record batch is damaged", topic=self._partition.topic, why=str(error)
            ) from error

    def _fetched(self, cluster: WireCluster, leader: BrokerId, wait_s: float) -> FetchedOnce:
        place, request = self._partition, self._fetch(cluster, self.position, wait_s)
        conn = cluster.brokers.known(leader)
        answer: FetchedOnce = conn.exchange([request], FetchedOnce, BY_NAME)[0]
        if answer.error not in (0, OFFSET_OUT_OF_RANGE):
            raise BrokerError(f"cannot read topic {place.topic}", kafka_code=answer.error)
        return answer

    def _fetch(self, cluster: WireCluster, offset: Offset, wait_s: float) -> FetchOnce:
        place = self._partition
        wanted = FetchPartition(
            *(place.topic, None, place.partition, offset, BYTES_MAX),
            leader_epoch=cluster.epochs.of(place),
        )
        return FetchOnce(wanted, round(wait_s * 1000), self._committed)

    def _records(self, answer: FetchedOnce) -> Iterator[LogRecord]:
        """Return the records of an answer without those of aborted transactions (KIP-98)."""
        begins = sorted(((first, producer) for producer, first in answer.aborted), reverse=True)
        aborting: set[int] = set()
        for batch in MemoryRecords(answer.batches):
            if self._checked and not batch.validate_crc():
                raise CorruptRecordError(f"the CRC of the batch at {batch.base_offset} is wrong")
            end = Offset(batch.base_offset + batch.last_offset_delta + 1)
            if end <= self.position:
                continue
            while begins and begins[-1][0] < end:
                aborting.add(begins.pop()[1])
            if batch.is_control_batch:
                for marker in batch:
                    if int.from_bytes(marker.key[2:4], "big") != COMMIT:
                        aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                for record in batch:
                    if record.offset >= self.position:
                        yield LogRecord(
                            *(record.key, record.value, record.timestamp, record.offset),
                            batch.leader_epoch,
                        )
            self.position = end

    def _settled(self, ask: Callable[[WireCluster, BrokerId], Answer | BrokerError]) -> Answer:
        return self._led.settled(ask, _passes_within_s)


def _passes_within_s(error: BrokerError | ConnectionLost) -> float:
    if isinstance(error, ConnectionLost):
        return PATIENCE_S
    if error.kafka_code == UNKNOWN_TOPIC_OR_PARTITION:
        return KNOWN_WITHIN_S
    return PATIENCE_S if kafka_error(error.kafka_code).stale_metadata else 0.0
