"""Avro schemas as text, and taken apart: each named type is known by its full name.

fastavro reads them; what it does not do is write one back whose types are all defined in it, which
a schema needs that has lost a field, or that used types of other subjects (references).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

RECORDS = ("record", "error")
NAMED = (*RECORDS, "enum", "fixed")
_NO_SCHEMA = (
    fastavro.schema.SchemaParseException,
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
)
_OWN = "__"
"""Begins the names of fastavro's own attributes."""


class AvroUnusable(ValueError):
    """An Avro schema, or what is asked of it, is no good; the text says why."""


@dataclass(frozen=True, slots=True)
class Avro:
    """A schema that was read.

    Parameters
    ----------
    root
        The schema: a name, a list (union) or an object. Names of types are full ones.
    named
        Definitions of named types by their full names.
    """

    root: Any
    named: Mapping[str, Any]

    def at(self, node: Any) -> Any:
        """Return the definition that a node stands for: itself, unless it is a name."""
        return self.named.get(node, node) if isinstance(node, str) else node

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The record's fields.

        Raises
        ------
        AvroUnusable
            It is no record.
        """
        root = self.at(self.root)
        if kind_of(root) not in RECORDS:
            raise AvroUnusable(f"it is no record, but {kind_of(root)}")
        record_fields: list[dict[str, Any]] = root["fields"]
        return record_fields


def kind_of(node: Any) -> str:
    """Return what a node is: `union`, or what Avro calls its type."""
    if isinstance(node, list):
        return "union"
    return str(node["type"]) if isinstance(node, dict) else str(node)


def read_schema(text: str, referenced: Iterable[str] = ()) -> Avro:
    """Read a schema.

    Parameters
    ----------
    text
        Its JSON.
    referenced
        JSON of schemas whose types it uses, each after those that it uses itself.

    Raises
    ------
    AvroUnusable
        It is no Avro schema, or uses a type that is not defined.
    """
    named: dict[str, Any] = {}
    root: Any = None
    for schema_json in (*referenced, text):
        try:
            root = fastavro.parse_schema(json.loads(schema_json), named)
        except _NO_SCHEMA as error:
            raise AvroUnusable(f"it is no Avro schema: {error!r:.200}") from None
    return Avro(_cleaned(root), {name: _cleaned(node) for name, node in named.items()})


def _cleaned(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    definition = {name: attribute for name, attribute in node.items() if not name.startswith(_OWN)}
    # {"type": {"type": "string"}} is the inner one.
    return (
        _cleaned(definition["type"]) if isinstance(definition["type"], dict | list) else definition
    )


def write_schema(schema: Avro) -> str:
    """Return a schema's JSON, in which each named type is defined where it is used first."""
    return json.dumps(_defined(schema, schema.root, set()), separators=(",", ":"))


def _defined(schema: Avro, node: Any, done: set[str]) -> Any:
    if isinstance(node, list):
        return [_defined(schema, branch, done) for branch in node]
    if isinstance(node, str):
        return _defined(schema, schema.at(node), done) if _is_new(schema, node, done) else node
    kind, definition = node["type"], dict(node)
    if not isinstance(kind, str):
        return _defined(schema, kind, done)
    if kind in NAMED:
        if node["name"] in done:
            return node["name"]
        done.add(node["name"])
    if kind in RECORDS:
        definition["fields"] = [
            {**field, "type": _defined(schema, field["type"], done)} for field in node["fields"]
        ]
    elif kind == "array":
        definition["items"] = _defined(schema, node["items"], done)
    elif kind == "map":
        definition["values"] = _defined(schema, node["values"], done)
    elif kind not in NAMED and _is_new(schema, kind, done):
        return _defined(schema, schema.at(kind), done)
    return definition


def _is_new(schema: Avro, name: str, done: set[str]) -> bool:
    return name in schema.named and name not in done
