"""CRC-32C, and its correction for a changed header without reading the rest.

Kafka's v2 batches carry a CRC-32C (Castagnoli) over bytes 21 to the end. CRCs are linear: for two
messages of one length the difference of their CRCs depends only on the difference of the messages.
So the CRC for a new header is found without reading the payload, and a payload that was damaged
on its way keeps a CRC that does not match: the target broker refuses it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache

Buffer = bytes | bytearray | memoryview

_POLYNOMIAL = 0x82F63B78
"""The Castagnoli polynomial, bits reversed."""
_DIGIT_BITS = 6
"""Lengths are split into digits of this many bits: 64 KiB have three, 16 MiB four."""
_DIGIT_MASK = (1 << _DIGIT_BITS) - 1
_PLACES = 6
"""Digits of the longest possible batch, 2^31 bytes."""
_tables: list[list[array[int] | None]] = [[None] * (1 << _DIGIT_BITS) for _ in range(_PLACES)]
"""By place and digit; built when first needed, 0.3 ms and 4 KiB each; all for 16 MiB take 1 MiB."""


def crc32c(data: Buffer, previous: int = 0) -> int:
    """Compute it by the processor's own instruction, about 20 GB/s."""
    return _computes(data, previous)


def _load_first(data: Buffer, previous: int) -> int:
    """Load the library, which takes 0.1 s, for the first CRC: most verbs need none."""
    global _computes  # noqa: PLW0603 - looking it up each time would cost as much as a small CRC
    from awscrt import checksums

    _computes = checksums.crc32c
    return _computes(data, previous)


_computes: Callable[[Buffer, int], int] = _load_first


def shifted(difference: int, tail_bytes: int) -> int:
    """Return what `difference` between two CRCs becomes after `tail_bytes` more equal bytes."""
    place = 0
    while tail_bytes:
        digit = tail_bytes & _DIGIT_MASK
        if digit:
            table = _tables[place][digit] or _shift_table(digit, place)
            difference = (
                table[difference & 255]
                ^ table[256 | difference >> 8 & 255]
                ^ table[512 | difference >> 16 & 255]
                ^ table[768 | difference >> 24]
            )
        tail_bytes >>= _DIGIT_BITS
        place += 1
    return difference


def _shift_table(digit: int, place: int) -> array[int]:
    """Build the table that shifts by `digit * 64**place` bytes: 256 entries for each CRC byte."""
    columns = _columns(digit << _DIGIT_BITS * place)
    table = array("I", bytes(4 * 1024))
    for first in range(4):
        for byte in range(1, 256):
            lowest = byte & -byte
            column = columns[8 * first + lowest.bit_length() - 1]
            table[256 * first + byte] = table[256 * first + (byte ^ lowest)] ^ column
    _tables[place][digit] = table
    return table


@cache
def _columns(count: int) -> tuple[int, ...]:
    """Return what each of the 32 bits of a difference becomes after `count` >= 1 bytes."""
    if count == 1:
        return tuple(_after_one_byte(1 << bit) for bit in range(32))
    half = _columns(count // 2)
    doubled = tuple(_apply(half, column) for column in half)
    if count % 2:
        return tuple(_after_one_byte(column) for column in doubled)
    return doubled


def _apply(columns: tuple[int, ...], difference: int) -> int:
    result = 0
    while difference:
        lowest = difference & -difference
        result ^= columns[lowest.bit_length() - 1]
        difference ^= lowest
    return result


def _after_one_byte(difference: int) -> int:
    for _ in range(8):
        difference = difference >> 1 ^ (_POLYNOMIAL if difference & 1 else 0)
    return difference
