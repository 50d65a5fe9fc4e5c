"""Single batches of many partitions, read beside the copy: what stands at these offsets.

Brokers give the first batch of an answer whole, whatever its size, and of every further partition
none that is larger than what was asked for it (KIP-74): what came empty is asked for again, with
more room.
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
"""Of one request."""
SMALL_BATCH_BYTES = 16 * 1024
"""What most partitions' last batch fits into, of those that wrote nothing for a day."""
ANSWER_BYTES_MAX = 32 * 1024 * 1024
STRETCH_BYTES = 256 * 1024
"""Of small batches behind each other, where only the last one with records counts."""
SILENT_S = 2.0
"""Longest wait for the next bytes of an answer: whoever copies waits, too (I7)."""
NO_SUCH_OFFSET = b""
Batches = dict[int, bytes | None]
Place = TypeVar("Place")


class BatchAt(NamedTuple):
    """A place of a log."""

    partition: TopicPartition
    topic_id: TopicId | None
    offset: Offset


def read_batches(
    cluster: WireCluster,
    broker: BrokerId,
    places: Mapping[int, BatchAt],
    room: int = SMALL_BATCH_BYTES,
) -> Batches:
    """Read the batches that hold these offsets, or else the next ones behind them.

    Parameters
    ----------
    cluster, broker
        One side, and the leader of all these partitions.
    places
        By any key.
    room
        Bytes asked for of each.

    Returns
    -------
    dict
        A whole batch, or a message of an older format, and those behind it that had room, too, see
        `each_batch`; None where no record is left from there on,
        `NO_SUCH_OFFSET` where the log begins behind or ends before. Missing are those that can't be
        read now, as one that is not committed yet.

    Raises
    ------
    ConnectionLost, ProtocolError
        The broker does not answer, or answers what can't be read.
    """
    found: Batches = {}
    left = sorted(places, key=lambda index: places[index].partition)
    if not left:
        return found
    version = cluster.fetch_version(broker)
    connection = cluster.open_data(broker)
    try:
        asked_bytes = room
        while left:  # ends: each turn decides on the first one at least
            some, later = left[:PARTITIONS_MAX], left[PARTITIONS_MAX:]
            asked = {index: places[index] for index in some}
            left = _ask(connection, version, asked, (asked_bytes, room), found) + later
            asked_bytes = room if later else ANSWER_BYTES_MAX
    except ConnectionLost:
        cluster.doubt(broker)
        raise
    finally:
        connection.close()
    return found


def by_leader(
    leaders: Mapping[int, BrokerId], places: Mapping[int, Place]
) -> dict[BrokerId, dict[int, Place]]:
    """What to ask each broker; what has no leader now is missing."""
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
    """Read from all leaders of a side that answer; see `read_batches`."""
    found: Batches = {}
    for broker, some in by_leader(leaders, places).items():
        with contextlib.suppress(ConnectionLost, ProtocolError):  # missing: can't be read now
            found |= read_batches(cluster, broker, some, room)
    return found


def each_batch(data: bytes) -> Iterator[bytes]:
    """The whole batches of what was read, in their order."""
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
    """One request; those that came empty and are to be asked again.

    `room` is what is asked for of each, and what is kept of it if that is more than one batch.
    """
    keys = {_key(version, place): index for index, place in places.items()}
    body = fetch.encode_fetch(
        version,
        [
            fetch.FetchPartition(
                at.partition.topic, at.topic_id, at.partition.partition, at.offset, room[0]
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
