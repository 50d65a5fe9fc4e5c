"""Where a record has schema ids: in front of its key and value, and in two headers.

What an id and a GUID look like, and the number that a GUID is known by: `heliostat.framed_ids`.
Rules for compiled loops: see `reencode`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from heliostat.clusters.wire.scan import number_at
from heliostat.framed_ids import (
    FRAME_BYTES,
    GUID_FRAME_BYTES,
    KEY_HEADER,
    VALUE_HEADER,
)
from heliostat.ops.compiled import inlined
from heliostat.records.batches.batch import RECORD_BYTES_MIN
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.batches.reencode import read_varint_compiled

KNOWN = types.Array(types.int64, 1, "C", readonly=True)
"""Numba's type of known ids, ascending."""
NO_ID = 1 << 32
"""No id is as large, and what GUIDs are known by is negative."""
OF_KEY, OF_VALUE = 1, 2
"""What a header for an id is about."""
_NAMES = np.frombuffer(KEY_HEADER.encode() + VALUE_HEADER.encode(), np.uint8)
_KEY_NAME_BYTES, _VALUE_NAME_BYTES = len(KEY_HEADER), len(VALUE_HEADER)
_GUID_MAGIC = 1
_INT = types.int64


@inlined(_INT(KNOWN, _INT))
def place_of(ids: Any, number: int) -> Any:
    """Return where a number is among ascending ids; -1: nowhere."""
    low, high = np.int64(0), np.int64(len(ids))
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(ids) and ids[low] == number else np.int64(-1)


@inlined(types.UniTuple(_INT, 7)(BYTES, _INT, _INT))
def record_parts(data: Any, position: int, end: int) -> Any:
    """Return where the parts of the record at `position` are.

    Returns
    -------
    tuple of int
        Where the record ends (-1: it is damaged), its offset delta, where its key begins and how
        large it is, the same of its value, and where its headers begin.
    """
    none: Any = np.int64(0)
    cut: Any = np.int64(-1)
    damaged = cut, none, none, none, none, none, none
    length, position = read_varint_compiled(data, position, end)
    if position < 0 or length < RECORD_BYTES_MIN - 1 or length > end - position:
        return damaged
    stop = position + length
    _, position = read_varint_compiled(data, position + 1, stop)  # behind its attributes
    delta, position = read_varint_compiled(data, position, stop) if position >= 0 else (none, cut)
    key_bytes, key_at = read_varint_compiled(data, position, stop) if position >= 0 else (none, cut)
    if key_at < 0 or key_bytes > stop - key_at:
        return damaged
    value_bytes, value_at = read_varint_compiled(data, key_at + max(key_bytes, none), stop)
    if value_at < 0 or value_bytes > stop - value_at:
        return damaged
    headers_at = value_at + max(value_bytes, none)
    return stop, delta, key_at, key_bytes, value_at, value_bytes, headers_at


@inlined(_INT(BYTES, _INT, _INT))
def id_in_front(data: Any, position: int, size: int) -> Any:
    """Return the id in front of a key or value of `size` bytes, which are there; or `NO_ID`."""
    if size < FRAME_BYTES or data[position] != 0 or data[position + 1] > 127:
        return np.int64(NO_ID)
    schema_id = np.int64(0)
    for place in range(position + 1, position + FRAME_BYTES):
        schema_id = schema_id << 8 | np.int64(data[place])
    return schema_id


@inlined(_INT(BYTES, _INT, _INT))
def _id_in_content(data: Any, position: int, size: int) -> Any:
    """Return the id, or the number of the GUID, in a header's `size` bytes; or `NO_ID`."""
    if size >= GUID_FRAME_BYTES and data[position] == _GUID_MAGIC:
        return ~np.int64(np.uint64(number_at(data, position + 1, 8)) >> np.uint64(1))
    return id_in_front(data, position, size)


@inlined(_INT(BYTES, _INT, _INT))
def _kind_of(data: Any, position: int, size: int) -> Any:
    """Return which header a name of `size` bytes is; 0: another."""
    if size == _KEY_NAME_BYTES:
        start, kind = 0, OF_KEY
    elif size == _VALUE_NAME_BYTES:
        start, kind = _KEY_NAME_BYTES, OF_VALUE
    else:
        return np.int64(0)
    for place in range(size):
        if data[position + place] != _NAMES[start + place]:
            return np.int64(0)
    return np.int64(kind)


@inlined(types.UniTuple(_INT, 2)(BYTES, _INT, _INT))
def headers_in(data: Any, position: int, end: int) -> Any:
    """Return how many headers a record's end `data[position:end]` has, and where the first begins.

    0, where it can't be read: who reads the record finds that.
    """
    if position >= end or data[position] == 0:  # most have none
        return np.int64(0), position
    count, first = read_varint_compiled(data, position, end)
    return (count, first) if first >= 0 else (np.int64(0), position)


@inlined(types.UniTuple(_INT, 5)(BYTES, _INT, _INT, _INT))
def next_schema_header(data: Any, position: int, end: int, left: int) -> Any:
    """Return the next header with a schema's id among the `left` ones that begin at `position`.

    Returns
    -------
    tuple of int
        What it is about (0: there is none, or what follows can't be read); where its content is;
        the id, or the number of the GUID; where the header after it begins, and how many are left.
    """
    none = np.int64(0)
    while left > 0:
        left -= 1
        name_bytes, position = read_varint_compiled(data, position, end)
        if position < 0 or name_bytes < 0 or name_bytes > end - position:
            break
        kind = _kind_of(data, position, name_bytes)
        size, content = read_varint_compiled(data, position + name_bytes, end)
        if content < 0 or size > end - content:
            break
        position = content + max(size, none)
        schema_id = _id_in_content(data, content, size) if kind != 0 else np.int64(NO_ID)
        if schema_id != NO_ID:
            return kind, content, schema_id, position, left
    return none, none, none, none, none
