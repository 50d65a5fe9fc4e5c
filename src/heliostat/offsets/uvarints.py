"""Many unsigned varints at once (seven bits a byte, lowest first): maps have thousands."""

from __future__ import annotations

from typing import Any

BITS, MORE = 7, 0x80
BYTES_MAX = 10
"""The longest varint of a 64-bit number."""


def encode_uvarints(numbers: Any) -> bytes:
    """Encode an array of uint64, one number after the other."""
    import numpy as np

    if not len(numbers):
        return b""
    shifts = np.arange(BYTES_MAX, dtype=np.uint64) * np.uint64(BITS)
    groups = numbers[:, None] >> shifts
    is_there = groups != 0
    is_there[:, 0] = True
    is_followed = np.zeros_like(is_there)
    is_followed[:, :-1] = is_there[:, 1:]
    out = (groups & np.uint64(MORE - 1)).astype(np.uint8) | (is_followed * np.uint8(MORE))
    return bytes(out[is_there])


def decode_uvarints(data: Any) -> Any | None:
    """Decode an array of uint8 to one of uint64; None if one is cut off or too long."""
    import numpy as np

    ends = np.flatnonzero(data < MORE) + 1
    if not len(data):
        return np.empty(0, np.uint64)
    if not len(ends) or ends[-1] != len(data):
        return None
    starts = np.concatenate([[0], ends[:-1]])
    sizes = ends - starts
    if sizes.max() > BYTES_MAX:
        return None
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    groups = (data & (MORE - 1)).astype(np.uint64) << (places * BITS).astype(np.uint64)
    return np.add.reduceat(groups, starts)
