"""Records re-encoded for another batch: the one loop over records, compiled by Numba.

A record is `length, attributes, timestamp delta, offset delta, key, value, headers`. In another
batch its place and the base timestamp differ: so two deltas change, and with their size the
length; the bytes after them stay opaque. In plain Python this takes 1 us a record, compiled
20 to 50 ns (`bench/convert_speed.py`, docs/adr/0005).

Rules of this file, since a compiled loop checks no index: a number read from data is compared with
the end of the data before it is used as an index; all numbers are int64 except the bits of varints.
With `NUMBA_BOUNDSCHECK=1` a wrong index raises: a test runs damaged batches that way.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import types

from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    RECORD_BYTES_MIN,
)
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes, crc32c_compiled

GROWTH_BYTES_MAX = 14
"""A record's timestamp delta may grow from 1 byte to 10, its offset delta from 1 to 5, its length
by 1."""
VARINT_BYTES_MAX = 10
"""The most that a 64-bit number needs."""


class Flaw(IntEnum):
    """Why records can't be re-encoded."""

    NONE = 0
    TOO_SHORT = 1
    CUT = 2
    LENGTH = 3
    OFFSET = 4
    TIMESTAMP = 5
    LEFT_OVER = 6
    FAR_APART = 7
    NO_ROOM = 8
    CHECKSUM = 9


# Indices into the array that holds the state of a new batch: int64 each.
FILLED, RECORDS, BASE_TIMESTAMP, MAX_TIMESTAMP, BATCHES, AT = range(6)
BATCH_FIELDS = 6

_CUT, _TOO_SHORT, _LENGTH, _OFFSET = map(int, (Flaw.CUT, Flaw.TOO_SHORT, Flaw.LENGTH, Flaw.OFFSET))
_TIMESTAMP, _LEFT_OVER, _FAR_APART, _NO_ROOM = map(
    int, (Flaw.TIMESTAMP, Flaw.LEFT_OVER, Flaw.FAR_APART, Flaw.NO_ROOM)
)
NEVER_JOINED_BITS = CODEC_BITS | CONTROL_BIT
_KNOWN_BITS = 0x7F
_OUT = types.uint8[::1]
_INT = types.int64
_FIELDS = types.int64[::1]


@inlined(types.UniTuple(_INT, 2)(BYTES, _INT, _INT))
def read_varint_compiled(data: Any, position: int, end: int) -> Any:
    """Return the signed number at `position`, and the index after it; -1: it is cut or too long."""
    value = np.uint64(0)
    for place in range(VARINT_BYTES_MAX):
        if position + place >= end:
            break
        byte = data[position + place]
        if place == VARINT_BYTES_MAX - 1 and byte > 1:
            break
        value |= np.uint64(byte & 127) << np.uint64(7 * place)
        if byte < 128:
            half = np.int64(value >> np.uint64(1))
            return (half if value & np.uint64(1) == np.uint64(0) else ~half), position + place + 1
    return np.int64(0), np.int64(-1)


@inlined(_INT(_INT))
def varint_bytes(value: int) -> Any:
    """Return how many bytes a signed number takes."""
    rest = np.uint64(value << 1 ^ value >> 63)
    count = 1
    while rest > np.uint64(127):
        rest >>= np.uint64(7)
        count += 1
    return count


@inlined(_INT(_OUT, _INT, _INT))
def write_varint(out: Any, position: int, value: int) -> Any:
    """Write a signed number; return where the next byte goes."""
    rest = np.uint64(value << 1 ^ value >> 63)
    while rest > np.uint64(127):
        out[position] = np.uint8(rest & np.uint64(127) | np.uint64(128))
        rest >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(rest)
    return position + 1


@inlined(types.boolean(_INT, _INT, _INT))
def _overflows_sum(first: int, second: int, total: int) -> Any:
    return (first ^ total) & (second ^ total) < 0


@compiled(
    _INT(BYTES, _INT, _INT, _INT, _INT, _INT, types.boolean, _INT, _INT, _OUT, _FIELDS, _FIELDS)
)
def encode_records(  # noqa: C901, PLR0911, PLR0912, PLR0917 - one compiled loop
    data: Any,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    append_time: int,
    has_append_time: bool,
    start: int,
    stop: int,
    out: Any,
    batch: Any,
    deltas: Any,
) -> Any:
    """Append those of the `count` records in `data[position:end]` that lie in a range to a batch.

    The range `[start, stop)` is of offset deltas. If `deltas` (int64) has room for `count` of them,
    there may be holes, as compaction leaves them, and the deltas of the records taken go there.
    All records are checked. Their timestamp deltas count from `base_timestamp` (ms); readers see
    `append_time` instead if `has_append_time`. `out` (uint8) holds the new batch's records, `batch`
    (int64, see `FILLED`) its state. Returns a `Flaw`; unless `NONE`, `batch` is unchanged.
    """
    if count * RECORD_BYTES_MIN > end - position:
        return _TOO_SHORT
    filled, place = batch[FILLED], batch[RECORDS]
    base, latest = batch[BASE_TIMESTAMP], batch[MAX_TIMESTAMP]
    first, before = place, np.int64(-1)
    for index in range(count):
        length, begin = read_varint_compiled(data, position, end)
        if begin < 0:
            return _CUT
        if length < RECORD_BYTES_MIN - 1 or length > end - begin:
            return _LENGTH
        position = begin + length
        since, place_at = read_varint_compiled(data, begin + 1, position)
        if place_at < 0:
            return _TIMESTAMP
        delta, rest_at = read_varint_compiled(data, place_at, position)
        if rest_at < 0 or delta <= before or (delta != index and not len(deltas)):
            return _OFFSET
        before = delta
        if delta < start or delta >= stop:
            continue
        timestamp = append_time if has_append_time else base_timestamp + since
        if not has_append_time and _overflows_sum(base_timestamp, since, timestamp):
            return _TIMESTAMP
        if place == 0:
            base = timestamp
        latest = max(latest, timestamp)
        since = timestamp - base
        if (timestamp ^ base) & (timestamp ^ since) < 0:
            return _FAR_APART
        new_length = 1 + varint_bytes(since) + varint_bytes(place) + position - rest_at
        if filled + VARINT_BYTES_MAX + new_length > len(out):
            return _NO_ROOM
        filled = write_varint(out, filled, new_length)
        out[filled] = data[begin]
        filled = write_varint(out, filled + 1, since)
        filled = write_varint(out, filled, place)
        rest = position - rest_at
        copy_bytes(out, filled, data, rest_at, rest)
        filled += rest
        if len(deltas):
            deltas[place - first] = delta
        place += 1
    if position != end:
        return _LEFT_OVER
    batch[FILLED], batch[RECORDS] = filled, place
    batch[BASE_TIMESTAMP], batch[MAX_TIMESTAMP] = base, latest
    return 0


@inlined(_INT(BYTES, _INT, _INT))
def _read_number(data: Any, position: int, size: int) -> Any:
    """Return the signed big-endian number of `size` bytes."""
    value = np.uint64(0)
    for place in range(size):
        value = value << np.uint64(8) | np.uint64(data[position + place])
    unused = np.int64(64 - 8 * size)
    return np.int64(value) << unused >> unused


@compiled(types.void(BYTES, _INT, _INT, _INT, _INT, _INT, _OUT, _FIELDS, _FIELDS))
def join_plain(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    end: int,
    base_offset: int,
    below_bytes: int,
    records_max: int,
    refused_bits: int,
    out: Any,
    batch: Any,
    none: Any,
) -> None:
    """Join consecutive uncompressed batches, beginning at `batch[AT]`.

    Ends before the first that is incomplete, not valid, does not follow the one before, is not to
    be joined, or for which there is no room; the caller finds out why, and reports it.

    Parameters
    ----------
    data, end
        Batches as fetched; the last may be cut.
    base_offset
        Offset of the new batch's first record.
    below_bytes, records_max, refused_bits
        Join only batches smaller than this, up to so many records, without any of these attributes.
    out, batch, none
        As in `encode_records`, without room for deltas; `batch[AT]` and `batch[BATCHES]` advance.
    """
    while True:
        begin = batch[AT]
        if end - begin <= HEADER_BYTES:
            return
        length = _read_number(data, begin + 8, 4)
        if length <= LENGTH_MIN or length >= below_bytes - LENGTH_ENDS_AT:
            return
        batch_end = begin + LENGTH_ENDS_AT + length
        bits = _read_number(data, begin + CRC_FROM, 2)
        count = _read_number(data, begin + 57, 4)
        if (
            batch_end > end
            or data[begin + MAGIC_AT] != MAGIC
            or bits & refused_bits
            or bits & ~_KNOWN_BITS
            or _read_number(data, begin, 8) != base_offset + batch[RECORDS]
            or count < 1
            or count != _read_number(data, begin + 23, 4) + 1
            or count > records_max - batch[RECORDS]
        ):
            return
        stored = np.uint32(_read_number(data, begin + 17, 4) & 0xFFFFFFFF)
        if crc32c_compiled(data, begin + CRC_FROM, batch_end) != stored:
            return
        problem = encode_records(
            data,
            begin + HEADER_BYTES,
            batch_end,
            count,
            _read_number(data, begin + 27, 8),
            _read_number(data, begin + 35, 8),
            bits & LOG_APPEND_TIME_BIT != 0,
            0,
            count,
            out,
            batch,
            none,
        )
        if problem != 0:
            return
        batch[BATCHES] += 1
        batch[AT] = batch_end


@compiled(_INT(BYTES, _INT, _INT, _INT, _INT, _OUT, _FIELDS, _FIELDS))
def join_thinned(  # noqa: PLR0911, PLR0917 - one compiled loop
    data: Any,
    end: int,
    next_offset: int,
    below_bytes: int,
    refused_bits: int,
    out: Any,
    batch: Any,
    sources: Any,
) -> Any:
    """Do as `join_plain` for batches with holes in them or before them, as compaction leaves them.

    `next_offset` is the source offset after what is there; the new one is returned. The source
    offset of record n goes to `sources[n]` (int64), which has room for all that are wanted. A hole
    before a batch is believed unless the batch that follows claims to begin before this one's end:
    no checksum covers base offsets.
    """
    while True:
        begin, there = batch[AT], batch[RECORDS]
        if end - begin <= HEADER_BYTES:
            return next_offset
        length = _read_number(data, begin + 8, 4)
        if length <= LENGTH_MIN or length >= below_bytes - LENGTH_ENDS_AT:
            return next_offset
        batch_end = begin + LENGTH_ENDS_AT + length
        if batch_end > end or data[begin + MAGIC_AT] != MAGIC:
            return next_offset
        offset, last = _read_number(data, begin, 8), _read_number(data, begin + 23, 4)
        bits, count = _read_number(data, begin + CRC_FROM, 2), _read_number(data, begin + 57, 4)
        after = offset + last + 1
        if (
            bits & refused_bits
            or bits & ~_KNOWN_BITS
            or offset < next_offset
            or count < 1
            or count > last + 1
            or count > len(sources) - there
            or (end - batch_end >= HEADER_BYTES and _read_number(data, batch_end, 8) < after)
        ):
            return next_offset
        stored = np.uint32(_read_number(data, begin + 17, 4) & 0xFFFFFFFF)
        if crc32c_compiled(data, begin + CRC_FROM, batch_end) != stored:
            return next_offset
        filled, base, latest = batch[FILLED], batch[BASE_TIMESTAMP], batch[MAX_TIMESTAMP]
        problem = encode_records(
            data,
            begin + HEADER_BYTES,
            batch_end,
            count,
            _read_number(data, begin + 27, 8),
            _read_number(data, begin + 35, 8),
            bits & LOG_APPEND_TIME_BIT != 0,
            0,
            last + 1,
            out,
            batch,
            sources[there:],
        )
        if problem != 0:
            return next_offset
        if batch[RECORDS] - there != count:  # a record's offset is beyond its batch
            batch[FILLED], batch[RECORDS] = filled, there
            batch[BASE_TIMESTAMP], batch[MAX_TIMESTAMP] = base, latest
            return next_offset
        for place in range(there, batch[RECORDS]):
            sources[place] += offset
        next_offset = after
        batch[BATCHES] += 1
        batch[AT] = batch_end
