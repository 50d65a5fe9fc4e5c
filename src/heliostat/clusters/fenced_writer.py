"""A writer that fences older writers of the same name: each record is a transaction.

Kafka's transaction coordinator counts an epoch for every transactional id and refuses all but the
newest (KIP-98). kafka-python's own transactional producer would do, but when its epoch is stale it
requests a new one by itself (KIP-360), and so fences the writer that fenced it: here a stale writer
must notice. So these are our own few requests, and none is resent on a guess.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from heliostat.access import Reachable
from heliostat.clusters.admin.caller import error_of
from heliostat.clusters.kafka_codes import CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.wire.leaders import leader_in
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition

TRANSACTION_TIMEOUT_MS = 10_000
"""A writer that stops in mid transaction blocks committed readers for this long, and until the
coordinator's next check (`transaction.abort.timed.out.transaction.cleanup.interval.ms`, 10 s)."""
REQUEST_TIMEOUT_MS = 4_000
WITHIN_S = REQUEST_TIMEOUT_MS / 1000
"""A broker that hangs never answers; its successor is there within 10 s, but is found only by
looking it up again."""
SETTLES_WITHIN_S = 20.0
"""How long to wait for a coordinator to move or load, or for another's transaction to end."""
PAUSE_S = 0.05
_MOVED = frozenset({5, 6, 14, 15, 16})
"""The leader or coordinator is elsewhere or not ready; the request was not executed."""
KNOWN_WITHIN_S = 2.0
"""A topic unknown for longer than this does not exist: somebody deleted it."""
_BATCH_BYTES_MAX = 1024 * 1024
ANSWERS: Mapping[type, tuple[Any, int]] = {
    AddPartitionsToTxnRequest: (AddPartitionsToTxnResponse, 3),  # later ones are for brokers
    EndTxnRequest: (EndTxnResponse, 4),  # from 5 on each transaction raises the epoch (KIP-890)
    # From 2.7 on: a fenced producer's error differs from a merely old epoch's.
    InitProducerIdRequest: (InitProducerIdResponse, 4),
    ProduceRequest: (ProduceResponse, 11),  # from 12 on it would begin transactions (KIP-890)
}
"""Kind of answer to each request, and its newest version that we use."""


class FencedWriter:
    """Writes JSON objects into partition 0 of a topic, each in a transaction of its own.

    Not safe to share between threads. Every method raises `ConnectionLost` if no broker answers
    and `BrokerError` if one refuses; its `is_fenced` is true if a newer writer has begun. After
    any error call `fence` again before the next write; this aborts what an interrupted write left
    open.

    Parameters
    ----------
    cluster
        Access to the cluster; connections are lent by it if it is a `LentClusters`.
    topic
        The topic to write to.
    transactional_id
        The name that all writers share.
    """

    def __init__(
        self,
        cluster: Reachable,
        topic: TopicName,
        transactional_id: str,
        client_id: str = "heliostat-owner",
    ) -> None:
        self._clusters, self._are_ours = lent_clusters(cluster, client_id)
        self._topic = topic
        self._id = transactional_id
        self._coordinator: BrokerId | None = None
        self._leader: BrokerId | None = None
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._has_begun = False

    def close(self) -> None:
        """Close connections; completed writes are durable."""
        self._producer = None
        if self._are_ours:
            self._clusters.close_idle()

    def prepare(self) -> None:
        """Find the coordinator, which takes a while at a cluster's first transaction."""
        self._find_coordinator()

    def fence(self) -> None:
        """Become the newest writer: when it returns, no older one can write any more."""
        if self._has_begun:  # after an error others may be in their place
            self._coordinator = self._leader = None
        self._has_begun = True
        self._producer = None
        answer = self._coordinated(
            lambda: InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            ),
            lambda response: response.error_code,
            "become the newest writer",
        )
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequence = 0

    @property
    def is_ready(self) -> bool:
        """Whether `fence` was called and nothing has failed since."""
        return self._producer is not None

    def write(self, key: str, value: Mapping[str, Any]) -> Offset:
        """Write one record; durable when it returns, and soon visible to committed readers."""
        assert self._producer is not None, "fence first"
        producer, epoch = self._producer
        self._producer = None  # until all requests have succeeded
        self._add_partition(producer, epoch)
        offset = self._produce(producer, epoch, key, value)
        self._coordinated(
            lambda: EndTxnRequest(
                transactional_id=self._id,
                producer_id=producer,
                producer_epoch=epoch,
                committed=True,
            ),
            lambda response: response.error_code,
            "commit",
        )
        self._producer = (producer, epoch)
        self._sequence += 1
        return offset

    def _add_partition(self, producer: int, epoch: int) -> None:
        kind = AddPartitionsToTxnRequest
        self._coordinated(
            lambda: kind(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    kind.AddPartitionsToTxnTopic(name=self._topic, partitions=[0])
                ],
            ),
            lambda response: (
                response.results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            ),
            "begin a transaction",
        )

    def _produce(self, producer: int, epoch: int, key: str, value: Mapping[str, Any]) -> Offset:
        builder = DefaultRecordBatchBuilder(
            2, 0, True, producer, epoch, self._sequence, _BATCH_BYTES_MAX
        )
        now_ms = time.time_ns() // 1_000_000
        encoded = json.dumps(value, sort_keys=True).encode()
        builder.append(0, now_ms, key.encode(), encoded, [])
        batch = bytes(builder.build())
        kind = ProduceRequest.TopicProduceData

        def request() -> ProduceRequest:
            return ProduceRequest(
                transactional_id=self._id,
                acks=-1,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[
                    kind(
                        name=self._topic,
                        partition_data=[kind.PartitionProduceData(index=0, records=batch)],
                    )
                ],
            )

        answer = self._settled(
            lambda: self._send(request(), self._leader_of_topic()),
            lambda response: response.responses[0].partition_responses[0].error_code,
            "write",
        )
        return Offset(answer.responses[0].partition_responses[0].base_offset)

    def _coordinated(
        self, request: Callable[[], Any], code_of: Callable[[Any], int], what: str
    ) -> Any:
        return self._settled(lambda: self._send(request(), self._find_coordinator()), code_of, what)

    def _send(self, request: Any, broker: BrokerId) -> Any:
        """Send to a broker, except to one that did not answer last time and still doesn't.

        Raises
        ------
        ConnectionLost
            The broker hangs: its successor may be known at the next attempt.
        """
        response, version = ANSWERS[type(request)]
        with self._clusters.lent() as cluster:
            if not cluster.brokers.knows(broker):  # another thread\'s have looked it up
                cluster.metadata([])
            conn = cluster.brokers.known(broker)
            return conn.exchange_once([request], response, version, WITHIN_S)[0]

    def _settled(self, send: Callable[[], Any], code_of: Callable[[Any], int], what: str) -> Any:
        """Retry until a transient error is over; only if the request was not executed."""
        began_s = time.monotonic()
        while True:
            answer = send()
            code = code_of(answer)
            if code == 0:
                return answer
            passes_within_s = (
                SETTLES_WITHIN_S
                if code in _MOVED or code == CONCURRENT_TRANSACTIONS
                else KNOWN_WITHIN_S * (code == UNKNOWN_TOPIC_OR_PARTITION)
            )
            if time.monotonic() >= began_s + passes_within_s:
                error = error_of(code, f"{what} as {self._id} in {self._topic}")
                assert error is not None
                raise error
            if code in _MOVED:
                self._coordinator = self._leader = None
                self._clusters.leaders.pop(TopicPartition(self._topic, PartitionId(0)), None)
            time.sleep(PAUSE_S)

    def _find_coordinator(self) -> BrokerId:
        if self._coordinator is None:
            _, self._coordinator = self._settled(
                self._look_up_coordinator, lambda lookup: int(lookup[0]), "find the coordinator"
            )
        assert self._coordinator is not None
        return self._coordinator

    def _look_up_coordinator(self) -> tuple[int, BrokerId]:
        with self._clusters.lent() as cluster:
            return cluster.transaction_coordinator(self._id)

    def _leader_of_topic(self) -> BrokerId:
        place = TopicPartition(self._topic, PartitionId(0))
        if self._leader is None:
            self._leader = self._clusters.leaders.get(place)
        if self._leader is None:
            with self._clusters.lent() as cluster:
                topics = cluster.metadata([self._topic])
            code, leader = leader_in(topics, place)
            error = error_of(code, f"find {self._topic}")
            if error is not None:
                raise error
            self._leader = leader
        return self._leader
