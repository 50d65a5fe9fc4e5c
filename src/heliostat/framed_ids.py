"""Schema ids that keys and values begin with, one by one; answers are searched by compiled code.

A frame is a byte 0 and an id (int32, big endian); shorter values and nulls have none, nor have
negative ids (`SchemaId` and `AbstractKafkaSchemaSerDe` of Confluent's clients).
"""

from __future__ import annotations

FRAME_BYTES = 5
"""A zero byte and an id. The payload may be empty, as that of Avro's null is."""
_NO_ID = bytes(FRAME_BYTES)


def framed_id(content: bytes | None) -> int | None:
    """Return the schema id that a key or value begins with; None: it has none."""
    if content is None or len(content) < FRAME_BYTES or content[0] or content[1] > 127:
        return None
    return int.from_bytes(content[1:FRAME_BYTES], "big")


def without_id(content: bytes | None) -> bytes | None:
    """Return a key or value with an id of 0, if it begins as one with an id does.

    Where a link puts the target's ids into records, both sides' are equal but for these bytes. That
    is enough to tell whose records a log holds; whether the ids are right, `verify` tells.
    """
    if content is None or len(content) < FRAME_BYTES or content[0]:
        return content
    return _NO_ID + content[FRAME_BYTES:]
