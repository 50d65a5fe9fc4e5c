"""Writes into a topic of one partition over lent connections: one round trip a batch.

It is an idempotent producer (KIP-98): a batch whose answer was lost is sent again with the same
sequence, and the broker appends it once. All topics of a cluster that a process writes share one
producer id, which is asked for once; a topic that a write failed for begins with another.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.led_partition import LedPartition
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.lent import LentClusters, WrittenTopic
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, ProducerId, TopicName, TopicPartition

BATCH_BYTES = 256 * 1024
"""Brokers take 1 MiB unless they are told otherwise; from one that takes less, see `write`."""
PRODUCER_ID_VERSION_MAX = 4
PRODUCE_VERSION_MAX = 11  # from 12 on it would begin transactions (KIP-890)
ALL_IN_SYNC = -1
TOO_LARGE = frozenset({10, 18})
"""MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE."""
FORGOTTEN = frozenset({45, 47, 59})
"""OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID: a log that was lost in
part, or made again. Nothing was appended."""
PASSING = frozenset({UNKNOWN_TOPIC_OR_PARTITION, 2, 5, 6, 7, 8, 9, 13, 14, 19, 20, 56, 74, 75, 89})
"""Elections, replicas that come back, quotas, and brokers that don't know a new topic yet."""


class NewRecord(NamedTuple):
    """A record to write; a timestamp of None means the time of writing."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None


class LogWriter:
    """Appends records, in order. Any thread may write.

    Parameters
    ----------
    clusters
        Connections to the cluster.
    topic
        The topic; its first partition is written.
    within_s
        How long a write may take.
    request_s
        How long one request may take: a leader that hangs never answers, and its successor,
        elected within 10 s, is found only by new metadata.
    """

    def __init__(
        self, clusters: LentClusters, topic: TopicName, *, within_s: float, request_s: float
    ) -> None:
        self._clusters = clusters
        self._topic = topic
        self._led = LedPartition(clusters, TopicPartition(topic, PartitionId(0)))
        self._within_s = within_s
        self._request_s = request_s

    def prepare(self) -> None:
        """Ask for a producer id; raises as `write`."""
        with self._clusters.lent() as cluster:
            self._new_id(cluster)

    def write(self, records: Sequence[NewRecord]) -> list[Offset]:
        """Write records; when it returns they are durable on all replicas in sync.

        Batches that the broker finds too large are made smaller, unless they are one record.

        Raises
        ------
        BrokerError
            The leader refuses; some of the records may be written.
        ConnectionLost
            Not all were written within the time limit; some may be.
        """
        with self._clusters.written(self._topic) as session:
            until_s = time.monotonic() + self._within_s
            offsets: list[Offset] = []
            batch_bytes = BATCH_BYTES
            while len(offsets) < len(records):
                left = records[len(offsets) : len(offsets) + batch_bytes]
                try:
                    base, count = self._append(session, left, batch_bytes, until_s)
                except BrokerError as error:
                    if error.kafka_code not in TOO_LARGE or batch_bytes == 1:
                        raise
                    batch_bytes = max(1, batch_bytes // 8)
                    continue
                offsets += [Offset(base + number) for number in range(count)]
        return offsets

    def _append(
        self,
        session: WrittenTopic,
        records: Sequence[NewRecord],
        batch_bytes: int,
        until_s: float,
    ) -> tuple[Offset, int]:
        """Append as many records as fit a batch; return the first one's offset, and how many.

        After a session was forgotten by the broker another is begun, once.
        """

        def ask(cluster: WireCluster, leader: BrokerId) -> tuple[Offset, int]:
            if session.producer_id is None:
                session.producer_id = self._new_id(cluster)
            batch, count = _batch(session, records, batch_bytes)
            answer = cluster.brokers.known(leader).exchange_once(
                [self._request(batch)], ProduceResponse, PRODUCE_VERSION_MAX, self._request_s
            )[0]
            row = answer.responses[0].partition_responses[0]
            if row.error_code:
                text = f"cannot write topic {self._topic}"
                raise BrokerError(text, kafka_code=row.error_code)
            session.sequence += count
            return Offset(row.base_offset), count

        def passes_within_s(error: BrokerError | ConnectionLost) -> float:
            passes = isinstance(error, ConnectionLost) or error.kafka_code in PASSING
            return max(0.0, until_s - began_s) if passes else 0.0

        began_s = time.monotonic()
        try:
            try:
                return self._led.settled(ask, passes_within_s)
            except BrokerError as error:
                if error.kafka_code not in FORGOTTEN:
                    raise
                session.forget()
                self._clusters.producer_id = None
                return self._led.settled(ask, passes_within_s)
        except BrokerError as error:
            if error.kafka_code not in PASSING:
                raise
            raise ConnectionLost(
                f"cannot write topic {self._topic} in time", why=f"{error.kafka_name}: {error.text}"
            ) from error

    def _new_id(self, cluster: WireCluster) -> ProducerId:
        """Return the id that all topics' writers share, made once."""
        if self._clusters.producer_id is None:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
            )
            answer = cluster.brokers.ask_any(
                request, InitProducerIdResponse, PRODUCER_ID_VERSION_MAX
            )
            if answer.error_code:
                raise BrokerError("no producer id was given", kafka_code=answer.error_code)
            self._clusters.producer_id = ProducerId(answer.producer_id)
        return self._clusters.producer_id

    def _request(self, batch: bytes) -> Any:
        kind = ProduceRequest.TopicProduceData
        data = kind.PartitionProduceData(index=0, records=batch)
        return ProduceRequest(
            transactional_id=None,
            acks=ALL_IN_SYNC,
            timeout_ms=round(self._request_s * 1000),
            topic_data=[kind(name=self._topic, partition_data=[data])],
        )


def _batch(
    session: WrittenTopic, records: Sequence[NewRecord], batch_bytes: int
) -> tuple[bytes, int]:
    """Return a batch of the first records, at least one, and how many it has."""
    builder = DefaultRecordBatchBuilder(
        2, 0, False, session.producer_id, 0, session.sequence, batch_bytes
    )
    now_ms = time.time_ns() // 1_000_000
    for number, record in enumerate(records):
        at_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        if builder.append(number, at_ms, record.key, record.value, []) is None:
            return bytes(builder.build()), number
    return bytes(builder.build()), len(records)
