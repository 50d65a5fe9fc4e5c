"""What a registry holds, as a value that plans are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from heliostat.schemas.registry.values import (
    AVRO,
    DEFAULT_CONTEXT,
    Compatibility,
    Context,
    Mode,
    Schema,
    SchemaId,
    Subject,
    SubjectVersion,
    join_subject,
    split_subject,
)

Fingerprint: TypeAlias = tuple[object, ...]
"""Equal for equal content."""


@dataclass(frozen=True, slots=True)
class VersionContent:
    """What a version of a subject is."""

    schema_id: SchemaId
    schema: Schema
    is_deleted: bool = False
    """Soft-deleted: its id can be read, and old records need it."""
    guid: bytes = b""
    """See `RegisteredSchema`."""


@dataclass(frozen=True, slots=True)
class RegistryContent:
    """A registry as it was observed.

    Parameters
    ----------
    versions
        All that can be read, soft-deleted ones among them.
    has_modes
        Whether it takes ids (IMPORT). Apicurio and Karapace don't.
    modes
        Modes that were set, by subject or context (`:.summit:`); the empty name is the default
        context's, `:.__GLOBAL:` counts for all without one of their own.
    compatibilities
        Compatibilities in effect, of subjects that were asked for.
    default_compatibility
        What counts for a new subject of the default context, if that was asked for.
    is_cut
        Whether there may be more subjects: the registry's list ended at the most it gives.
    own_levels
        Subjects of `compatibilities` that have one of their own: somebody has set it.
    """

    versions: Mapping[SubjectVersion, VersionContent] = field(default_factory=dict)
    has_modes: bool = True
    modes: Mapping[Subject, Mode] = field(default_factory=dict)
    compatibilities: Mapping[Subject, Compatibility] = field(default_factory=dict)
    default_compatibility: Compatibility | None = None
    is_cut: bool = False
    own_levels: frozenset[Subject] = frozenset()

    def mode(self, subject: Subject) -> Mode:
        """The mode in effect for a subject (`InMemoryCache.mode`)."""
        context, _ = split_subject(subject)
        for scope in (subject, join_subject(context, ""), EVERYWHERE):
            if scope in self.modes:
                return self.modes[scope]
        return Mode.READWRITE

    def ids(self, context: Context = DEFAULT_CONTEXT) -> dict[SchemaId, Schema]:
        """Content by id, of one context."""
        return {content.schema_id: content.schema for content in self._of(context)}

    def guids(self, context: Context = DEFAULT_CONTEXT) -> dict[SchemaId, bytes]:
        """GUIDs by id, of one context, as far as the registry gives them."""
        return {content.schema_id: content.guid for content in self._of(context) if content.guid}

    def _of(self, context: Context) -> Iterator[VersionContent]:
        for place, content in self.versions.items():
            if split_subject(place.subject)[0] == context:
                yield content


EVERYWHERE = Subject(":.__GLOBAL:")
"""Stands for all contexts in modes and compatibilities."""


def fingerprint(schema: Schema) -> Fingerprint:
    """Equal for schemas that a registry may give back for each other.

    Registries store a text in a form of their own: without spaces, attributes reordered (Avro's
    `Schema.toString`). So JSON is compared as JSON, and other text without its spaces. A field's
    order, defaults and foreign attributes count.
    """
    plain = replace(schema, text="")
    if schema.schema_type in (AVRO, "JSON"):
        try:
            document = json.loads(schema.text)
        except (ValueError, RecursionError):
            return plain, schema.text
        return plain, json.dumps(document, sort_keys=True)
    return plain, "".join(schema.text.split())


def fingerprint_alone(schema: Schema) -> Fingerprint:
    """The same without references, whose subjects and versions may be others at the target."""
    return fingerprint(replace(schema, references=()))
