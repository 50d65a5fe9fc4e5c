"""The nouns of schema registries that answer like Confluent's, as frozen values.

A *subject* is a name with versions; each version holds a schema. An *id* names a schema's content,
whatever subjects have it. Both count within a *context*: one registry may have several, and the
same id may mean different content in two of them (Confluent's class `QualifiedSubject`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NewType

SchemaId = NewType("SchemaId", int)
Subject = NewType("Subject", str)
"""A name with versions; with its context in front (`:.summit:foo-value`), unless the default."""
SchemaVersion = NewType("SchemaVersion", int)
Context = NewType("Context", str)
"""A context's name as the API has it, `.` in front: `.summit`."""

DEFAULT_CONTEXT = Context(".")
AVRO = "AVRO"
"""The schema type that answers leave out."""


class Mode(Enum):
    """What a registry, a context or a subject may be asked for."""

    READWRITE = "READWRITE"
    """Schemas are registered, and get their ids from the registry."""
    READONLY = "READONLY"
    """Nothing is written."""
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """As READONLY, for all subjects whatever theirs is; older registries have it."""
    IMPORT = "IMPORT"
    """Schemas are registered with the id and the version that the request names."""
    FORWARD = "FORWARD"
    """As IMPORT, where another registry is the one that is written."""


class Compatibility(Enum):
    """Which changes of a subject a registry accepts."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses, by the name used there."""

    name: str
    subject: Subject
    version: SchemaVersion


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's content: all of what an id stands for.

    Parameters
    ----------
    text
        As the registry stores it; never parsed or rewritten by us.
    schema_type
        AVRO, JSON, PROTOBUF, or what else the registry has.
    references
        In the order of the registry.
    metadata, rule_set
        JSON of Confluent's data contracts, as text with sorted keys; empty for none. They are part
        of the content: schemas that differ only there have different ids.
    """

    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: str = ""
    rule_set: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of one subject."""

    subject: Subject
    version: SchemaVersion
    schema_id: SchemaId
    schema: Schema
    guid: bytes = b""
    """16 bytes that stand for the content in every registry; empty: the registry gives none.
    Confluent's make them of what `Schema` holds (`Schema.updateHash`)."""


@dataclass(frozen=True, slots=True, order=True)
class SubjectVersion:
    """A version by its name."""

    subject: Subject
    version: SchemaVersion


def split_subject(subject: Subject) -> tuple[Context, str]:
    """Context and plain name: `:.summit:foo` is `foo` in `.summit`.

    As Confluent's class `QualifiedSubject` splits it: a colon and a dot begin a context, the next
    colon ends it; without that colon all is context.
    """
    if not subject.startswith(":."):
        return DEFAULT_CONTEXT, subject
    context, _, name = subject[1:].partition(":")
    return Context(context), name


def join_subject(context: Context, name: str) -> Subject:
    """The subject of a plain name in a context; the default context is not written."""
    return Subject(name if context == DEFAULT_CONTEXT else f":{context}:{name}")
