"""Fields of Avro records as columns of Spark, and records decoded to them.

    boolean int long float double string bytes   boolean int bigint float double string binary
    fixed, duration                              binary
    enum, uuid                                   string
    date, timestamp-millis and -micros           date, timestamp
    local-timestamp-millis and -micros           timestamp_ntz
    decimal                                      decimal
    record, array, map                           struct, array, map
    null and one other type                      that type
    time-*, timestamp-nanos and unknown          the number below it

No column has: a union of several types, a null alone, and a record within itself. They are skipped,
and a step that does not touch them leaves their bytes as they are.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.records.avro.frames import Framed
from heliostat.records.avro.schema_text import (
    RECORDS,
    Avro,
    AvroUnusable,
    kind_of,
    read_schema,
    write_schema,
)
from heliostat.records.avro.spans import walk_of
from heliostat.records.copier.avro_step import AvroSchema
from heliostat.records.rows.avro_walk import field_ends

DECIMAL_DIGITS_MAX = 38
_UTC = "UTC"


class ColumnType(NamedTuple):
    """A type as each side calls it."""

    raw: Any
    """Arrow's, as it is decoded."""
    arrow: Any
    """Arrow's, as Spark takes it."""
    ddl: str


def _same(kind: Any, ddl: str) -> ColumnType:
    return ColumnType(kind, kind, ddl)


_BINARY = _same(pa.binary(), "binary")
_STRING = _same(pa.string(), "string")
_PLAIN = {
    "boolean": _same(pa.bool_(), "boolean"),
    "int": _same(pa.int32(), "int"),
    "long": _same(pa.int64(), "bigint"),
    "float": _same(pa.float32(), "float"),
    "double": _same(pa.float64(), "double"),
    "bytes": _BINARY,
    "string": _STRING,
    "fixed": _BINARY,
    "enum": _STRING,
}
_INSTANT, _LOCAL = pa.timestamp("us", tz=_UTC), pa.timestamp("us")
_LOGICAL = {
    ("int", "date"): _same(pa.date32(), "date"),
    ("long", "timestamp-millis"): ColumnType(pa.timestamp("ms", tz=_UTC), _INSTANT, "timestamp"),
    ("long", "timestamp-micros"): _same(_INSTANT, "timestamp"),
    ("long", "local-timestamp-millis"): ColumnType(pa.timestamp("ms"), _LOCAL, "timestamp_ntz"),
    ("long", "local-timestamp-micros"): _same(_LOCAL, "timestamp_ntz"),
}


def is_decimal(node: Any) -> bool:
    """Whether a node is a decimal that Spark can hold."""
    return (
        isinstance(node, dict)
        and node.get("logicalType") == "decimal"
        and kind_of(node) in ("bytes", "fixed")
        and 0 < int(node.get("precision", 0)) <= DECIMAL_DIGITS_MAX
    )


def column_type(schema: Avro, node: Any, within: frozenset[str] = frozenset()) -> ColumnType | None:
    """Return the type of a node's column; None: it has none."""
    node = schema.at(node)
    kind = kind_of(node)
    if kind in schema.named:
        return column_type(schema, kind, within)
    if kind == "union":
        some = [branch for branch in node if kind_of(schema.at(branch)) != "null"]
        return column_type(schema, some[0], within) if len(some) == 1 else None
    if kind in RECORDS:
        return _record(schema, node, within)
    return _scalar(node) if kind in _PLAIN else _collection(schema, node, within)


def _scalar(node: Any) -> ColumnType:
    kind = kind_of(node)
    if is_decimal(node):
        digits = int(node["precision"]), int(node.get("scale", 0))
        return _same(pa.decimal128(*digits), f"decimal({digits[0]},{digits[1]})")
    logical = node.get("logicalType", "") if isinstance(node, dict) else ""
    return _LOGICAL.get((kind, str(logical)), _PLAIN[kind])


def _record(schema: Avro, node: Any, within: frozenset[str]) -> ColumnType | None:
    name = node["name"]
    if name in within:
        return None
    types = {
        field["name"]: column_type(schema, field["type"], within | {name})
        for field in node["fields"]
    }
    return struct_of({column: kind for column, kind in types.items() if kind is not None})


def _collection(schema: Avro, node: Any, within: frozenset[str]) -> ColumnType | None:
    kind = kind_of(node)
    if kind not in ("array", "map"):
        return None
    item = column_type(schema, node["items" if kind == "array" else "values"], within)
    if item is None:
        return None
    if kind == "array":
        return ColumnType(pa.list_(item.raw), pa.list_(item.arrow), f"array<{item.ddl}>")
    raw, arrow = (pa.map_(pa.string(), item_type) for item_type in (item.raw, item.arrow))
    return ColumnType(raw, arrow, f"map<string,{item.ddl}>")


def struct_of(types: Mapping[str, ColumnType]) -> ColumnType | None:
    """Return the type of a record's column; None: it has no field that has one."""
    if not types:
        return None
    inner = ",".join(f"{quoted(name)}:{kind.ddl}" for name, kind in types.items())
    return ColumnType(
        pa.struct([(name, kind.raw) for name, kind in types.items()]),
        pa.struct([(name, kind.arrow) for name, kind in types.items()]),
        f"struct<{inner}>",
    )


def quoted(name: str) -> str:
    """Return a field's name as Spark SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def columns_of(schemas: Iterable[AvroSchema]) -> ColumnType | None:
    """Return the type of the column with decoded records: all fields of all readers, by name.

    None: there are none.

    Raises
    ------
    AvroUnusable
        A field has two types; or a reader is no record.
    """
    types: dict[str, ColumnType] = {}
    whose: dict[str, int] = {}
    for schema in schemas:
        if schema.problem:
            continue
        reader = read_schema(schema.reader)
        itself = frozenset({reader.at(reader.root)["name"]} if reader.fields else ())
        for field in reader.fields:
            name, kind = field["name"], column_type(reader, field["type"], itself)
            if kind is None:
                continue
            before = types.setdefault(name, kind)
            if before.ddl != kind.ddl:
                raise AvroUnusable(
                    f"field {name} is {before.ddl} for schema id {whose[name]} and {kind.ddl} for "
                    f"{schema.schema_id}: give the step a schema"
                )
            whose.setdefault(name, schema.schema_id)
    return struct_of(types)


def undressed(schema: Avro) -> Any:
    """Return a schema without logical types, for fastavro, which would make objects of numbers.

    Decimals stay: their bytes are no number for Arrow.
    """

    def bare(node: Any) -> Any:
        if isinstance(node, list):
            return [bare(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        keeps = is_decimal(node)
        definition = {
            name: attribute for name, attribute in node.items() if keeps or name != "logicalType"
        }
        for inner in ("items", "values", "type"):
            if inner in definition:
                definition[inner] = bare(definition[inner])
        if "fields" in definition:
            definition["fields"] = [
                {**field, "type": bare(field["type"])} for field in definition["fields"]
            ]
        return definition

    return bare(json.loads(write_schema(schema)))


class _Reading:
    """How records of one schema are decoded."""

    def __init__(self, schema: AvroSchema) -> None:
        self.problem = schema.problem
        if schema.problem:
            return
        writer, reader = read_schema(schema.text), read_schema(schema.reader)
        self.walk = walk_of(writer)
        self.ends = np.zeros(self.walk.fields + 1, np.int64)
        self.writer = fastavro.parse_schema(undressed(writer))
        self.reader: Any = None  # resolution takes as long as reading: not where nothing differs
        if schema.reader == schema.text:
            return
        wanted = undressed(reader)
        # A reader that the user gives is for records of any name.
        names = {*wanted.get("aliases", ()), writer.at(writer.root)["name"]}
        self.reader = fastavro.parse_schema({**wanted, "aliases": sorted(names)})


class Decoder:
    """Decodes framed records to a column of structs.

    Parameters
    ----------
    schemas
        Those that records may have.
    """

    def __init__(self, schemas: Iterable[AvroSchema]) -> None:
        all_schemas = tuple(schemas)
        self.type = columns_of(all_schemas)
        self._by_id = {schema.schema_id: _Reading(schema) for schema in all_schemas}

    def decode(self, values: Any) -> Any:
        """Return the fields of the records in a column; null where it is null.

        Raises
        ------
        TransformFailed
            A value is no framed record of one of the schemas.
        """
        assert self.type is not None, "a pipeline without columns has no step that decodes"
        framed = Framed(values)
        records: list[Any] = [None] * framed.count
        for row, number, begin, end in framed.payloads():
            records[row] = self._decoded(framed, number, begin, end)
        try:
            return pa.array(records, self.type.raw).cast(self.type.arrow)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            # Its text may have contents, which nobody must find in a log.
            text = f"its fields can't be columns: {type(error).__name__}"
            raise TransformFailed(text) from None

    def _decoded(self, framed: Framed, number: int, begin: int, end: int) -> Any:
        reading = self._by_id.get(number)
        if reading is None or reading.problem:
            why = "it is not known" if reading is None else reading.problem
            raise TransformFailed(f"it can't be decoded with schema id {number}: {why}")
        walk = reading.walk
        if not field_ends(framed.data, begin, end, walk.nodes, walk.children, 0, reading.ends):
            raise TransformFailed(f"it is no record of schema id {number}")
        try:
            with io.BytesIO(framed.bytes[begin:end]) as payload:
                return fastavro.schemaless_reader(payload, reading.writer, reading.reader)
        except (ValueError, TypeError, EOFError, IndexError, OverflowError) as error:
            text = f"it can't be decoded with schema id {number}: {type(error).__name__}"
            raise TransformFailed(text) from None
        except fastavro.read.SchemaResolutionError as error:
            text = f"schema id {number} does not fit the reader's schema: {error}"
            raise TransformFailed(text) from None


@functools.lru_cache(maxsize=16)
def decoder_of(schemas: tuple[AvroSchema, ...]) -> Decoder:
    """Return a decoder, made once in the life of a worker."""
    return Decoder(schemas)
