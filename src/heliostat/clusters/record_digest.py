"""Digests of records, to compare the contents of two logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

DIGEST_BYTES = 16
"""Two of a million different records have equal digests once in 10^26 comparisons."""


def digest_of(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    timestamp_ms: int | None,
) -> bytes:
    """Digest of a record; without a timestamp if the target stamps its own."""
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
    parts: list[bytes | None] = [key, value]
    for name, content in headers:
        parts += [name.encode(), content]
    for part in parts:
        hasher.update(b"-" if part is None else b"%d:" % len(part) + part)
    hasher.update(b"@%d" % (-1 if timestamp_ms is None else timestamp_ms))
    return hasher.digest()
