"""Append batches to a cluster fast: one batch per partition in a request, several in flight."""

from __future__ import annotations

import collections
import contextlib
import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, ProtocolError
from heliostat.names import BrokerId, Endpoint, PartitionId, TopicName, TopicPartition
from heliostat_sandbox.protocol import (
    CLIENT_ID,
    PRODUCE,
    PRODUCE_VERSION,
    Part,
    ask_metadata,
    decode_produce,
    encode_produce,
    request_header,
)

if TYPE_CHECKING:
    from heliostat_sandbox.protocol import ClusterFacts

ACKS_LEADER = 1
"""As for the EFD's producers."""
IN_FLIGHT_MAX = 16
"""Requests in flight to one broker, which handles one at a time and keeps their order."""
REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""Far below `socket.request.max.bytes` (100 MiB), large enough for the overhead not to matter."""
REQUEST_TIMEOUT_S = 30.0
"""A broker on loopback that takes longer has failed."""


@dataclass(slots=True)
class _Link:
    """One connection, the request being filled, and those in flight."""

    connection: Connection
    batches: dict[str, list[tuple[int, Part]]] = field(default_factory=dict)
    counts: dict[TopicPartition, int] = field(default_factory=dict)
    size: int = 0
    in_flight: collections.deque[tuple[int, dict[TopicPartition, int]]] = field(
        default_factory=collections.deque
    )


class Appender:
    """Sends batches and counts acknowledged records. Not thread-safe.

    Parameters
    ----------
    bootstrap
        Addresses of the cluster, separated by commas.
    acks
        1 (the leader has it) or -1 (all in-sync replicas have it).
    """

    def __init__(self, bootstrap: str, *, acks: int = ACKS_LEADER) -> None:
        self.sent: collections.Counter[TopicPartition] = collections.Counter()
        self.acknowledged: collections.Counter[TopicPartition] = collections.Counter()
        self.refused: collections.Counter[TopicPartition] = collections.Counter()
        self.unknown: collections.Counter[TopicPartition] = collections.Counter()
        self.sent_bytes = 0
        self.last_error: HeliostatError | None = None
        self.acks = acks
        self._seeds = [_endpoint(text) for text in bootstrap.split(",")]
        self._endpoints: dict[BrokerId, Endpoint] = {}
        self._leaders: dict[TopicPartition, BrokerId] = {}
        self._links: dict[BrokerId, _Link] = {}

    def learn(self, topics: Sequence[str]) -> None:
        """Look up the leaders of all partitions of `topics`.

        Raises
        ------
        ConnectionLost
            No broker of the cluster answers.
        BrokerError
            A topic does not exist, or its metadata has another error.
        """
        facts = self._ask(topics)
        self._endpoints.update(facts.brokers)
        for name, topic in facts.topics.items():
            if topic.error:
                raise BrokerError("a topic can't be written", kafka_code=topic.error, topic=name)
            for partition, leader in topic.leaders.items():
                item = TopicPartition(TopicName(name), PartitionId(partition))
                if leader >= 0:
                    self._leaders[item] = leader
                else:
                    self._leaders.pop(item, None)

    def append(self, partition: TopicPartition, batch: Part, records: int) -> None:
        """Put a batch into the next request; send that first if it has the partition already.

        Raises
        ------
        ConnectionLost
            The leader is not known, or its connection is lost.
        """
        link = self._link(partition)
        if partition in link.counts or link.size > REQUEST_BYTES_MAX:
            self._send(link)
        link.batches.setdefault(partition.topic, []).append((partition.partition, batch))
        link.counts[partition] = records
        link.size += len(batch)

    def flush(self) -> None:
        """Send the requests filled so far."""
        for link in self._links.values():
            self._send(link)

    def poll(self) -> None:
        """Read the answers that have arrived, without waiting."""
        links = [link for link in self._links.values() if link.in_flight]
        while links:
            ready, _, _ = select.select([link.connection for link in links], [], [], 0)
            if not ready:
                return
            for link in links:
                if link.connection in ready:
                    self._receive(link)
            links = [link for link in links if link.in_flight]

    def drain(self) -> None:
        """Send everything and wait for all answers."""
        self.flush()
        for link in self._links.values():
            while link.in_flight:
                self._receive(link)

    def check(self) -> None:
        """Raise the last error, if a batch was refused."""
        if self.last_error is not None:
            raise self.last_error

    def reset(self) -> None:
        """Close all connections; count records in flight as unknown."""
        for link in self._links.values():
            link.connection.close()
            for _, counts in link.in_flight:
                self.unknown.update(counts)
        self._links.clear()

    def close(self) -> None:
        """Close all connections."""
        self.reset()

    def _ask(self, topics: Sequence[str]) -> ClusterFacts:
        reasons: list[str] = []
        for endpoint in [*self._endpoints.values(), *self._seeds]:
            try:
                return ask_metadata(endpoint, topics, REQUEST_TIMEOUT_S)
            except ConnectionLost as error:
                reasons.append(str(error))
        raise ConnectionLost("no broker of the cluster answers", tried="; ".join(reasons[-3:]))

    def _link(self, partition: TopicPartition) -> _Link:
        leader = self._leaders.get(partition)
        if leader is None or leader not in self._endpoints:
            raise ConnectionLost("the partition's leader is not known", partition=str(partition))
        link = self._links.get(leader)
        if link is None:
            settings = DialSettings(CLIENT_ID, request_timeout_s=REQUEST_TIMEOUT_S)
            link = self._links[leader] = _Link(Connection(self._endpoints[leader], settings))
        return link

    def _send(self, link: _Link) -> None:
        if not link.counts:
            return
        while len(link.in_flight) >= IN_FLIGHT_MAX:
            self._receive(link)
        number = link.connection.next_correlation_id()
        header = request_header(PRODUCE, PRODUCE_VERSION, number)
        timeout_ms = int(REQUEST_TIMEOUT_S * 1000)
        body = encode_produce(link.batches, acks=self.acks, timeout_ms=timeout_ms)
        counts, link.counts, link.batches = link.counts, {}, {}
        self.sent.update(counts)
        self.sent_bytes += link.size
        link.size = 0
        link.in_flight.append((number, counts))
        link.connection.send([header, *body])

    def _receive(self, link: _Link) -> None:
        frame = link.connection.receive(REQUEST_TIMEOUT_S)
        number, counts = link.in_flight.popleft()
        if frame.correlation_id != number:
            self.unknown.update(counts)
            raise ProtocolError("an answer belongs to another request")
        for item in decode_produce(frame.buffer):
            partition = TopicPartition(TopicName(item.topic), PartitionId(item.partition))
            records = counts.get(partition, 0)
            if item.error == 0:
                self.acknowledged[partition] += records
            else:
                self.refused[partition] += records
                self.last_error = BrokerError(
                    "a batch was refused", kafka_code=item.error, partition=str(partition)
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            self.close()


def _endpoint(text: str) -> Endpoint:
    host, _, port = text.strip().rpartition(":")
    return Endpoint(host, int(port))
