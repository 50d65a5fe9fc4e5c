"""Produce requests and answers, packed by hand (ProduceRequest.json / ProduceResponse.json).

v9 names topics, v13 addresses them by id, so that a recreated target topic is never written to by
mistake. A request has one batch for each partition: of two entries of a partition the broker would
silently drop one (KafkaApis keeps them in a map).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from heliostat.clusters.wire.primitives import (
    Buffer,
    compact_string,
    read_compact_string,
    read_topic,
    read_uvarint,
    skip_tagged_fields,
    uvarint,
)
from heliostat.errors import ProtocolError
from heliostat.names import TopicId

API_KEY = 0
VERSIONS = (9, 13)
BY_ID_FROM = 13
ACKS_ALL = -1
COPIED_BYTES_MAX = 4096
"""Copying up to this costs less than passing it to the kernel as a separate buffer."""

PARTITION_BYTES_MAX = 16
"""Bytes of a partition in a request beside its batch and its topic, at most."""
ACKS_AND_TIMEOUT = struct.Struct(">hi")
_PARTITION_ANSWER = struct.Struct(">ihqqq")  # partition, error, base, append time, log start

Parts = Sequence[bytes | bytearray | memoryview]


class ProducePartition(NamedTuple):
    """One batch for one partition; `parts` are its bytes in order, `size` their sum."""

    topic: str
    topic_id: TopicId | None
    partition: int
    parts: Parts
    size: int


class ProducedPartition(NamedTuple):
    """A broker's answer for one batch; `log_append_time_ms` is -1 on a CreateTime topic."""

    topic: str | TopicId
    partition: int
    error: int
    base_offset: int
    log_append_time_ms: int
    message: str
    refused: int = -1
    """Index in the batch of the first record that the broker names as refused (KIP-467), or -1."""


def encode_produce(
    version: int, partitions: Sequence[ProducePartition], *, timeout_ms: int
) -> list[bytes | bytearray | memoryview]:
    """Body of a produce request as buffers to send in order; only small batches are copied."""
    out: list[bytes | bytearray | memoryview] = []
    head = bytearray(b"\x00" + ACKS_AND_TIMEOUT.pack(ACKS_ALL, timeout_ms))
    groups: dict[str, list[ProducePartition]] = {}
    for item in partitions:
        groups.setdefault(item.topic, []).append(item)
    head += uvarint(len(groups) + 1)
    for topic, group in groups.items():
        if version >= BY_ID_FROM:
            topic_id = group[0].topic_id
            if topic_id is None:
                raise ProtocolError("produce v13 needs a topic id", topic=topic)
            head += topic_id.bytes
        else:
            head += compact_string(topic)
        head += uvarint(len(group) + 1)
        for item in group:
            head += struct.pack(">i", item.partition) + uvarint(item.size + 1)
            if item.size <= COPIED_BYTES_MAX:
                for part in item.parts:
                    head += part
            else:
                out.append(head)
                out.extend(item.parts)
                head = bytearray()
            head += b"\x00"
        head += b"\x00"
    head += b"\x00"
    out.append(head)
    return out


def decode_produce(
    version: int, buffer: Buffer, position: int
) -> tuple[list[ProducedPartition], int]:
    """Answers of all partitions, and throttle time in ms; `position` is after the correlation id.

    Raises
    ------
    ProtocolError
        The bytes do not follow the format.
    """
    answers: list[ProducedPartition] = []
    try:
        position = skip_tagged_fields(buffer, position)
        topics, position = read_uvarint(buffer, position)
        for _ in range(topics - 1):
            topic, position = read_topic(buffer, position, by_id=version >= BY_ID_FROM)
            count, position = read_uvarint(buffer, position)
            for _ in range(count - 1):
                answer, position = _partition(topic, buffer, position)
                answers.append(answer)
            position = skip_tagged_fields(buffer, position)
        throttle_ms = struct.unpack_from(">i", buffer, position)[0]
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("a produce answer is malformed", why=str(error)) from error
    return answers, throttle_ms


def _partition(
    topic: str | TopicId, buffer: Buffer, position: int
) -> tuple[ProducedPartition, int]:
    partition, error, base, append_time, _start = _PARTITION_ANSWER.unpack_from(buffer, position)
    position += _PARTITION_ANSWER.size
    messages: list[str] = []
    numbers: list[int] = []
    count, position = read_uvarint(buffer, position)
    for _ in range(count - 1):
        numbers.append(struct.unpack_from(">i", buffer, position)[0])
        text, position = read_compact_string(buffer, position + 4)
        messages.append(text or "")
        position = skip_tagged_fields(buffer, position)
    text, position = read_compact_string(buffer, position)
    position = skip_tagged_fields(buffer, position)
    message = "; ".join(part for part in [text or "", *messages[:3]] if part)
    refused = min(numbers, default=-1)
    return ProducedPartition(topic, partition, error, base, append_time, message, refused), position
