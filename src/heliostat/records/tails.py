"""Who appended the last records of target partitions, asked before anything is appended there.

A broker that has forgotten our producer takes any first sequence (KIP-98; it forgets by record
timestamp), so a foreign record at the end would become part of the mirror unseen. Where the leader
remembers us its own word is enough; else the log's last batch is read.

Brokers give the first batch of an answer whole, whatever its size, and of every further partition
none that is larger than what was asked for it (KIP-74): what came empty is asked for again, with
more room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import ConnectionLost, ProtocolError
from heliostat.invariants import SEQUENCE_MODULUS, sequence_of
from heliostat.names import BrokerId, Offset, TopicId
from heliostat.records.batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader
from heliostat.records.lane import PartitionSpec
from heliostat.records.network import LogRange, Tail

PARTITIONS_MAX = 2_000
"""Of one request."""
SMALL_BATCH_BYTES = 16 * 1024
"""What most partitions' last batch fits into, of those that wrote nothing for a day."""
ANSWER_BYTES_MAX = 32 * 1024 * 1024
NOBODY = Tail(-1, -1)
"""Of records in a format that has no producers."""
Tails = dict[int, Tail | None]


def read_tails(
    cluster: WireCluster,
    broker: BrokerId,
    specs: Mapping[int, PartitionSpec],
    ranges: Mapping[int, LogRange],
    producer_id: int,
) -> Tails:
    """Tell who wrote the last record of logs.

    Parameters
    ----------
    cluster, broker
        The target, and the leader of all these partitions.
    specs, ranges
        Partitions by any key, and what is in the logs of those to look at.
    producer_id
        Ours.

    Returns
    -------
    dict
        None where no record is left to tell it by and the broker does not remember us. Missing are
        those that can't be told now, as one that is not committed yet.
    """
    try:
        partitions = {index: specs[index].target for index in ranges}
        sequences = cluster.last_sequences(broker, list(partitions.values()))
        known = {
            index: Tail(producer_id, sequences[partition][producer_id])
            for index, partition in partitions.items()
            if producer_id in sequences.get(partition, ())
        }
        found: Tails = {
            index: tail
            for index, tail in known.items()
            if tail.sequence == sequence_of(ranges[index].end - 1)
        }
        asked = [index for index in ranges if index not in found]
        read = _Batches(cluster, broker, specs, ranges).read(asked)
    except (ConnectionLost, ProtocolError):
        return {}
    for index, tail in read.items():
        # That the record is gone does not hide that it was none of ours.
        found[index] = known.get(index) if tail is None else tail
    return found


class _Batches:
    """The last batches of partitions, read over a connection of its own."""

    def __init__(
        self,
        cluster: WireCluster,
        broker: BrokerId,
        specs: Mapping[int, PartitionSpec],
        ranges: Mapping[int, LogRange],
    ) -> None:
        self._cluster = cluster
        self._broker = broker
        self._specs = specs
        self._ranges = ranges
        self._version = cluster.fetch_version(broker)

    def read(self, indexes: Sequence[int]) -> Tails:
        """Read those; see `read_tails` for the answer."""
        empty = [i for i in indexes if self._ranges[i].start >= self._ranges[i].end]
        found: Tails = dict.fromkeys(empty)
        left = sorted(set(indexes) - set(empty), key=lambda index: self._specs[index].target)
        if not left:
            return found
        connection = self._cluster.open_data(self._broker)
        try:
            room = SMALL_BATCH_BYTES
            while left:  # ends: each turn decides on the first one at least
                some, later = left[:PARTITIONS_MAX], left[PARTITIONS_MAX:]
                left = self._ask(connection, some, room, found) + later
                room = SMALL_BATCH_BYTES if later else ANSWER_BYTES_MAX
        finally:
            connection.close()
        return found

    def _ask(
        self, connection: Connection, indexes: Sequence[int], room: int, found: Tails
    ) -> list[int]:
        """One request; those that came empty and are to be asked again."""
        keys = {self._key(index): index for index in indexes}
        body = fetch.encode_fetch(
            self._version,
            [self._wanted(index, room) for index in indexes],
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=ANSWER_BYTES_MAX,
            read_committed=False,
        )
        number = connection.next_correlation_id()
        client_id = connection.settings.client_id
        connection.send(
            [request_header(fetch.API_KEY, self._version, number, client_id, flexible=True), body]
        )
        buffer = connection.receive(connection.settings.request_timeout_s).buffer
        again: list[int] = []
        for got in fetch.decode_fetch(self._version, buffer, 4).partitions:
            index = keys.get((got.topic, got.partition))
            if index is None or got.error or got.high_watermark < self._ranges[index].end:
                continue
            if got.end - got.start >= HEADER_BYTES:
                header = BatchHeader._make(HEADER.unpack_from(buffer, got.start))
                _take(header, index, self._ranges[index].end, found)
            elif index == indexes[0]:
                found[index] = None  # the first one's batch would have come, whatever its size
            else:
                again.append(index)
        return again

    def _key(self, index: int) -> tuple[str | TopicId, int]:
        spec = self._specs[index]
        by_id = self._version >= fetch.BY_ID_FROM and spec.target_topic_id
        topic = spec.target_topic_id if by_id and spec.target_topic_id else spec.target.topic
        return topic, spec.target.partition

    def _wanted(self, index: int, room: int) -> fetch.FetchPartition:
        spec = self._specs[index]
        return fetch.FetchPartition(
            spec.target.topic,
            spec.target_topic_id,
            spec.target.partition,
            self._ranges[index].end - 1,
            room,
        )


def _take(header: BatchHeader, index: int, end: Offset, found: Tails) -> None:
    """Whose the record before `end` is; one whose log has moved on can't be told."""
    if header.magic != MAGIC:
        found[index] = NOBODY
    elif header.next_offset == end:
        sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCE_MODULUS
        found[index] = Tail(header.producer_id, sequence)
