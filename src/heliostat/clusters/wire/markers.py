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
    for number in range(max((each.count for each in wanted), default=0)):
        left = [each for each in wanted if each.count > number]
        for epoch in sorted({each.coordinator_epoch for each in left}):
            some = [each for each in left if each.coordinator_epoch == epoch]
            entries.append(_entry(producer_id, epoch, some))
    return uvarint(len(entries) + 1) + b"".join(entries) + b"\x00"


def _entry(producer_id: int, epoch: int, markers: Sequence[Markers]) -> bytes:
    topics: dict[str, list[int]] = {}
    for each in markers:
        topics.setdefault(each.topic, []).append(each.partition)
    out = bytearray(_PRODUCER.pack(producer_id, PRODUCER_EPOCH) + _COMMIT)
    out += uvarint(len(topics) + 1)
    for topic, partitions in topics.items():
        out += compact_string(topic) + uvarint(len(partitions) + 1)
        for partition in partitions:
            out += _INT32.pack(partition)
        out += b"\x00"
    return bytes(out + _INT32.pack(epoch) + b"\x00")


def decode_markers(buffer: Buffer, at: int) -> Mapping[tuple[str, int], int]:
    """Errors by topic and partition; `at` is the position after the correlation id.

    Of several markers of one producer and partition the broker returns only the last one's error
    (`KafkaApis.handleWriteTxnMarkersRequest`): only the log end shows how many landed.

    Raises
    ------
    ProtocolError
        The bytes do not follow the format.
    """
    found: dict[tuple[str, int], int] = {}
    try:
        at = skip_tagged_fields(buffer, at)
        markers, at = read_uvarint(buffer, at)
        for _ in range(markers - 1):
            topics, at = read_uvarint(buffer, at + 8)
            for _ in range(topics - 1):
                topic, at = read_compact_string(buffer, at)
                count, at = read_uvarint(buffer, at)
                for _ in range(count - 1):
                    partition, error = _ANSWER.unpack_from(buffer, at)
                    at = skip_tagged_fields(buffer, at + _ANSWER.size)
                    key = (topic or "", partition)
                    found[key] = found.get(key) or error
                at = skip_tagged_fields(buffer, at)
            at = skip_tagged_fields(buffer, at)
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("an answer about markers is malformed", why=str(error)) from error
    return found
