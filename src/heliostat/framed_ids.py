"""Schema ids of records, one by one; answers are searched by compiled code.

Where Confluent's serializers put them (`SchemaId`, `DualSchemaIdDeserializer`):

- In front of a key or value: a byte 0 and an id (int32, big endian). Shorter values and nulls have
  none, nor have negative ids.
- In a header, `__key_schema_id` or `__value_schema_id`: the same, or a byte 1 and a GUID (16
  bytes), which stands for a schema's content in every registry. Then nothing is in front of the key
  or value.

A GUID is known by a negative number that is made of its first 63 bits; ids are not negative.
"""

from __future__ import annotations

from collections.abc import Iterable

FRAME_BYTES = 5
"""A zero byte and an id. The payload may be empty, as that of Avro's null is."""
GUID_BYTES = 16
GUID_FRAME_BYTES = 1 + GUID_BYTES
"""A byte 1 and a GUID; behind it may be more, as Protobuf's message indexes are."""
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
_GUID_MAGIC = 1
_HASHED_BYTES = 8
_NO_ID = bytes(FRAME_BYTES)
_NO_GUID = bytes([_GUID_MAGIC]) + bytes(GUID_BYTES)
Headers = Iterable[tuple[str, bytes | None]]


def framed_id(content: bytes | None) -> int | None:
    """Return the schema id that a key or value begins with; None: it has none."""
    if content is None or len(content) < FRAME_BYTES or content[0] or content[1] > 127:
        return None
    return int.from_bytes(content[1:FRAME_BYTES], "big")


def guid_number(guid: bytes) -> int:
    """Return the number that a GUID is known by."""
    return ~(int.from_bytes(guid[:_HASHED_BYTES], "big") >> 1)


def id_in_header(content: bytes | None) -> int | None:
    """Return the id, or a GUID's number, that a header for one has; None: it has none."""
    if content and _begins_with_guid(content):
        return guid_number(content[1:GUID_FRAME_BYTES])
    return framed_id(content)


def ids_of_record(
    key: bytes | None, value: bytes | None, headers: Headers
) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Return the ids in front of a key and a value, and those in headers.

    What has an id in a header has none in front of it.
    """
    header_ids = [
        (name, number)
        for name, content in headers
        if name in (KEY_HEADER, VALUE_HEADER) and (number := id_in_header(content)) is not None
    ]
    named = {name for name, _ in header_ids}
    return (
        None if KEY_HEADER in named else framed_id(key),
        None if VALUE_HEADER in named else framed_id(value),
        tuple(number for _, number in header_ids),
    )


def shown_id(number: int) -> str:
    """Return how an id, or what a GUID is known by, is named to people."""
    if number >= 0:
        return str(number)
    digits = f"{~number << 1:016x}"[:15]  # of the last one a bit is missing
    return f"GUID {digits[:8]}-{digits[8:12]}-{digits[12:]}..."


def without_id(content: bytes | None) -> bytes | None:
    """Return a key or value with an id of 0, if it begins as one with an id does.

    Where a link puts the target's ids into records, both sides' are equal but for these bytes. That
    is enough to tell whose records a log holds; whether the ids are right, `verify` tells.
    """
    if content is None or len(content) < FRAME_BYTES or content[0]:
        return content
    return _NO_ID + content[FRAME_BYTES:]


def headers_without_ids(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers with an id or GUID of 0 in those that are for one."""
    return tuple(
        (name, _without(content) if name in (KEY_HEADER, VALUE_HEADER) else content)
        for name, content in headers
    )


def _begins_with_guid(content: bytes) -> bool:
    return content[0] == _GUID_MAGIC and len(content) >= GUID_FRAME_BYTES


def _without(content: bytes | None) -> bytes | None:
    if content and _begins_with_guid(content):
        return _NO_GUID + content[GUID_FRAME_BYTES:]
    return without_id(content)
