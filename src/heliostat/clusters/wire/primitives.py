"""The few primitive encodings that the hot path packs by hand (Kafka protocol guide).

Everything here is `(buffer, position) -> (value, position)` or `value -> bytes`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable

from heliostat.names import TopicId, TopicName, TopicPartition

INT32 = struct.Struct(">i")

TOPIC_IDS_MAX = 1 << 16
NO_TAGS = b"\x00"
"""An empty section of tagged fields (KIP-482)."""

Buffer = bytes | bytearray | memoryview


def uvarint(value: int) -> bytes:
    """UNSIGNED_VARINT: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:  # ends: the value shrinks by seven bits a turn
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """UNSIGNED_VARINT at `position`, and the position after it."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while shift < 35:  # five bytes hold 32 bits
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("an unsigned varint has more than five bytes")


def compact_string(text: str) -> bytes:
    """COMPACT_STRING: length + 1 as UNSIGNED_VARINT, then UTF-8."""
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def compact_topics(
    partitions: Iterable[TopicPartition], packed: Callable[[TopicPartition], bytes]
) -> bytes:
    """COMPACT_ARRAY of topics by name, each with its partitions as `packed` returns them."""
    topics: dict[TopicName, list[TopicPartition]] = {}
    for item in partitions:
        topics.setdefault(item.topic, []).append(item)
    out = bytearray(uvarint(len(topics) + 1))
    for topic, members in topics.items():
        out += compact_string(topic)
        out += uvarint(len(members) + 1)
        for partition in members:
            out += packed(partition)
        out += NO_TAGS
    return bytes(out)


def read_topics(
    buffer: Buffer, position: int, read_partition: Callable[[TopicName, int], int]
) -> None:
    """Read a COMPACT_ARRAY of topics by name at `position`, as `compact_topics` packs them.

    `read_partition` gets the topic and the position of a partition's answer, and returns the
    position after it.
    """
    topics, position = read_uvarint(buffer, position)
    for _ in range(topics - 1):
        name, position = read_compact_string(buffer, position)
        topic = TopicName(name or "")
        count, position = read_uvarint(buffer, position)
        for _ in range(count - 1):
            position = read_partition(topic, position)
        position = skip_tagged_fields(buffer, position)


def read_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """COMPACT_NULLABLE_STRING at `position`."""
    length, position = read_uvarint(buffer, position)
    if length == 0:
        return None, position
    end = position + length - 1
    return bytes(buffer[position:end]).decode(), end


def read_topic(buffer: Buffer, position: int, *, by_id: bool) -> tuple[str | TopicId, int]:
    """A topic as an answer names it at `position`: by its id (KIP-516), or by its name."""
    if by_id:
        return _topic_id(bytes(buffer[position : position + 16])), position + 16
    name, position = read_compact_string(buffer, position)
    return name or "", position


@functools.lru_cache(maxsize=TOPIC_IDS_MAX)
def _topic_id(raw: bytes) -> TopicId:
    """Cached, because answers repeat the same ids."""
    return TopicId(bytes=raw)


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """Position after a section of tagged fields (KIP-482), none of which is needed here."""
    if buffer[position] == 0:
        return position + 1
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    return position


def request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str, *, flexible: bool
) -> bytes:
    """Request header v1, or v2 for a flexible version (KIP-482)."""
    raw = client_id.encode()
    fixed = struct.pack(">hhih", api_key, api_version, correlation_id, len(raw)) + raw
    return fixed + b"\x00" if flexible else fixed


CORRELATION_ID_AT = 8
"""Where it is in a whole request: after the size field, the request's key and its version."""


def whole_head(api_key: int, api_version: int, client_id: str) -> bytes:
    """Size field and header of a request of a flexible version, both numbers still 0."""
    return INT32.pack(0) + request_header(api_key, api_version, 0, client_id, flexible=True)


def number_whole(request: bytearray | memoryview, correlation_id: int) -> None:
    """Write the size and the number of a request that begins with `whole_head`."""
    INT32.pack_into(request, 0, len(request) - INT32.size)
    INT32.pack_into(request, CORRELATION_ID_AT, correlation_id)
