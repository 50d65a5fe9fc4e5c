"""Record batches as columns, and columns as record batches: two loops compiled by Numba.

A record is `length, attributes, timestamp delta, offset delta, key, value, headers` (KIP-98,
`DefaultRecord`). Columns are what Arrow keeps: 32-bit offsets into one run of bytes for each column
of variable size, and a byte for each row that says whether there is a value.

Rules as in `reencode`: a number read from data is compared with the end of the data before it is
used as an index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from heliostat.records.batches.batch import RECORD_BYTES_MIN
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
from heliostat.records.batches.reencode import (
    VARINT_BYTES_MAX,
    read_varint_compiled,
    varint_bytes,
    write_varint,
)

# Places in the totals that `measure` adds to and `fill` goes on from: int64 each.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, CONTENT_BYTES = range(6)
TOTALS = 6
KEYS, VALUES, HEADER_LISTS = 1, 2, 4
"""Bits of what `fill` is to write; offsets and times it always writes."""
RECORD_ROOM = 4 * VARINT_BYTES_MAX + 1
"""Most that a record takes beside its key, value and headers."""
HEADER_ROOM = 2 * VARINT_BYTES_MAX
"""Most that a header takes beside its key and value."""

_INT = types.int64
_INTS = types.int64[::1]
_OFFSETS = types.int32[::1]
_FLAGS = types.uint8[::1]
_OUT = types.uint8[::1]
_READ_INTS = types.Array(types.int64, 1, "C", readonly=True)
_READ_OFFSETS = types.Array(types.int32, 1, "C", readonly=True)


def _compiled(signature: Any) -> Any:
    return njit(signature, cache=True, nogil=True)


@_compiled(types.UniTuple(_INT, 2)(BYTES, _INT, _INT))
def _sized(data: Any, at: int, end: int) -> Any:
    """Return where the bytes at `at` begin and how many there are; -1: null, -2: damaged."""
    size, begin = read_varint_compiled(data, at, end)
    if begin < 0 or size < -1 or size > end - begin:
        return np.int64(0), np.int64(-2)
    return begin, size


@_compiled(types.boolean(BYTES, _INT, _INT, _INT, _INTS))
def measure(  # noqa: PLR0911 - one compiled loop
    data: Any, at: int, end: int, count: int, totals: Any
) -> Any:
    """Add up what the `count` records in `data[at:end]` hold; False: they are damaged."""
    for _ in range(count):
        length, begin = read_varint_compiled(data, at, end)
        if begin < 0 or length < RECORD_BYTES_MIN - 1 or length > end - begin:
            return False
        at = begin + length
        _, place = read_varint_compiled(data, begin + 1, at)
        if place < 0:
            return False
        _, place = read_varint_compiled(data, place, at)
        if place < 0:
            return False
        for column in (KEY_BYTES, VALUE_BYTES):
            place, size = _sized(data, place, at)
            if size < -1:
                return False
            size = max(size, 0)
            totals[column] += size
            place += size
        headers, place = read_varint_compiled(data, place, at)
        if place < 0 or headers < 0 or headers > at - place:
            return False
        totals[HEADERS] += headers
        for _ in range(headers):
            place, size = _sized(data, place, at)
            if size < 0:
                return False
            totals[NAME_BYTES] += size
            place, size = _sized(data, place + size, at)
            if size < -1:
                return False
            size = max(size, 0)
            totals[CONTENT_BYTES] += size
            place += size
        if place != at:
            return False
    totals[ROWS] += count
    return at == end


@_compiled(_INT(BYTES, _INT, _INT, _INT, types.boolean, _OUT, _OFFSETS, _FLAGS, _INTS, _INT))
def _take(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    at: int,
    end: int,
    row: int,
    is_wanted: bool,
    column: Any,
    ends: Any,
    has: Any,
    totals: Any,
    total: int,
) -> Any:
    """Copy the sized bytes at `at` into a column, if wanted; return where the next begin."""
    at, size = _sized(data, at, end)
    if not is_wanted:
        return at + max(size, 0)
    has[row] = size >= 0
    size = max(size, 0)
    copy_bytes(column, totals[total], data, at, size)
    totals[total] += size
    ends[row + 1] = totals[total]
    return at + size


@_compiled(
    types.boolean(
        *(BYTES, _INT, _INT, _INT, _INT, _INT, _INT, types.boolean, _INT, _INT, _INT),
        *(_INTS, _INTS, _INTS, _OFFSETS, _FLAGS, _OUT, _OFFSETS, _FLAGS, _OUT),
        *(_OFFSETS, _OFFSETS, _FLAGS, _OUT, _OFFSETS, _FLAGS, _OUT),
    )
)
def fill(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    at: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int,
    has_append_time: bool,
    start: int,
    before: int,
    wanted: int,
    totals: Any,
    offsets: Any,
    times: Any,
    key_ends: Any,
    has_key: Any,
    keys: Any,
    value_ends: Any,
    has_value: Any,
    values: Any,
    headers_ends: Any,
    name_ends: Any,
    has_name: Any,
    names: Any,
    content_ends: Any,
    has_content: Any,
    contents: Any,
) -> Any:
    """Write records that `measure` has found whole into columns, from the places in `totals` on.

    Only those with offsets `[start, before)` are, and of them what is `wanted`. Times are in ms, as
    readers see them.
    False: an offset is out of order.
    """
    last = np.int64(-1)
    for _ in range(count):
        length, begin = read_varint_compiled(data, at, end)
        at = begin + length
        since, place = read_varint_compiled(data, begin + 1, at)
        delta, place = read_varint_compiled(data, place, at)
        if delta <= last:
            return False
        last = delta
        if base_offset + delta < start or base_offset + delta >= before:
            continue
        row = totals[ROWS]
        offsets[row] = base_offset + delta
        times[row] = append_time if has_append_time else base_timestamp + since
        wants = (wanted & KEYS != 0, wanted & VALUES != 0)
        place = _take(*(data, place, at, row, wants[0], keys, key_ends, has_key, totals, KEY_BYTES))
        place = _take(
            *(data, place, at, row, wants[1], values, value_ends, has_value, totals, VALUE_BYTES)
        )
        if wanted & HEADER_LISTS:
            headers, place = read_varint_compiled(data, place, at)
            for number in range(totals[HEADERS], totals[HEADERS] + headers):
                place = _take(
                    *(data, place, at, number, True),
                    *(names, name_ends, has_name, totals, NAME_BYTES),
                )
                place = _take(
                    *(data, place, at, number, True),
                    *(contents, content_ends, has_content, totals, CONTENT_BYTES),
                )
            totals[HEADERS] += headers
        headers_ends[row + 1] = totals[HEADERS]
        totals[ROWS] += 1
    return True


@_compiled(_INT(_OUT, _INT, BYTES, _READ_OFFSETS, _INT, types.boolean))
def _write_sized(  # noqa: PLR0917 - compiled without keywords
    out: Any, at: int, data: Any, ends: Any, row: int, is_there: bool
) -> Any:
    if not is_there:
        return write_varint(out, at, -1)
    size = np.int64(ends[row + 1] - ends[row])
    at = write_varint(out, at, size)
    copy_bytes(out, at, data, np.int64(ends[row]), size)
    return at + size


@_compiled(_INT(_READ_OFFSETS, _INT, types.boolean))
def _bytes_of(ends: Any, row: int, is_there: bool) -> Any:
    if not is_there:
        return np.int64(1)
    size = np.int64(ends[row + 1] - ends[row])
    return varint_bytes(size) + size


@_compiled(
    _INT(
        *(_INT, _INT, _INT, _INT, _READ_INTS, _READ_INTS),
        *(_READ_OFFSETS, BYTES, BYTES, _READ_OFFSETS, BYTES, BYTES),
        *(_READ_OFFSETS, _READ_OFFSETS, BYTES, _READ_OFFSETS, BYTES, BYTES, _OUT),
    )
)
def encode(  # noqa: PLR0917 - compiled without keywords
    first: int,
    stop: int,
    base_offset: int,
    base_timestamp: int,
    offsets: Any,
    times: Any,
    key_ends: Any,
    has_key: Any,
    keys: Any,
    value_ends: Any,
    has_value: Any,
    values: Any,
    headers_ends: Any,
    name_ends: Any,
    names: Any,
    content_ends: Any,
    has_content: Any,
    contents: Any,
    out: Any,
) -> Any:
    """Write rows `[first, stop)` as the records of one batch into `out`; return their bytes.

    `out` has `RECORD_ROOM` bytes for each record, and `HEADER_ROOM` for each header, beside what
    they hold.
    """
    at = np.int64(0)
    for row in range(first, stop):
        since, delta = times[row] - base_timestamp, offsets[row] - base_offset
        size = 1 + varint_bytes(since) + varint_bytes(delta)
        size += _bytes_of(key_ends, row, has_key[row] != 0)
        size += _bytes_of(value_ends, row, has_value[row] != 0)
        begin, end = np.int64(headers_ends[row]), np.int64(headers_ends[row + 1])
        size += varint_bytes(end - begin)
        for number in range(begin, end):
            size += _bytes_of(name_ends, number, True)
            size += _bytes_of(content_ends, number, has_content[number] != 0)
        at = write_varint(out, at, size)
        out[at] = 0
        at = write_varint(out, at + 1, since)
        at = write_varint(out, at, delta)
        at = _write_sized(out, at, keys, key_ends, row, has_key[row] != 0)
        at = _write_sized(out, at, values, value_ends, row, has_value[row] != 0)
        at = write_varint(out, at, end - begin)
        for number in range(begin, end):
            at = _write_sized(out, at, names, name_ends, number, True)
            at = _write_sized(out, at, contents, content_ends, number, has_content[number] != 0)
    return at
