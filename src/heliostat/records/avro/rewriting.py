"""What a step makes of a schema: a new one, and how the bytes of its records follow from the old.

Fields that a step leaves alone keep their bytes, whatever they are; nothing of them is decoded. So
a new record is made of runs of the old one, of constants (masks), and of values that Spark has
computed. Each version of a subject becomes a version of its own.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import fastavro

from heliostat.records.avro.schema_text import (
    RECORDS,
    Avro,
    AvroUnusable,
    kind_of,
    read_schema,
    write_schema,
)
from heliostat.records.avro.sql_types import avro_of_sql
from heliostat.records.copier.avro_step import AvroFields, AvroSchema

HOISTED = "io.confluent.connect.avro.ConnectDefault"
NIL_UUID = "00000000-0000-0000-0000-000000000000"
_ZEROS = {
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
}
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a new record: one of these.

    Parameters
    ----------
    fields
        First and last of a run of the old record's fields.
    constant
        Bytes.
    made
        A field that the step has computed.
    """

    fields: tuple[int, int] | None = None
    constant: bytes = b""
    made: str = ""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What becomes of the records of one schema.

    Parameters
    ----------
    schema
        The new schema.
    text
        The same as JSON.
    parts
        Of a new record, in order.
    made
        Types of the fields that the step computes, by name: nodes of the schema that `named` knows.
    """

    schema: Avro
    text: str
    parts: tuple[Part, ...]
    made: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field on its way: its definition, and what its bytes come from."""

    definition: dict[str, Any]
    part: Part


def rewriting_of(step: AvroFields, schema: AvroSchema) -> Rewriting:
    """Return what a step makes of a schema.

    A field that a schema does not have is left out of account: other versions have it.

    Raises
    ------
    AvroUnusable
        It is no record, a mask or an expression does not fit a field, or two fields get one name.
    """
    old, reader = read_schema(schema.text), read_schema(schema.reader)
    _check_not_within_itself(old)
    fields = {
        field["name"]: _Field(field, Part(fields=(place, place)))
        for place, field in enumerate(old.fields)
    }
    types = dict(step.casts)
    made: dict[str, Any] = {}
    for name in dict.fromkeys([*(name for name, _ in step.columns), *types]):
        new_field = _made(name, types.get(name), old, reader, fields.get(name))
        if new_field is not None:
            fields[name] = new_field
            made[name] = new_field.definition["type"]
    for name, instead in step.masks:
        if name in fields:
            node = fields[name].definition["type"]
            masked = _constant(old, name, node, instead)
            fields[name] = replace(fields[name], part=Part(constant=masked))
            made.pop(name, None)
    names = dict(step.renames)
    kept = [
        _Field({**field.definition, "name": names.get(name, name)}, field.part)
        for name, field in fields.items()
        if names.get(name, name) not in step.drops
    ]
    if step.flattens:
        kept = [flat for field in kept for flat in _flat(old, field, step.flattens)]
    if step.extracts:
        kept = _extracted(kept, step.extracts[0])
    return _assembled(step, old, reader, kept, made)


def _extracted(kept: list[_Field], name: str) -> list[_Field]:
    """Return the field that becomes the whole content; its bytes are what a record of it alone is.

    One that was flattened has its bytes beside those of others.
    """
    for place, field in enumerate(kept):
        if field.definition["name"] == name:
            after = kept[place + 1].part if place + 1 < len(kept) else None
            if field.part == Part() or after == Part():
                raise AvroUnusable(f"field {name} can't be extracted: it was in a nested record")
            return [field]
    raise AvroUnusable(f"it has no field {name}")


def _assembled(
    step: AvroFields, old: Avro, reader: Avro, kept: list[_Field], made: dict[str, Any]
) -> Rewriting:
    names = [kept_field.definition["name"] for kept_field in kept]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AvroUnusable(f"two fields would have the name {twice[0]}")
    root = {**old.at(old.root), "fields": [kept_field.definition for kept_field in kept]}
    named = {**reader.named, **old.named, root["name"]: root}
    new = Avro(root, named)
    if step.extracts:
        new = Avro(kept[0].definition["type"], {**reader.named, **old.named})
    elif step.hoists:
        outer = _outer_name(named)
        field = {"name": step.hoists, "type": root["name"]}
        new = Avro({"type": "record", "name": outer, "fields": [field]}, named)
    text = write_schema(new)
    read_schema(text)
    parts = tuple(_joined([kept_field.part for kept_field in kept]))
    left = {kept_field.part.made for kept_field in kept}
    return Rewriting(new, text, parts, {name: made[name] for name in made if name in left})


def _outer_name(named: Mapping[str, Any]) -> str:
    """Return the name of a record around others: Kafka Connect's, unless one of these has it."""
    name = HOISTED
    while name in named:
        name += "_"
    return name


def _joined(parts: list[Part]) -> Iterator[Part]:
    """Yield parts, runs of neighbouring fields as one; without those that take no bytes."""
    run: tuple[int, int] | None = None
    for part in parts:
        if part == Part():
            continue
        if run and part.fields and part.fields[0] == run[1] + 1:
            run = run[0], part.fields[1]
            continue
        if run:
            yield Part(fields=run)
        run = part.fields
        if run is None:
            yield part
    if run:
        yield Part(fields=run)


def _made(
    name: str, kind: str | None, old: Avro, reader: Avro, before: _Field | None
) -> _Field | None:
    """Return a computed field: of the type that it is cast to, or had before."""
    part = Part(made=name)
    if kind is not None:
        own = ["null", avro_of_sql(kind)]
        return _Field({"name": name, "type": own, "default": None}, part)
    if before is not None:
        _check_scalar(old, name, before.definition["type"])
        return _Field(before.definition, part)
    definition = next((field for field in reader.fields if field["name"] == name), None)
    if definition is None:
        raise AvroUnusable(f"field {name} is new: name its type under cast")
    _check_scalar(reader, name, definition["type"])
    return _Field(definition, part)


def _check_scalar(schema: Avro, name: str, node: Any) -> None:
    scalar = kind_of(scalar_of(schema, node))
    if scalar not in _ZEROS and scalar not in ("enum", "fixed"):
        raise AvroUnusable(f"field {name} can't be set: it is {scalar}")


def scalar_of(schema: Avro, node: Any) -> Any:
    """Return a node without null beside it."""
    node = schema.at(node)
    if kind_of(node) == "union":
        some = [branch for branch in node if kind_of(schema.at(branch)) != "null"]
        if len(some) == 1:
            return schema.at(some[0])
    return node


def _constant(schema: Avro, name: str, node: Any, instead: str | None) -> bytes:
    """Return the bytes of what hides a field.

    Without a text that is what Connect's MaskField puts there: an empty string, 0 or false; for
    other types null or what is empty.
    """
    node, scalar = schema.at(node), scalar_of(schema, node)
    branches = node if kind_of(node) == "union" else []
    kinds = [kind_of(schema.at(branch)) for branch in branches]
    if instead is not None:
        content = _read(name, scalar, instead)
    else:
        content = _zero(scalar)
        is_plain = isinstance(scalar, str) or "logicalType" not in scalar
        if "null" in kinds and (content is None or not is_plain or kind_of(scalar) not in _ZEROS):
            return _encoded("long", kinds.index("null"))
    if content is None:
        text = f"field {name} can't be masked: it is {kind_of(scalar)}"
        raise AvroUnusable(text)
    is_empty = kind_of(scalar) in ("array", "map")
    own = _encoded("long", 0) if is_empty else _encoded(_bare(scalar), content)
    if not branches:
        return own
    return _encoded("long", next(n for n, kind in enumerate(kinds) if kind != "null")) + own


def _zero(node: Any) -> Any:
    kind = kind_of(node)
    if isinstance(node, dict) and node.get("logicalType") == "uuid" and kind == "string":
        return NIL_UUID
    if kind == "fixed":
        return bytes(node["size"])
    if isinstance(node, dict) and node.get("logicalType") == "decimal" and kind == "bytes":
        return b"\x00"  # Java's BigInteger takes no empty bytes
    return {**_ZEROS, "array": [], "map": {}}.get(kind)


def _read(name: str, node: Any, text: str) -> Any:
    """Return a text as a value of a scalar type."""
    kind = kind_of(node)
    try:
        if kind in ("int", "long"):
            return int(text)
        if kind in ("float", "double"):
            return float(text)
        if kind == "boolean":
            return _WORDS[text.lower()]
    except (ValueError, KeyError):
        raise AvroUnusable(f"field {name} can't be masked by {text!r}: it is {kind}") from None
    if kind == "enum" and text not in node["symbols"]:
        raise AvroUnusable(f"field {name} can't be masked by {text!r}: it is no symbol of its enum")
    if kind in ("string", "enum"):
        return text
    return text.encode() if kind == "bytes" else None


def _bare(node: Any) -> Any:
    """Return a type that fastavro encodes as it stands."""
    if not isinstance(node, dict):
        return node
    return {name: attribute for name, attribute in node.items() if name != "logicalType"}


def _encoded(node: Any, content: Any) -> bytes:
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, fastavro.parse_schema(node, {}), content)
    except (ValueError, TypeError, OverflowError) as error:
        raise AvroUnusable(f"{content!r} is no {kind_of(node)}: {error}") from None
    return out.getvalue()


def _flat(schema: Avro, field: _Field, joint: str) -> Iterator[_Field]:
    """Yield the fields of a nested record: their bytes, one after the other, are the record's.

    What may be null stays nested: its bytes say whether it is.
    """
    if field.part.fields is None:
        yield field
        return
    for number, leaf in enumerate(_leaves(schema, field.definition, joint)):
        yield _Field(leaf, field.part if number == 0 else Part())


def _leaves(schema: Avro, definition: dict[str, Any], joint: str) -> Iterator[dict[str, Any]]:
    node = schema.at(definition["type"])
    if kind_of(node) not in RECORDS:
        yield definition
        return
    for inner in node["fields"]:
        yield from _leaves(
            schema, {**inner, "name": definition["name"] + joint + inner["name"]}, joint
        )


def _check_not_within_itself(schema: Avro) -> None:
    """Refuse a record that contains itself: its inner ones would have to be changed as well."""
    own = schema.at(schema.root)["name"]
    type_names: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, list):
            for branch in node:
                look(branch)
        elif isinstance(node, str):
            if node == own:
                raise AvroUnusable(f"record {own} contains itself, and can't be changed")
            if node in schema.named and node not in type_names:
                type_names.add(node)
                look(schema.named[node])
        else:
            for inner_field in node.get("fields", ()):
                look(inner_field["type"])
            for inner in ("items", "values"):
                if inner in node:
                    look(node[inner])

    for field in schema.fields:
        look(field["type"])
