"""Where the fields of an Avro record lie in its bytes: a walk compiled by Numba.

Avro's binary form has no lengths and no tags (specification, "Binary encoding"), so all before a
field must be walked through. Rules as in `batches.reencode`: a number read from data is compared
with the end of the data before it is used as an index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from heliostat.records.avro.schema_text import RECORDS, Avro, AvroUnusable, kind_of
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.batches.reencode import read_varint_compiled

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES_KIND, FIXED, ENUM, RECORD, ARRAY, MAP, UNION = range(
    13
)
_PLAIN = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES_KIND,
    "string": BYTES_KIND,
}
DEPTH_MAX = 200
"""Records within records: bytes can claim any number, and each takes a frame of the stack."""
EMPTY_ITEMS_MAX = 10_000
"""Items of an array that take no bytes, as nulls: bytes can claim 2^63 of them."""

_INT = types.int64
_NODES = types.Array(types.int64, 2, "C", readonly=True)
_LIST = types.Array(types.int64, 1, "C", readonly=True)


class Walk(NamedTuple):
    """A schema as the compiled walk takes it."""

    nodes: Any
    """int64 rows: kind, and a number (size of a fixed, count of symbols, first of its children in
    `children`), and how many children it has. Row 0 is the record."""
    children: Any
    """Rows of fields, items, values and branches."""
    fields: int
    """Of the record."""


def walk_of(schema: Avro) -> Walk:
    """Return how to walk a record's bytes.

    Raises
    ------
    AvroUnusable
        It is no record.
    """
    fields = len(schema.fields)
    rows: list[list[int]] = []
    children: list[int] = []
    known: dict[str, int] = {}

    def add(node: Any) -> int:
        node = schema.at(node)
        kind = kind_of(node)
        if kind in schema.named:
            return add(kind)
        name = node.get("name", "") if isinstance(node, dict) else ""
        if name and name in known:
            return known[name]
        at = len(rows)
        if name:
            known[name] = at
        rows.append([_PLAIN.get(kind, NULL), 0, 0])
        if kind in _PLAIN:
            return at
        if kind == "fixed":
            rows[at] = [FIXED, int(node["size"]), 0]
        elif kind == "enum":
            rows[at] = [ENUM, len(node["symbols"]), 0]
        else:
            code, inner = _inner(kind, node)
            found = [add(each) for each in inner]
            rows[at] = [code, len(children), len(found)]
            children.extend(found)
        return at

    add(schema.root)
    return Walk(np.array(rows, np.int64), np.array([*children, 0], np.int64), fields)


def _inner(kind: str, node: Any) -> tuple[int, list[Any]]:
    if kind in RECORDS:
        return RECORD, [field["type"] for field in node["fields"]]
    if kind == "array":
        return ARRAY, [node["items"]]
    if kind == "map":
        return MAP, [node["values"]]
    if kind == "union":
        return UNION, node
    raise AvroUnusable(f"{kind} is no type of Avro")


@njit(_INT(BYTES, _INT, _INT), cache=True, nogil=True)
def _after_bytes(data: Any, at: int, end: int) -> Any:
    size, at = read_varint_compiled(data, at, end)
    return at + size if at >= 0 and 0 <= size <= end - at else np.int64(-1)


@njit(_INT(BYTES, _INT, _INT, _NODES, _LIST, _INT, _INT), cache=True, nogil=True)
def _after(  # noqa: C901, PLR0911, PLR0912, PLR0917 - one compiled loop
    data: Any, at: int, end: int, nodes: Any, children: Any, node: int, depth: int
) -> Any:
    """Return where what begins at `at` ends; -1: it is damaged, or no such thing."""
    kind, first, count = nodes[node, 0], nodes[node, 1], nodes[node, 2]
    if depth > DEPTH_MAX:
        return np.int64(-1)
    if kind == NULL:
        return at
    if kind == BOOLEAN:
        return at + 1 if at < end and data[at] < 2 else np.int64(-1)
    if kind in (INT, LONG):
        number, after = read_varint_compiled(data, at, end)
        if kind == INT and not -(2**31) <= number < 2**31:
            return np.int64(-1)
        return after
    if kind in (FLOAT, DOUBLE, FIXED):
        size = 4 if kind == FLOAT else 8 if kind == DOUBLE else first
        return at + size if size <= end - at else np.int64(-1)
    if kind == BYTES_KIND:
        return _after_bytes(data, at, end)
    if kind == ENUM:
        number, after = read_varint_compiled(data, at, end)
        return after if 0 <= number < first else np.int64(-1)
    if kind == UNION:
        number, at = read_varint_compiled(data, at, end)
        if at < 0 or not 0 <= number < count:
            return np.int64(-1)
        return _after(data, at, end, nodes, children, children[first + number], depth + 1)
    if kind == RECORD:
        for place in range(count):
            at = _after(data, at, end, nodes, children, children[first + place], depth + 1)
            if at < 0:
                return at
        return at
    while True:  # blocks of items; ends: each takes a byte, or is the last
        items, at = read_varint_compiled(data, at, end)
        if items < 0 and at >= 0:  # with the block's size, for those who skip it
            items = -items
            _, at = read_varint_compiled(data, at, end)
        if at < 0 or items < 0:
            return np.int64(-1)
        if items == 0:
            return at
        before, done = at, np.int64(0)
        while done < items:
            if kind == MAP:
                at = _after_bytes(data, at, end)
            if at >= 0:
                at = _after(data, at, end, nodes, children, children[first], depth + 1)
            if at < 0 or (at == before and items > EMPTY_ITEMS_MAX):
                return np.int64(-1)
            done += 1


@njit(types.boolean(BYTES, _INT, _INT, _NODES, _LIST, types.int64[::1]), cache=True, nogil=True)
def field_ends(  # noqa: PLR0917 - arguments of a compiled loop
    data: Any, at: int, end: int, nodes: Any, children: Any, ends: Any
) -> Any:
    """Fill `ends` with where each field of the record in `data[at:end]` ends.

    Returns whether it is such a record, and nothing else.
    """
    first, count = nodes[0, 1], nodes[0, 2]
    for place in range(count):
        at = _after(data, at, end, nodes, children, children[first + place], np.int64(0))
        if at < 0:
            return False
        ends[place] = at
    return at == end
