"""Reads single batches at given offsets of many partitions, on connections of their own.

Brokers return the first batch of an answer whole, whatever its size, and for every further
partition no batch larger than its limit (KIP-74): partitions that came empty are requested again,
with a higher limit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import ConnectionLost, ProtocolError
from heliostat.names import BrokerId, Offset, TopicId, TopicPartition
from heliostat.records.batches.batch import MAGIC_AT, claimed_size

PARTITIONS_MAX = 2_000
"""Most partitions of one request."""
SMALL_BATCH_BYTES = 16 * 1024
"""Limit that fits the last batch of most partitions idle for a day."""
ANSWER_BYTES_MAX = 32 * 1024 * 1024
STRETCH_BYTES = 256 * 1024
"""Limit for a run of small batches of which only the last one with records counts."""
SILENT_S = 2.0
"""Longest wait for the next bytes of an answer: copying waits meanwhile (I7)."""
NO_SUCH_OFFSET = b""
Batches = dict[int, bytes | None]
Place = TypeVar("Place")


class BatchAt(NamedTuple):
    """An offset in a partition of a topic with that id."""

    partition: TopicPartition
    topic_id: TopicId | None
    offset: Offset
    leader_epoch: int = -1
    """The newest known; -1: unknown."""


def read_batches(
    cluster: WireCluster,
    broker: BrokerId,
    places: Mapping[int, BatchAt],
    room: int = SMALL_BATCH_BYTES,
) -> Batches:
    """Read the batches that hold these offsets, or else the next ones.

    Parameters
    ----------
    cluster, broker
        The cluster, and the leader of all these partitions.
    places
        Offsets to read, by any key.
    room
        Bytes requested per partition.

    Returns
    -------
    dict
        A whole batch, or a message of an older format, and the following ones that fit into `room`,
        see `each_batch`; None where no batch is left from the offset on, `NO_SUCH_OFFSET` where the
        log starts after it or ends before it. Partitions that can't be read now are missing, e.g.
        if the offset is not below the high watermark yet.

    Raises
    ------
    ConnectionLost, ProtocolError
        The broker does not answer, or its answer can't be parsed.
    """
    found: Batches = {}
    left = sorted(places, key=lambda index: places[index].partition)
    if not left:
        return found
    version = cluster.fetch_version(broker)
    connection = cluster.open_data(broker)
    try:
        asked_bytes = room
        while left:  # ends: each turn settles at least the first one
            some, later = left[:PARTITIONS_MAX], left[PARTITIONS_MAX:]
            asked = {index: _led_now(cluster, places[index]) for index in some}
            left = _ask(connection, version, asked, (asked_bytes, room), found) + later
            asked_bytes = room if later else ANSWER_BYTES_MAX
    except ConnectionLost:
        cluster.doubt(broker)
        raise
    finally:
        connection.close()
    return found


def _led_now(cluster: WireCluster, place: BatchAt) -> BatchAt:
    return place._replace(leader_epoch=cluster.epochs.of(place.partition))


def by_leader(
    leaders: Mapping[int, BrokerId], places: Mapping[int, Place]
) -> dict[BrokerId, dict[int, Place]]:
    """Group `places` by leader; partitions without a leader now are left out."""
    found: dict[BrokerId, dict[int, Place]] = {}
    for index, place in places.items():
        if index in leaders:
            found.setdefault(leaders[index], {})[index] = place
    return found


def read_led(
    cluster: WireCluster,
    leaders: Mapping[int, BrokerId],
    places: Mapping[int, BatchAt],
    room: int = SMALL_BATCH_BYTES,
) -> Batches:
    """Read from all leaders of a cluster that answer; see `read_batches`."""
    found: Batches = {}
    for broker, some in by_leader(leaders, places).items():
        with contextlib.suppress(ConnectionLost, ProtocolError):  # missing: can't be read now
            found |= read_batches(cluster, broker, some, room)
    return found


def each_batch(data: bytes) -> Iterator[bytes]:
    """Yield the whole batches in `data`, in order."""
    at = 0
    while MAGIC_AT < (size := claimed_size(data, at, len(data)) or 0) <= len(data) - at:
        yield data[at : at + size]
        at += size


def _ask(
    connection: Connection,
    version: int,
    places: Mapping[int, BatchAt],
    room: tuple[int, int],
    found: Batches,
) -> list[int]:
    """Send one request, add results to `found`, and return the partitions to request again.

    `room` is the bytes requested per partition, and the bytes kept of it (at least one batch).
    """
    keys = {_key(version, place): index for index, place in places.items()}
    body = fetch.encode_fetch(
        version,
        [
            fetch.FetchPartition(
                at.partition.topic,
                at.topic_id,
                at.partition.partition,
                at.offset,
                room[0],
                leader_epoch=at.leader_epoch,
            )
            for at in places.values()
        ],
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES_MAX,
        read_committed=False,
    )
    number = connection.next_correlation_id()
    client_id = connection.settings.client_id
    connection.send(
        [request_header(fetch.API_KEY, version, number, client_id, flexible=True), body]
    )
    buffer = connection.receive(connection.settings.request_timeout_s, SILENT_S).buffer
    first = next(iter(places))
    again: list[int] = []
    for got in fetch.decode_fetch(version, buffer, 4).partitions:
        index = keys.get((got.topic, got.partition))
        if index is not None and got.error == OFFSET_OUT_OF_RANGE:
            found[index] = NO_SUCH_OFFSET
            continue
        if index is None or got.error or got.high_watermark <= places[index].offset:
            continue
        size = claimed_size(buffer, got.start, got.end) or 0
        if MAGIC_AT < size <= got.end - got.start:
            end = min(got.end, got.start + max(size, room[1]))
            found[index] = bytes(buffer[got.start : end])
        elif index == first:
            found[index] = None  # the first one's batch would have come, whatever its size
        else:
            again.append(index)
    return again


def _key(version: int, place: BatchAt) -> tuple[str | TopicId, int]:
    by_id = version >= fetch.BY_ID_FROM and place.topic_id
    topic = place.topic_id if by_id and place.topic_id else place.partition.topic
    return topic, place.partition.partition
