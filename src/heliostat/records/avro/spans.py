"""What leads the compiled walk through an Avro record's bytes (`rows.avro_walk`), of a schema."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from heliostat.records.avro.schema_text import RECORDS, Avro, AvroUnusable, kind_of
from heliostat.records.rows.avro_walk import (
    ARRAY,
    BOOLEAN,
    BYTES_KIND,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NULL,
    RECORD,
    UNION,
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
    rows_by_name: dict[str, int] = {}

    def add(node: Any) -> int:
        node = schema.at(node)
        kind = kind_of(node)
        if kind in schema.named:
            return add(kind)
        name = node.get("name", "") if isinstance(node, dict) else ""
        if name and name in rows_by_name:
            return rows_by_name[name]
        row = len(rows)
        if name:
            rows_by_name[name] = row
        rows.append([_PLAIN.get(kind, NULL), 0, 0])
        if kind in _PLAIN:
            return row
        if kind == "fixed":
            rows[row] = [FIXED, int(node["size"]), 0]
        elif kind == "enum":
            rows[row] = [ENUM, len(node["symbols"]), 0]
        else:
            code, inner = _inner(kind, node)
            child_rows = [add(child) for child in inner]
            rows[row] = [code, len(children), len(child_rows)]
            children.extend(child_rows)
        return row

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
