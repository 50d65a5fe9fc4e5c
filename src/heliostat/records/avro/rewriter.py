"""Writes records anew after a step: the target's schema id, and what the step makes of them."""

from __future__ import annotations

import functools
import io
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.records.avro.columns import undressed
from heliostat.records.avro.frames import Framed
from heliostat.records.avro.rewriting import Part, rewriting_of, scalar_of
from heliostat.records.avro.schema_text import Avro, AvroUnusable, read_schema
from heliostat.records.avro.spans import walk_of
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.rows.avro_walk import field_ends

_MILLIS = ("timestamp-millis", "local-timestamp-millis")
_US_PER_MS = 1000


class Writing:
    """How records of one schema are written anew: `parts` behind `head`; `problem`: they can't."""

    def __init__(self, step: AvroFields, schema: AvroSchema) -> None:
        self.number, self.problem = schema.schema_id, schema.problem
        if schema.problem:
            return
        self.walk = walk_of(read_schema(schema.text))
        self.ends = np.zeros(self.walk.fields + 1, np.int64)
        rewriting = rewriting_of(step, schema)
        self.parts = rewriting.parts
        self.head = b"\x00" + schema.target_id.to_bytes(4, "big")
        self._made = {
            name: _Encoder(name, rewriting.schema, node) for name, node in rewriting.made.items()
        }

    def record(self, framed: Framed, begin: int, end: int, made: dict[str, Any]) -> bytes:
        """Return a record's new value: `made` has the contents of computed fields."""
        walk, ends = self.walk, self.ends
        if not field_ends(framed.data, begin, end, walk.nodes, walk.children, 0, ends):
            raise TransformFailed(f"it is no record of schema id {self.number}")
        pieces = (self._piece(part, framed, made) for part in self.parts)
        return b"".join((self.head, *pieces))

    def _piece(self, part: Part, framed: Framed, made: dict[str, Any]) -> Any:
        if part.fields is not None:
            first, last = part.fields
            return framed.bytes[self.ends[first] : self.ends[last + 1]]
        if part.made:
            return self._made[part.made].encode(made[part.made])
        return part.constant


class _Encoder:
    """Encodes the contents of one computed field."""

    def __init__(self, name: str, schema: Avro, node: Any) -> None:
        self._name = name
        own = scalar_of(schema, node)
        self._is_in_ms = isinstance(own, dict) and own.get("logicalType") in _MILLIS
        self._node = fastavro.parse_schema(undressed(Avro(node, schema.named)), {})

    def encode(self, content: Any) -> bytes:
        if self._is_in_ms and content is not None:
            content //= _US_PER_MS
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._node, content)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            # What it is may have to stay hidden: neither it nor the error's text is told.
            what = "null" if content is None else f"that {type(content).__name__}"
            text = f"field {self._name} can't be {what}: {type(error).__name__}"
            raise TransformFailed(text) from None
        return out.getvalue()


def check_fits(step: AvroFields, schema: AvroSchema, name: str, content: Any) -> None:
    """Check that a field of a schema's new records may have this content.

    Raises
    ------
    TransformFailed
        It may not.
    """
    rewriting = rewriting_of(step, schema)
    if name in rewriting.made:
        _Encoder(name, rewriting.schema, rewriting.made[name]).encode(content)


class Rewriter:
    """Writes a column of framed records anew.

    Parameters
    ----------
    step
        What is done to them, with the schemas that they may have.
    """

    def __init__(self, step: AvroFields) -> None:
        self._by_id = {schema.schema_id: Writing(step, schema) for schema in step.schemas}

    def writings(self) -> list[Writing]:
        """Return how records are written anew, of each schema whose records can be."""
        return [writing for writing in self._by_id.values() if not writing.problem]

    def rewrite(self, values: Any, made: Any) -> Any:
        """Return the column's new values; null where it is null.

        Parameters
        ----------
        values
            Arrow's array of framed records.
        made
            Arrow's array of structs with the computed fields; None: there are none.

        Raises
        ------
        TransformFailed
            A value is no framed record of one of the schemas, or a computed one does not fit.
        """
        framed = Framed(values)
        contents = {} if made is None else _contents(made)
        records: list[bytes | None] = [None] * framed.count
        for row, number, begin, end in framed.payloads():
            writing = self._by_id.get(number)
            if writing is None or writing.problem:
                why = "it is not known" if writing is None else writing.problem
                raise TransformFailed(f"it can't be changed with schema id {number}: {why}")
            own = {name: column[row] for name, column in contents.items()}
            records[row] = writing.record(framed, begin, end, own)
        return pa.array(records, pa.binary())


def _contents(made: Any) -> dict[str, list[Any]]:
    """Return computed fields as Python's values; times as numbers, in microseconds or days."""
    columns: dict[str, list[Any]] = {}
    for place, field in enumerate(made.type):
        column = made.field(place)
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date(field.type):
            column = column.cast(pa.int32())
        columns[field.name] = column.to_pylist()
    return columns


@functools.lru_cache(maxsize=16)
def rewriter_of(step: AvroFields) -> Rewriter:
    """Return a rewriter, made once in the life of a worker."""
    try:
        return Rewriter(step)
    except AvroUnusable as error:
        raise TransformFailed(str(error)) from None
