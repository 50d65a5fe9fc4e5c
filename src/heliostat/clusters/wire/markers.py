"""WriteTxnMarkers requests and answers (WriteTxnMarkersRequest.json), packed by hand.

A marker takes one offset, and no reader sees it. It may name an unknown producer id, and then ends
no transaction. The request needs ALTER (from 3.7 on) or CLUSTER_ACTION on the cluster. Markers are
appended one by one, in the order of the request; brokers don't recognise repeated ones. A late one
is fenced by its coordinator epoch: one below the last that a partition has seen for the producer id
is refused (`ProducerAppendInfo.checkCoordinatorEpoch`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heliostat.clusters.wire.primitives import (
    Buffer,
    compact_string,
    read_compact_string,
    read_uvarint,
    skip_tagged_fields,
    uvarint,
)
from heliostat.errors import ProtocolError

API_KEY = 27
VERSIONS = (1,)
"""From v2 on a marker has the version of the transaction that it ends; ours end none."""
PRODUCER_EPOCH = 0
_COMMIT = b"\x01"
_PRODUCER = struct.Struct(">qh")
_INT32 = struct.Struct(">i")
_ANSWER = struct.Struct(">ih")  # partition, error


@dataclass(frozen=True, slots=True)
class Markers:
    """`count` markers for one partition."""

    topic: str
    partition: int
    count: int
    coordinator_epoch: int


def encode_markers(producer_id: int, wanted: Sequence[Markers]) -> bytes:
    """Body of a request; each partition gets its markers one after the other."""
    entries: list[bytes] = []
    for number in range(max((partition_markers.count for partition_markers in wanted), default=0)):
        left = [
            partition_markers for partition_markers in wanted if partition_markers.count > number
        ]
        for epoch in sorted({partition_markers.coordinator_epoch for partition_markers in left}):
            some = [
                partition_markers
                for partition_markers in left
                if partition_markers.coordinator_epoch == epoch
            ]
            entries.append(_entry(producer_id, epoch, some))
    return uvarint(len(entries) + 1) + b"".join(entries) + b"\x00"


def _entry(producer_id: int, epoch: int, markers: Sequence[Markers]) -> bytes:
    topics: dict[str, list[int]] = {}
    for partition_markers in markers:
        topics.setdefault(partition_markers.topic, []).append(partition_markers.partition)
    out = bytearray(_PRODUCER.pack(producer_id, PRODUCER_EPOCH) + _COMMIT)
    out += uvarint(len(topics) + 1)
    for topic, partitions in topics.items():
        out += compact_string(topic) + uvarint(len(partitions) + 1)
        for partition in partitions:
            out += _INT32.pack(partition)
        out += b"\x00"
    return bytes(out + _INT32.pack(epoch) + b"\x00")


def decode_markers(buffer: Buffer, position: int) -> Mapping[tuple[str, int], int]:
    """Errors by topic and partition; `position` is the one after the correlation id.

    Of several markers of one producer and partition the broker returns only the last one's error
    (`KafkaApis.handleWriteTxnMarkersRequest`): only the log end shows how many landed.

    Raises
    ------
    ProtocolError
        The bytes do not follow the format.
    """
    errors: dict[tuple[str, int], int] = {}
    try:
        position = skip_tagged_fields(buffer, position)
        markers, position = read_uvarint(buffer, position)
        for _ in range(markers - 1):
            topics, position = read_uvarint(buffer, position + 8)
            for _ in range(topics - 1):
                topic, position = read_compact_string(buffer, position)
                count, position = read_uvarint(buffer, position)
                for _ in range(count - 1):
                    partition, error = _ANSWER.unpack_from(buffer, position)
                    position = skip_tagged_fields(buffer, position + _ANSWER.size)
                    key = (topic or "", partition)
                    errors[key] = errors.get(key) or error
                position = skip_tagged_fields(buffer, position)
            position = skip_tagged_fields(buffer, position)
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("an answer about markers is malformed", why=str(error)) from error
    return errors
