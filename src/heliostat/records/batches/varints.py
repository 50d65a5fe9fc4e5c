"""Kafka's signed varints (zigzag, seven bits a byte, lowest first) as v2 records use them."""

from __future__ import annotations

from heliostat.errors import BatchError
from heliostat.records.batches.crc import Buffer

PAIR_BITS = 14
PAIR_MASK = 16383
LAST = tuple(bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(16384))
"""How an unsigned varint ends: its last one or two bytes."""
MORE = tuple(bytes([n & 127 | 128, n >> 7 | 128]) for n in range(16384))
"""Two bytes that are followed by more."""
VARINT_BYTES_MAX = 10
"""The most that a 64-bit number needs."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def varint(value: int) -> bytes:
    """Encode a signed number of up to 64 bits."""
    rest = value << 1 ^ value >> 63
    if rest <= PAIR_MASK:
        return LAST[rest]
    encoded = b""
    while rest > PAIR_MASK:
        encoded += MORE[rest & PAIR_MASK]
        rest >>= PAIR_BITS
    return encoded + LAST[rest]


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode the number at `position`; return it and the index after it.

    Raises
    ------
    BatchError
        It has more than 64 bits.
    IndexError
        The data ends in the middle of it.
    """
    first, second = data[position], data[position + 1] if data[position] > 127 else 0
    if second < 128:
        value = first & 127 | second << 7
        return value >> 1 ^ -(value & 1), position + 1 + (first > 127)
    value = first & 127 | (second & 127) << 7
    shift = 14
    for place in range(position + 2, position + VARINT_BYTES_MAX):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            number = value >> 1 ^ -(value & 1)
            if not INT64_MIN <= number <= INT64_MAX:
                break
            return number, place + 1
        shift += 7
    raise BatchError("a varint has more than 64 bits")
