"""What the registry double does with schemas' texts: canonical form, names, compatibility.

As far as our tests need it. Avro's own canonical form also orders a schema's attributes, and
Protobuf has a form of its own; here a text is JSON without spaces, or stays as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class InvalidText(Exception):
    """The text is no schema of its type."""


@dataclass(frozen=True)
class Content:
    """What an id stands for (Confluent's class `MD5`): equal content in a context has one id."""

    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...] = ()
    metadata: str = ""
    rule_set: str = ""

    def guid(self) -> UUID:
        """What it is known by in every registry (`Schema.updateHash`)."""
        found = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for name, subject, version in self.references:
            found.update(f"{name}{subject}{version}".encode())
        found.update(f"{self.metadata}{self.rule_set}".encode())
        return UUID(bytes=found.digest())

    def fields(self) -> dict[str, Any]:
        """The fields of an answer; what is empty is left out, as AVRO is."""
        found: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in self.references
            ]
        for name, kept in (("metadata", self.metadata), ("ruleSet", self.rule_set)):
            if kept:
                found[name] = json.loads(kept)
        return found


def canonical(kind: str, text: str, referenced: list[str]) -> str:
    """The text as a registry stores it.

    Raises
    ------
    InvalidText
        It is no schema, or uses a name that is neither in it nor in `referenced`.
    """
    if kind == PROTOBUF:
        return text
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidText(str(error)) from None
    if kind == AVRO:
        known = set(PRIMITIVES)
        for each in referenced:
            known |= set(_defined(json.loads(each), ""))
        known |= set(_defined(found, ""))
        unknown = [name for name in _used(found, "") if not known & set(name)]
        if unknown:
            raise InvalidText(f"undefined name: {unknown[0][0]}")
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def differences(level: str, old: str, new: str) -> list[str]:
    """Why a change of two records is refused; no other kind of schema is looked at."""
    before, after = json.loads(old), json.loads(new)
    if not (isinstance(before, dict) and isinstance(after, dict) and "fields" in before):
        return [] if before == after else ["TYPE_MISMATCH"]
    found = []
    if level.startswith(("BACKWARD", "FULL")):
        found += _unreadable(writer=before, reader=after)
    if level.startswith(("FORWARD", "FULL")):
        found += _unreadable(writer=after, reader=before)
    return found


def _unreadable(writer: Any, reader: Any) -> list[str]:
    """Why a reader can't read what a writer wrote."""
    written = {each["name"]: each["type"] for each in writer["fields"]}
    found = []
    for each in reader.get("fields", []):
        name = each["name"]
        if name not in written:
            if "default" not in each:
                found.append(f"READER_FIELD_MISSING_DEFAULT_VALUE: {name}")
        elif written[name] != each["type"]:
            found.append(f"TYPE_MISMATCH: {name}")
    return found


def _defined(schema: Any, namespace: str) -> Iterator[str]:
    """Full names that a schema defines."""
    if isinstance(schema, list):
        for each in schema:
            yield from _defined(each, namespace)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed", "error"):
            full = _full(schema["name"], schema.get("namespace", namespace))
            namespace = full.rpartition(".")[0]
            yield full
        for part in _parts(schema):
            yield from _defined(part, namespace)


def _used(schema: Any, namespace: str) -> Iterator[tuple[str, ...]]:
    """Names that a schema uses, each as what it may stand for."""
    if isinstance(schema, str):
        yield schema, _full(schema, namespace)
    elif isinstance(schema, list):
        for each in schema:
            yield from _used(each, namespace)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed", "error"):
            full = _full(schema["name"], schema.get("namespace", namespace))
            namespace = full.rpartition(".")[0]
        for part in _parts(schema):
            yield from _used(part, namespace)


def _parts(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas in a schema."""
    match schema.get("type"):
        case "record" | "error":
            yield from (each["type"] for each in schema["fields"])
        case "array":
            yield schema["items"]
        case "map":
            yield schema["values"]
        case "enum" | "fixed":
            pass
        case inner:
            yield inner


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
