"""Record batches as columns: two loops compiled by Numba; for the way back see `splice`.

A record is `length, attributes, timestamp delta, offset delta, key, value, headers` (KIP-98,
`DefaultRecord`). Columns are what Arrow keeps: 32-bit offsets into one run of bytes for each column
of variable size, and a byte for each row that says whether there is a value.

Rules as in `reencode`: a number read from data is compared with the end of the data before it is
used as an index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.batch import RECORD_BYTES_MIN
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
from heliostat.records.batches.reencode import read_varint_compiled

# Places in the totals that `measure` adds to and `fill` goes on from: int64 each.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, CONTENT_BYTES = range(6)
TOTALS = 6
KEYS, VALUES, HEADER_LISTS = 1, 2, 4
"""Bits of what `fill` is to write; offsets and times it always writes."""

_INT = types.int64
_INTS = types.int64[::1]
_OFFSETS = types.int32[::1]
_FLAGS = types.uint8[::1]
_OUT = types.uint8[::1]


@inlined(types.UniTuple(_INT, 2)(BYTES, _INT, _INT))
def sized(data: Any, index: int, end: int) -> Any:
    """Return where the bytes at `index` begin and how many there are; -1: null, -2: damaged."""
    size, begin = read_varint_compiled(data, index, end)
    if begin < 0 or size < -1 or size > end - begin:
        return np.int64(0), np.int64(-2)
    return begin, size


@inlined(types.UniTuple(_INT, 4)(BYTES, _INT, _INT))
def record_begins(data: Any, index: int, end: int) -> Any:
    """Read the record at `index` up to its key; -1 for where it ends: it is damaged.

    Returns both deltas, of timestamp and offset, where its key begins, and where it ends.
    """
    damaged = np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    length, begin = read_varint_compiled(data, index, end)
    if begin < 0 or length < RECORD_BYTES_MIN - 1 or length > end - begin:
        return damaged
    end = begin + length
    since, place = read_varint_compiled(data, begin + 1, end)
    if place < 0:
        return damaged
    delta, place = read_varint_compiled(data, place, end)
    if place < 0:
        return damaged
    return since, delta, place, end


@inlined(types.UniTuple(_INT, 6)(BYTES, _INT, _INT))
def key_and_value(data: Any, index: int, end: int) -> Any:
    """Return of the key at `index`, and of the value behind it, where they and their contents lie.

    That is: where what is in the key begins and its size (-1: null), where the value begins, the
    same two of the value, and where it ends. Both begin with their sizes; -1 for where the value
    begins: they are damaged.
    """
    key, key_bytes = sized(data, index, end)
    if key_bytes < -1:
        return key, key_bytes, np.int64(-1), key, key_bytes, key
    value_at = key + max(key_bytes, 0)
    value, value_bytes = sized(data, value_at, end)
    if value_bytes < -1:
        value_at = np.int64(-1)
    return key, key_bytes, value_at, value, value_bytes, value + max(value_bytes, 0)


@compiled(types.boolean(BYTES, _INT, _INT, _INT, _INTS))
def measure(  # noqa: PLR0911 - one compiled loop
    data: Any, index: int, end: int, count: int, totals: Any
) -> Any:
    """Add up what the `count` records in `data[index:end]` hold; False: they are damaged."""
    for _ in range(count):
        _, _, place, index = record_begins(data, index, end)
        if index < 0:
            return False
        for column in (KEY_BYTES, VALUE_BYTES):
            place, size = sized(data, place, index)
            if size < -1:
                return False
            size = max(size, 0)
            totals[column] += size
            place += size
        headers, place = read_varint_compiled(data, place, index)
        if place < 0 or headers < 0 or headers > index - place:
            return False
        totals[HEADERS] += headers
        for _ in range(headers):
            place, size = sized(data, place, index)
            if size < 0:
                return False
            totals[NAME_BYTES] += size
            place, size = sized(data, place + size, index)
            if size < -1:
                return False
            size = max(size, 0)
            totals[CONTENT_BYTES] += size
            place += size
        if place != index:
            return False
    totals[ROWS] += count
    return index == end


@inlined(_INT(BYTES, _INT, _INT, _INT, types.boolean, _OUT, _OFFSETS, _FLAGS, _INTS, _INT))
def _take(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    index: int,
    end: int,
    row: int,
    is_wanted: bool,
    column: Any,
    ends: Any,
    has: Any,
    totals: Any,
    total: int,
) -> Any:
    """Copy the sized bytes at `index` into a column, if wanted; return where the next begin."""
    index, size = sized(data, index, end)
    if not is_wanted:
        return index + max(size, 0)
    has[row] = size >= 0
    size = max(size, 0)
    copy_bytes(column, totals[total], data, index, size)
    totals[total] += size
    ends[row + 1] = totals[total]
    return index + size


@compiled(
    types.boolean(
        *(BYTES, _INT, _INT, _INT, _INT, _INT, _INT, types.boolean, _INT, _INT, _INT),
        *(_INTS, _INTS, _INTS, _OFFSETS, _FLAGS, _OUT, _OFFSETS, _FLAGS, _OUT),
        *(_OFFSETS, _OFFSETS, _FLAGS, _OUT, _OFFSETS, _FLAGS, _OUT),
    )
)
def fill(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    index: int,
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
    readers see them. False: an offset is out of order.
    """
    last = np.int64(-1)
    for _ in range(count):
        length, begin = read_varint_compiled(data, index, end)
        index = begin + length
        since, place = read_varint_compiled(data, begin + 1, index)
        delta, place = read_varint_compiled(data, place, index)
        if delta <= last:
            return False
        last = delta
        if base_offset + delta < start or base_offset + delta >= before:
            continue
        row = totals[ROWS]
        offsets[row] = base_offset + delta
        times[row] = append_time if has_append_time else base_timestamp + since
        wants = (wanted & KEYS != 0, wanted & VALUES != 0)
        place = _take(
            *(data, place, index, row, wants[0], keys, key_ends, has_key, totals, KEY_BYTES)
        )
        place = _take(
            *(data, place, index, row, wants[1], values, value_ends, has_value, totals, VALUE_BYTES)
        )
        if wanted & HEADER_LISTS:
            headers, place = read_varint_compiled(data, place, index)
            for number in range(totals[HEADERS], totals[HEADERS] + headers):
                place = _take(
                    *(data, place, index, number, True),
                    *(names, name_ends, has_name, totals, NAME_BYTES),
                )
                place = _take(
                    *(data, place, index, number, True),
                    *(contents, content_ends, has_content, totals, CONTENT_BYTES),
                )
            totals[HEADERS] += headers
        headers_ends[row + 1] = totals[HEADERS]
        totals[ROWS] += 1
    return True
