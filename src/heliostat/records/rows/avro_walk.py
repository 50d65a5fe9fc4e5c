"""Where the fields of an Avro record lie in its bytes: a walk compiled by Numba.

Avro's binary form has no lengths and no tags (specification, "Binary encoding"), so all before a
field must be walked through. Rules as in `batches.reencode`: a number read from data is compared
with the end of the data before it is used as an index. `avro.spans` makes what it is led by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.batches.reencode import read_varint_compiled

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES_KIND, FIXED, ENUM, RECORD, ARRAY, MAP, UNION = range(
    13
)
DEPTH_MAX = 200
"""Records within records: bytes can claim any number, and each takes a frame of the stack."""
EMPTY_ITEMS_MAX = 10_000
"""Items of an array that take no bytes, as nulls: bytes can claim 2^63 of them."""

_INT = types.int64
NODES = types.Array(types.int64, 2, "C", readonly=True)
"""A schema, see `avro.spans.Walk`: kind, a number, and how many children it has."""
LIST = types.Array(types.int64, 1, "C", readonly=True)


@inlined(_INT(BYTES, _INT, _INT))
def _after_bytes(data: Any, position: int, end: int) -> Any:
    size, position = read_varint_compiled(data, position, end)
    return position + size if position >= 0 and 0 <= size <= end - position else np.int64(-1)


@compiled(_INT(BYTES, _INT, _INT, NODES, LIST, _INT, _INT))
def _after(  # noqa: C901, PLR0911, PLR0912, PLR0917 - one compiled loop
    data: Any, position: int, end: int, nodes: Any, children: Any, node: int, depth: int
) -> Any:
    """Return where what begins at `position` ends; -1: it is damaged, or no such thing."""
    kind, first, count = nodes[node, 0], nodes[node, 1], nodes[node, 2]
    if depth > DEPTH_MAX:
        return np.int64(-1)
    if kind == NULL:
        return position
    if kind == BOOLEAN:
        return position + 1 if position < end and data[position] < 2 else np.int64(-1)
    if kind in (INT, LONG):
        number, after = read_varint_compiled(data, position, end)
        if kind == INT and not -(2**31) <= number < 2**31:
            return np.int64(-1)
        return after
    if kind in (FLOAT, DOUBLE, FIXED):
        size = 4 if kind == FLOAT else 8 if kind == DOUBLE else first
        return position + size if size <= end - position else np.int64(-1)
    if kind == BYTES_KIND:
        return _after_bytes(data, position, end)
    if kind == ENUM:
        number, after = read_varint_compiled(data, position, end)
        return after if 0 <= number < first else np.int64(-1)
    if kind == UNION:
        number, position = read_varint_compiled(data, position, end)
        if position < 0 or not 0 <= number < count:
            return np.int64(-1)
        return _after(data, position, end, nodes, children, children[first + number], depth + 1)
    if kind == RECORD:
        for place in range(count):
            position = _after(
                data, position, end, nodes, children, children[first + place], depth + 1
            )
            if position < 0:
                return position
        return position
    while True:  # blocks of items; ends: each takes a byte, or is the last
        items, position = read_varint_compiled(data, position, end)
        if items < 0 and position >= 0:  # with the block's size, for those who skip it
            items = -items
            _, position = read_varint_compiled(data, position, end)
        if position < 0 or items < 0:
            return np.int64(-1)
        if items == 0:
            return position
        before, done = position, np.int64(0)
        while done < items:
            if kind == MAP:
                position = _after_bytes(data, position, end)
            if position >= 0:
                position = _after(data, position, end, nodes, children, children[first], depth + 1)
            if position < 0 or (position == before and items > EMPTY_ITEMS_MAX):
                return np.int64(-1)
            done += 1


@inlined(types.boolean(BYTES, _INT, _INT, NODES, LIST, _INT, types.int64[::1]))
def field_ends(  # noqa: PLR0917 - arguments of a compiled loop
    data: Any, position: int, end: int, nodes: Any, children: Any, root: int, ends: Any
) -> Any:
    """Fill `ends` with `position`, and where each field of the record in `data[position:end]` ends.

    Returns whether it is such a record as `nodes[root]` says, and nothing else.
    """
    first, count = nodes[root, 1], nodes[root, 2]
    ends[0] = position
    for place in range(count):
        position = _after(
            data, position, end, nodes, children, children[first + place], np.int64(0)
        )
        if position < 0:
            return False
        ends[place + 1] = position
    return position == end
