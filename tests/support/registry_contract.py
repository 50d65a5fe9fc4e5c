"""What any registry that answers like Confluent's does: the same scripts for double and real one.

Each script uses subjects and contents of its own, so that they can share a registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from heliostat.errors import RegistryError
from heliostat.schemas.registry import Call, HttpRegistry, calls, error_codes
from heliostat.schemas.registry.values import (
    DEFAULT_CONTEXT,
    Compatibility,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
)

V1, V2 = SchemaVersion(1), SchemaVersion(2)
UNKNOWN_ID = SchemaId(2_000_000_000)


@dataclass
class RegistrySide:
    """A registry under test."""

    registry: HttpRegistry

    def ask(self, call: Call[Any]) -> Any:
        return self.registry.ask(call)

    def code(self, call: Call[Any]) -> int:
        """The code with which a request is refused."""
        with pytest.raises(RegistryError) as refused:
            self.registry.ask(call)
        return refused.value.registry_code


def fresh_subject(name: str = "s") -> Subject:
    """A subject that no other script has."""
    return Subject(f"{name}-{uuid4().hex[:10]}-value")


def record(name: str = "", **fields: str) -> Schema:
    """An Avro record in canonical form, with attributes that are not Avro's."""
    listed = [
        {"name": each, "type": kind, "units": "m", "default": None if kind == "null" else 0}
        for each, kind in (fields or {"x": "int"}).items()
    ]
    unique = name or f"R{uuid4().hex[:10]}"
    body = {"type": "record", "name": unique, "namespace": "lsst.sal", "fields": listed}
    return Schema(json.dumps(body, separators=(",", ":"), ensure_ascii=False))


def without_default(schema: Schema, field: str) -> Schema:
    """The same record with a field that readers of older data have no value for."""
    body = json.loads(schema.text)
    body["fields"].append({"name": field, "type": "int"})
    return Schema(json.dumps(body, separators=(",", ":")))


def referring_to(inner: Schema, used: Subject) -> Schema:
    """A record with a field of the type that version 1 of a subject defines."""
    body = json.loads(inner.text)
    name = f"{body['namespace']}.{body['name']}"
    outer = {**body, "name": f"{body['name']}Outer", "fields": [{"name": "inner", "type": name}]}
    text = json.dumps(outer, separators=(",", ":"))
    return Schema(text, references=(SchemaReference(name, used, V1),))


def equal_content_has_one_id_and_comes_back_to_the_byte(side: RegistrySide) -> None:
    one, two, schema = fresh_subject(), fresh_subject(), record()
    schema_id = side.ask(calls.register(one, schema))
    assert side.ask(calls.register(one, schema)) == schema_id
    assert side.ask(calls.register(two, schema)) == schema_id
    assert side.ask(calls.schema_by_id(schema_id)) == schema
    assert side.ask(calls.versions(one)) == (V1,)
    found = side.ask(calls.version(one, V1))
    assert (found.subject, found.version) == (one, V1)
    assert (found.schema_id, found.schema) == (schema_id, schema)
    of_id = side.ask(calls.versions_of_id(schema_id))
    assert sorted(of_id) == sorted([SubjectVersion(one, V1), SubjectVersion(two, V1)])


def another_content_has_another_id_and_the_next_version(side: RegistrySide) -> None:
    subject, old = fresh_subject(), record()
    new = without_default(old, "y")
    first = side.ask(calls.register(subject, old))
    side.ask(calls.set_compatibility(Compatibility.NONE, subject))
    second = side.ask(calls.register(subject, new))
    assert second != first
    assert side.ask(calls.versions(subject)) == (V1, V2)
    assert side.ask(calls.version(subject)).schema == new
    assert side.ask(calls.version(subject, V1)).schema == old
    assert {subject} <= set(side.ask(calls.subjects()))


def what_is_not_there_is_named(side: RegistrySide) -> None:
    subject = fresh_subject()
    assert side.code(calls.versions(subject)) == error_codes.SUBJECT_NOT_FOUND
    assert side.code(calls.version(subject, V1)) == error_codes.SUBJECT_NOT_FOUND
    assert side.code(calls.look_up(subject, record())) == error_codes.SUBJECT_NOT_FOUND
    assert side.code(calls.schema_by_id(UNKNOWN_ID)) == error_codes.SCHEMA_NOT_FOUND
    assert side.code(calls.versions_of_id(UNKNOWN_ID)) == error_codes.SCHEMA_NOT_FOUND
    side.ask(calls.register(subject, record()))
    assert side.code(calls.version(subject, V2)) == error_codes.VERSION_NOT_FOUND
    assert side.code(calls.look_up(subject, record())) == error_codes.SCHEMA_NOT_FOUND


def content_is_found_under_its_subject(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    found = side.ask(calls.look_up(subject, schema))
    assert (found.version, found.schema_id, found.schema) == (V1, schema_id, schema)


def references_are_kept_and_must_be_there(side: RegistrySide) -> None:
    used, user, inner = fresh_subject("used"), fresh_subject("user"), record()
    outer = referring_to(inner, used)
    assert side.code(calls.register(user, outer)) == error_codes.INVALID_SCHEMA
    side.ask(calls.register(used, inner))
    schema_id = side.ask(calls.register(user, outer))
    assert side.ask(calls.schema_by_id(schema_id)) == outer
    assert side.ask(calls.version(user, V1)).schema == outer
    assert side.code(calls.delete_version(used, V1)) == error_codes.REFERENCE_EXISTS


def a_soft_deleted_version_keeps_its_id(side: RegistrySide) -> None:
    subject, old = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, old))
    side.ask(calls.set_compatibility(Compatibility.NONE, subject))
    side.ask(calls.register(subject, without_default(old, "y")))
    assert side.ask(calls.delete_version(subject, V1)) == V1
    assert side.ask(calls.versions(subject)) == (V2,)
    assert side.ask(calls.versions(subject, deleted=True)) == (V1, V2)
    assert side.code(calls.version(subject, V1)) == error_codes.VERSION_NOT_FOUND
    assert side.ask(calls.version(subject, V1, deleted=True)).schema == old
    assert side.ask(calls.schema_by_id(schema_id)) == old


def a_soft_deleted_subject_keeps_its_ids_until_it_is_deleted_for_good(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    refused = side.code(calls.delete_subject(subject, permanently=True))
    assert refused == error_codes.SUBJECT_NOT_SOFT_DELETED
    assert side.ask(calls.delete_subject(subject)) == (V1,)
    assert subject not in side.ask(calls.subjects())
    assert subject in side.ask(calls.subjects(deleted=True))
    assert side.code(calls.versions(subject)) == error_codes.SUBJECT_NOT_FOUND
    assert side.ask(calls.schema_by_id(schema_id)) == schema
    assert side.ask(calls.delete_subject(subject, permanently=True)) == (V1,)
    assert subject not in side.ask(calls.subjects(deleted=True))
    assert side.code(calls.schema_by_id(schema_id)) == error_codes.SCHEMA_NOT_FOUND


def registering_again_what_was_soft_deleted_gives_its_id(side: RegistrySide) -> None:
    subject, schema = fresh_subject(), record()
    schema_id = side.ask(calls.register(subject, schema))
    side.ask(calls.delete_subject(subject))
    assert side.ask(calls.register(subject, schema)) == schema_id
    assert side.ask(calls.versions(subject)) == (V2,)


def an_incompatible_schema_is_refused_unless_compatibility_is_none(side: RegistrySide) -> None:
    subject, old = fresh_subject(), record()
    new = without_default(old, "y")
    side.ask(calls.register(subject, old))
    backward, none = Compatibility.BACKWARD, Compatibility.NONE
    assert side.ask(calls.set_compatibility(backward, subject)) is backward
    assert side.ask(calls.compatibility(subject)) is backward
    assert side.ask(calls.compatibility(subject, inherited=True)) is backward
    assert side.ask(calls.is_compatible(subject, new)) is False
    assert side.code(calls.register(subject, new)) in error_codes.INCOMPATIBLE
    assert side.ask(calls.set_compatibility(none, subject)) is none
    assert side.ask(calls.is_compatible(subject, new)) is True
    side.ask(calls.register(subject, new))
    side.ask(calls.set_compatibility(backward, subject))
    side.ask(calls.clear_compatibility(subject))


def other_types_keep_type_and_text(side: RegistrySide) -> None:
    unique = uuid4().hex[:10]
    proto = Schema(f'syntax = "proto3";\nmessage M{unique} {{\n  int32 a = 1;\n}}\n', "PROTOBUF")
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": unique}
    described = Schema(json.dumps({**schema, "type": "object"}, separators=(",", ":")), "JSON")
    for each in (proto, described):
        subject = fresh_subject()
        schema_id = side.ask(calls.register(subject, each))
        assert side.ask(calls.schema_by_id(schema_id)) == each
        assert side.ask(calls.version(subject, V1)).schema == each


def subjects_may_have_any_character(side: RegistrySide) -> None:
    subject = Subject(f"a/b c?d#e%41+é&{fresh_subject()}")
    schema_id = side.ask(calls.register(subject, record()))
    assert side.ask(calls.version(subject, V1)).schema_id == schema_id
    assert subject in side.ask(calls.subjects())


def what_is_no_schema_is_refused(side: RegistrySide) -> None:
    broken = calls.register(fresh_subject(), Schema('{"type":"recor'))
    assert side.code(broken) == error_codes.INVALID_SCHEMA


def the_default_context_is_listed(side: RegistrySide) -> None:
    assert DEFAULT_CONTEXT in side.ask(calls.contexts())


SCRIPTS: list[Callable[[RegistrySide], None]] = [
    equal_content_has_one_id_and_comes_back_to_the_byte,
    another_content_has_another_id_and_the_next_version,
    what_is_not_there_is_named,
    content_is_found_under_its_subject,
    references_are_kept_and_must_be_there,
    a_soft_deleted_version_keeps_its_id,
    a_soft_deleted_subject_keeps_its_ids_until_it_is_deleted_for_good,
    registering_again_what_was_soft_deleted_gives_its_id,
    an_incompatible_schema_is_refused_unless_compatibility_is_none,
    other_types_keep_type_and_text,
    subjects_may_have_any_character,
    what_is_no_schema_is_refused,
    the_default_context_is_listed,
]
