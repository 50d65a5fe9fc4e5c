"""Records compared without their schema ids, where a link puts the target's own in their place.

Both sides' records are then equal but for the four bytes behind a zero byte. That is enough to tell
whose records a log holds; whether the ids are right, `verify` tells.
"""

from __future__ import annotations

FRAME_BYTES = 5
"""A zero byte and an id (`SchemaId` of Confluent's clients)."""
_NO_ID = bytes(FRAME_BYTES)


def without_id(content: bytes | None) -> bytes | None:
    """Return a key or value with an id of 0, if it begins as one with an id does."""
    if content is None or len(content) < FRAME_BYTES or content[0]:
        return content
    return _NO_ID + content[FRAME_BYTES:]
