"""Partitions that accept raw appends and fetches: the simulation's model, and a real broker.

The same scripts run on both, see `support.log_contract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sim.log_answers import Answer, FetchOf, fetch, list_offset
from sim.partition_log import PartitionLog
from support.clusters import create_topic

from heliostat.clusters.admin import EARLIEST, LATEST, ListedOffset
from heliostat.clusters.wire import fetch as wire_fetch
from heliostat.clusters.wire import markers, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.fetch import FetchPartition
from heliostat.clusters.wire.primitives import Buffer, request_header
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Offset, PartitionId, TopicPartition
from heliostat_sandbox import Cluster

TIMEOUT_S = 20
NOW_MS = 1_750_000_000_000


class Place(NamedTuple):
    """One partition of a fetch request."""

    number: int
    offset: int
    bytes_max: int = 1 << 20
    last_epoch: int = -1


class LogSide(Protocol):
    """Partitions of one topic."""

    was_known: bool
    """Whether the last append was answered as a duplicate."""

    def append(self, data: bytes, number: int = 0) -> tuple[int, int]:
        """Append a batch; return error code and base offset."""
        ...

    def mark(self, pid: int, epoch: int = 0, *, coordinator_epoch: int = 0) -> int:
        """End a transaction in partition 0, open or not; return an error code."""
        ...

    def fetch(
        self, places: Sequence[Place], bytes_max: int = 1 << 24, *, committed: bool = False
    ) -> list[Answer]: ...

    def delete_before(self, offset: int) -> int:
        """Delete records of partition 0; return an error code."""
        ...

    def bounds(self) -> tuple[int, int]:
        """Return start and end of partition 0."""
        ...


class ModelSide:
    """See `LogSide`."""

    def __init__(self, partitions: int = 1) -> None:
        self.logs = [PartitionLog() for _ in range(partitions)]
        self.was_known = False

    def append(self, data: bytes, number: int = 0) -> tuple[int, int]:
        answer = self.logs[number].append(data)
        self.was_known = self.logs[number].was_known
        return answer

    def mark(self, pid: int, epoch: int = 0, *, coordinator_epoch: int = 0) -> int:
        return self.logs[0].end_transaction(
            pid, epoch, NOW_MS, commit=True, coordinator_epoch=coordinator_epoch
        )

    def fetch(
        self, places: Sequence[Place], bytes_max: int = 1 << 24, *, committed: bool = False
    ) -> list[Answer]:
        wants = [FetchOf(self.logs[p.number], p.offset, p.bytes_max, p.last_epoch) for p in places]
        return fetch(wants, bytes_max, committed=committed)

    def delete_before(self, offset: int) -> int:
        return self.logs[0].delete_before(offset)

    def bounds(self) -> tuple[int, int]:
        found = [list_offset(self.logs[0], spec) for spec in (EARLIEST, LATEST)]
        start, end = [row.offset for row in found if isinstance(row, ListedOffset)]
        return start, end


@dataclass
class BrokerSide:
    """See `LogSide`; with fresh partitions on the one broker of a cluster."""

    cluster: Cluster
    partitions: int = 1
    was_known: bool = False

    def __post_init__(self) -> None:
        self.topic = create_topic(self.cluster, partitions=self.partitions)
        self.dial()

    def dial(self) -> None:
        """Connect, again after a restart of the broker."""
        self._wire = WireCluster(self.cluster.bootstrap, DialSettings())
        leaders = self._wire.metadata([self.topic])[self.topic]
        self._id = leaders.topic_id
        self.epoch = leaders.partitions[PartitionId(0)].epoch
        self._broker = leaders.partitions[PartitionId(0)].broker
        self._version = self._wire.produce_version(self._broker)
        self._connection = self._wire.open_data(self._broker)

    def redial(self) -> int:
        """Return its leader epoch after a restart, once it leads; 0 before."""
        try:
            self.dial()
        except (ConnectionLost, KeyError):
            return 0
        return self.epoch

    def close(self) -> None:
        self._connection.close()
        self._wire.close()

    def _ask(self, key: int, version: int, parts: Sequence[Buffer]) -> Buffer:
        number = self._connection.next_correlation_id()
        header = request_header(key, version, number, "contract", flexible=True)
        self._connection.send([header, *parts])
        return self._connection.receive(TIMEOUT_S).buffer

    def append(self, data: bytes, number: int = 0) -> tuple[int, int]:
        sent = produce.ProducePartition(self.topic, self._id, number, [data], len(data))
        body = produce.encode_produce(self._version, [sent], timeout_ms=10_000)
        buffer = self._ask(produce.API_KEY, self._version, body)
        [answer], _ = produce.decode_produce(self._version, buffer, 4)
        self.was_known = answer.log_append_time_ms >= 0
        return answer.error, answer.base_offset

    def mark(self, pid: int, epoch: int = 0, *, coordinator_epoch: int = 0) -> int:
        assert not epoch, "the product's markers are of epoch 0"
        body = markers.encode_markers(pid, [markers.Markers(self.topic, 0, 1, coordinator_epoch)])
        return markers.decode_markers(self._ask(markers.API_KEY, 1, [body]), 4)[self.topic, 0]

    def fetch(
        self, places: Sequence[Place], bytes_max: int = 1 << 24, *, committed: bool = False
    ) -> list[Answer]:
        version = wire_fetch.VERSIONS[-1]
        wants = [
            FetchPartition(self.topic, self._id, p.number, p.offset, p.bytes_max, p.last_epoch)
            for p in places
        ]
        body = wire_fetch.encode_fetch(
            version,
            wants,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=bytes_max,
            read_committed=committed,
        )
        buffer = self._ask(wire_fetch.API_KEY, version, [body])
        told = wire_fetch.decode_fetch(version, buffer, 4)
        assert not told.error
        answers = {
            each.partition: Answer(
                each.error,
                each.high_watermark,
                each.last_stable_offset,
                each.log_start,
                bytes(buffer[each.start : each.end]),
                each.aborted,
                each.diverging_epoch,
            )
            for each in told.partitions
        }
        return [answers[place.number] for place in places]

    def delete_before(self, offset: int) -> int:
        partition = TopicPartition(self.topic, PartitionId(0))
        try:
            self._wire.delete_records(self._broker, partition, Offset(offset))
        except BrokerError as refused:
            return refused.kafka_code
        return 0

    def bounds(self) -> tuple[int, int]:
        partition = TopicPartition(self.topic, PartitionId(0))
        starts, ends = self._wire.list_ranges(self._broker, [partition])
        start, end = starts[partition], ends[partition]
        assert not isinstance(start, BrokerError)
        assert not isinstance(end, BrokerError)
        return start, end
