"""Requests as values: what is sent for each call, and names that would lead elsewhere."""

from __future__ import annotations

import json

import pytest

from heliostat.schemas.registry import Request, calls
from heliostat.schemas.registry.values import (
    Compatibility,
    Context,
    Mode,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    join_subject,
    split_subject,
)

S, V3, ID = Subject("foo-value"), SchemaVersion(3), SchemaId(7)
SUMMIT = Context(".summit")
IN_SUMMIT = join_subject(SUMMIT, "foo-value")
AVRO = Schema('"int"')


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (calls.subjects(), "GET /subjects?subjectPrefix=:*:"),
        (calls.subjects("lsst", deleted=True), "GET /subjects?subjectPrefix=lsst&deleted=true"),
        (
            calls.schemas(deleted=True, offset=1_000),
            "GET /schemas?subjectPrefix=:*:&deleted=true&offset=1000",
        ),
        (calls.versions(S), "GET /subjects/foo-value/versions"),
        (calls.versions(S, deleted=True), "GET /subjects/foo-value/versions?deleted=true"),
        (calls.version(S), "GET /subjects/foo-value/versions/latest"),
        (calls.version(S, V3, deleted=True), "GET /subjects/foo-value/versions/3?deleted=true"),
        (calls.version(IN_SUMMIT, V3), "GET /subjects/%3A.summit%3Afoo-value/versions/3"),
        (calls.schema_by_id(ID), "GET /schemas/ids/7"),
        (calls.schema_by_id(ID, SUMMIT), "GET /schemas/ids/7?subject=:.summit:"),
        (calls.versions_of_id(ID), "GET /schemas/ids/7/versions"),
        (
            calls.versions_of_id(ID, SUMMIT, deleted=True),
            "GET /schemas/ids/7/versions?subject=:.summit:&deleted=true",
        ),
        (calls.register(S, AVRO), "POST /subjects/foo-value/versions"),
        (calls.look_up(S, AVRO, deleted=True), "POST /subjects/foo-value?deleted=true"),
        (
            calls.is_compatible(S, AVRO),
            "POST /compatibility/subjects/foo-value/versions/latest",
        ),
        (calls.delete_subject(S), "DELETE /subjects/foo-value"),
        (
            calls.delete_version(S, V3, permanently=True),
            "DELETE /subjects/foo-value/versions/3?permanent=true",
        ),
        (calls.compatibility(), "GET /config"),
        (calls.compatibility(S, inherited=True), "GET /config/foo-value?defaultToGlobal=true"),
        (calls.set_compatibility(Compatibility.NONE, S), "PUT /config/foo-value"),
        (calls.clear_compatibility(S), "DELETE /config/foo-value"),
        (calls.mode(), "GET /mode"),
        (calls.mode(IN_SUMMIT), "GET /mode/%3A.summit%3Afoo-value"),
        (calls.set_mode(Mode.IMPORT, force=True), "PUT /mode?force=true"),
        (calls.clear_mode(S), "DELETE /mode/foo-value"),
        (calls.contexts(), "GET /contexts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_sent(call: calls.Call[object], sent: str) -> None:
    assert str(call.request) == sent


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a..b", "a..b"),
        ("50%", "50%25"),
        ("a?b#c", "a%3Fb%23c"),
        ("é", "%C3%A9"),
    ],
)
def test_a_name_stays_one_part_of_the_path(name: str, part: str) -> None:
    assert calls.versions(Subject(name)).request.path == f"/subjects/{part}/versions"


def test_a_schema_is_sent_unchanged_with_what_belongs_to_it() -> None:
    schema = Schema(
        '{"type": "ü\\ud800"}',
        "JSON",
        (SchemaReference("n", Subject("s"), V3),),
        metadata='{"tags": {"a": ["b"]}}',
    )
    call = calls.register(S, schema, schema_id=ID, number=V3)
    assert call.request.body is not None
    assert call.request.body.isascii()
    assert json.loads(call.request.body) == {
        "schema": schema.text,
        "schemaType": "JSON",
        "references": [{"name": "n", "subject": "s", "version": 3}],
        "metadata": {"tags": {"a": ["b"]}},
        "id": 7,
        "version": 3,
    }


def test_what_old_registries_do_not_know_is_left_out() -> None:
    assert calls.register(S, AVRO).request == Request(
        "POST", "/subjects/foo-value/versions", (), '{"schema":"\\"int\\""}'
    )


def test_only_deletions_are_not_repeatable() -> None:
    assert calls.register(S, AVRO).is_repeatable
    assert calls.set_mode(Mode.IMPORT).is_repeatable
    assert not calls.delete_version(S, V3).is_repeatable
    assert not calls.clear_mode(S).is_repeatable


@pytest.mark.parametrize(
    ("subject", "context", "name"),
    [
        ("foo", ".", "foo"),
        (":.summit:foo", ".summit", "foo"),
        (":.summit:a:b", ".summit", "a:b"),
        (":.summit", ".summit", ""),
        (":foo:bar", ".", ":foo:bar"),
        ("", ".", ""),
    ],
)
def test_contexts_are_split_as_the_registry_does(subject: str, context: str, name: str) -> None:
    assert split_subject(Subject(subject)) == (context, name)


def test_a_context_and_a_name_are_joined() -> None:
    assert join_subject(Context("."), "foo") == "foo"
    assert join_subject(SUMMIT, "foo") == ":.summit:foo"
