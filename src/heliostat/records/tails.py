"""Who appended the last records of target partitions: the headers of their last batches.

A broker that has forgotten our producer takes any first sequence (KIP-98; it forgets by record
timestamp), so a foreign record at the end would become part of the mirror unseen. Therefore it is
looked at before copying goes on behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.clusters.wire import fetch
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import ConnectionLost, ProtocolError
from heliostat.invariants import SEQUENCE_MODULUS
from heliostat.names import BrokerId, Offset, TopicId
from heliostat.records.batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader
from heliostat.records.lane import PartitionSpec
from heliostat.records.network import Tail

PARTITIONS_MAX = 2_000
"""Of one request: an answer of 61 bytes each, the first one's batch whole."""
ANSWER_BYTES_MAX = 32 * 1024 * 1024


def read_tails(
    cluster: WireCluster,
    broker: BrokerId,
    specs: Mapping[int, PartitionSpec],
    ends: Mapping[int, Offset],
) -> dict[int, Tail]:
    """Read the headers of the batches that hold the record before each end.

    Parameters
    ----------
    cluster, broker
        The target, and the leader of all these partitions.
    specs, ends
        Partitions by any key, and the log ends of those to look at.

    Returns
    -------
    dict
        Those that could be read; a tail that is not committed yet can't. Where a mirror that was
        taken over still ends as it did then, the record before is known not to be ours.
    """
    found: dict[int, Tail] = {}
    asked = [index for index, end in ends.items() if specs[index].adopted_at != end]
    indexes = sorted(asked, key=lambda index: specs[index].target)
    try:
        connection = cluster.open_data(broker)
    except ConnectionLost:
        return found
    try:
        for at in range(0, len(indexes), PARTITIONS_MAX):
            some = indexes[at : at + PARTITIONS_MAX]
            found |= _read(cluster.fetch_version(broker), connection, specs, some, ends)
    except (ConnectionLost, ProtocolError):
        return found  # what could not be read is told by the copying that follows
    finally:
        connection.close()
    return found


def _read(
    version: int,
    connection: Connection,
    specs: Mapping[int, PartitionSpec],
    indexes: Sequence[int],
    ends: Mapping[int, Offset],
) -> dict[int, Tail]:
    by_id = version >= fetch.BY_ID_FROM
    keys: dict[tuple[str | TopicId, int], int] = {}
    wanted: list[fetch.FetchPartition] = []
    for index in indexes:
        spec = specs[index]
        topic = spec.target_topic_id if by_id and spec.target_topic_id else spec.target.topic
        keys[topic, spec.target.partition] = index
        wanted.append(
            fetch.FetchPartition(
                spec.target.topic,
                spec.target_topic_id,
                spec.target.partition,
                ends[index] - 1,
                HEADER_BYTES,
            )
        )
    body = fetch.encode_fetch(
        version,
        wanted,
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
    buffer = connection.receive(connection.settings.request_timeout_s).buffer
    found: dict[int, Tail] = {}
    for got in fetch.decode_fetch(version, buffer, 4).partitions:
        found_index = keys.get((got.topic, got.partition))
        if found_index is None or got.error or got.end - got.start < HEADER_BYTES:
            continue
        header = BatchHeader._make(HEADER.unpack_from(buffer, got.start))
        if header.magic == MAGIC and header.next_offset == ends[found_index]:
            sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCE_MODULUS
            found[found_index] = Tail(header.producer_id, sequence)
    return found
