"""Answers are read strictly: what no registry says is refused, what newer ones add is not."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from heliostat.errors import RegistryAnswerInvalid, RegistryError, Verdict
from heliostat.schemas.registry import Answer, Call, calls
from heliostat.schemas.registry.error_codes import REGISTRY_ERRORS, registry_error
from heliostat.schemas.registry.reading import error_of
from heliostat.schemas.registry.values import (
    Compatibility,
    Mode,
    RegisteredSchema,
    Schema,
    SchemaId,
    SchemaReference,
    SchemaVersion,
    Subject,
    SubjectVersion,
)

S, V1, ID = Subject("s"), SchemaVersion(1), SchemaId(1)
VERSION = {"subject": "s", "version": 2, "id": 9, "schema": '"int"'}


def read(call: Call[Any], body: object) -> Any:
    return call.read(Answer(200, json.dumps(body).encode()))


def test_a_version_of_confluent_with_all_its_fields() -> None:
    body = {
        **VERSION,
        "guid": "b4cbd4ab-6a26-9c2e-61a1-d8a4c1ea5f8c",
        "schemaType": "JSON",
        "references": [{"name": "n", "subject": ":.c:r", "version": 4}],
        "metadata": {"b": 1, "a": 2},
        "ruleSet": {"domainRules": []},
        "ts": 1_790_000_000_000,
        "deleted": False,
    }
    reference = SchemaReference("n", Subject(":.c:r"), SchemaVersion(4))
    schema = Schema('"int"', "JSON", (reference,), '{"a": 2, "b": 1}', '{"domainRules": []}')
    guid = bytes.fromhex("b4cbd4ab6a269c2e61a1d8a4c1ea5f8c")
    wanted = RegisteredSchema(S, SchemaVersion(2), SchemaId(9), schema, guid)
    assert read(calls.version(S), body) == wanted
    plain = read(calls.version(S), {**body, "guid": None})
    assert plain == replace(wanted, guid=b"")


@pytest.mark.parametrize("guid", ["", "b4cbd4ab", 7, ["b4cbd4ab-6a26-9c2e-61a1-d8a4c1ea5f8c"]])
def test_what_is_no_guid_is_refused(guid: object) -> None:
    with pytest.raises(RegistryAnswerInvalid, match="guid should be a"):
        read(calls.version(S), {**VERSION, "guid": guid})


def test_what_apicurio_leaves_empty() -> None:
    body = {"schema": '"int"', "references": [], "schemaType": None}
    assert read(calls.schema_by_id(ID), body) == Schema('"int"')


@pytest.mark.parametrize(
    ("call", "body", "value"),
    [
        (calls.subjects(), ["a", ":.c:b"], ("a", ":.c:b")),
        (calls.versions(S), [1, 3], (1, 3)),
        (calls.register(S, Schema("")), {"id": 0}, 0),
        (calls.versions_of_id(ID), [{"subject": "s", "version": 1}], (SubjectVersion(S, V1),)),
        (calls.compatibility(), {"compatibilityLevel": "FULL"}, Compatibility.FULL),
        (
            calls.set_compatibility(Compatibility.NONE),
            {"compatibility": "NONE"},
            Compatibility.NONE,
        ),
        (calls.mode(), {"mode": "IMPORT"}, Mode.IMPORT),
        (calls.contexts(), [".", ".c"], (".", ".c")),
        (calls.contexts(), [":.:"], (".",)),
        (calls.is_compatible(S, Schema("")), {"is_compatible": False, "reason": None}, False),
        (calls.delete_version(S, V1), 1, 1),
    ],
)
def test_what_is_read(call: Call[Any], body: object, value: object) -> None:
    assert read(call, body) == value


@pytest.mark.parametrize(
    ("call", "body", "where"),
    [
        (calls.subjects(), {"subjects": []}, "subjects should be a list"),
        (calls.subjects(), ["a", 1], r"subjects\[1\]"),
        (calls.versions(S), ["1"], r"versions\[0\]"),
        (calls.versions(S), [0], "from 1"),
        (calls.versions(S), [True], "whole number"),
        (calls.versions(S), [2**31], "from 1"),
        (calls.register(S, Schema("")), {}, "with id"),
        (calls.register(S, Schema("")), {"id": -1}, "id should be"),
        (calls.register(S, Schema("")), {"id": 1.0}, "id should be"),
        (calls.register(S, Schema("")), [{"id": 1}], "with id"),
        (calls.schema_by_id(ID), {"schema": None}, "schema should be a text"),
        (calls.schema_by_id(ID), {"schema": "", "schemaType": 1}, "schemaType"),
        (calls.schema_by_id(ID), {"schema": "", "references": [{}]}, r"references\[0\]"),
        (calls.version(S), {**VERSION, "version": -1}, "version"),
        (calls.compatibility(), {"compatibilityLevel": "SOME"}, "compatibility that we know"),
        (calls.mode(), {"mode": "READ"}, "mode that we know"),
        (calls.contexts(), ["ctx"], "context's name"),
        (calls.is_compatible(S, Schema("")), {"is_compatible": 1}, "true or false"),
    ],
)
def test_what_is_refused(call: Call[Any], body: object, where: str) -> None:
    with pytest.raises(RegistryAnswerInvalid, match=where) as refused:
        read(call, body)
    assert refused.value.verdict is Verdict.RETRY


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1", b"\xff", b"NaN", b"[" * 100_000])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(RegistryAnswerInvalid, match="no JSON") as refused:
        calls.versions(S).read(Answer(200, body))
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    ("status", "body", "code", "name", "verdict"),
    [
        (404, {"error_code": 40401}, 40401, "SUBJECT_NOT_FOUND", Verdict.RETRY),
        (409, {"error_code": 409}, 409, "CONFLICT", Verdict.SET_ASIDE),
        (422, {"error_code": 42205}, 42205, "OPERATION_NOT_PERMITTED", Verdict.RETRY),
        (404, {"error_code": 0}, 404, "NO_SUCH_REQUEST", Verdict.HALT),
        (422, {"error_code": 42299}, 42299, "UNPROCESSABLE", Verdict.SET_ASIDE),
        (401, {"error_code": 40101}, 40101, "UNAUTHORIZED", Verdict.RETRY),
        (418, {"error_code": "x"}, 418, "BAD_REQUEST", Verdict.HALT),
        (500, {"error_code": 50001}, 50001, "STORE_ERROR", Verdict.RETRY),
        (599, {}, 599, "INTERNAL_SERVER_ERROR", Verdict.RETRY),
        (503, None, 503, "INTERNAL_SERVER_ERROR", Verdict.RETRY),
    ],
)
def test_the_code_of_an_error(
    status: int, body: object, code: int, name: str, verdict: Verdict
) -> None:
    error = error_of(Answer(status, json.dumps(body).encode()))
    assert isinstance(error, RegistryError)
    assert (error.registry_code, error.name, error.verdict) == (code, name, verdict)
    assert f"[REGISTRY] the registry answers with an error; registry_error='{name}({code})'" in str(
        error
    )


def test_the_registrys_words_are_told_and_a_proxys_page_is_cut() -> None:
    told = error_of(Answer(404, b'{"error_code":40403,"message":"Schema 7 not found"}'))
    assert "[REGISTRY] Schema 7 not found" in str(told)
    page = error_of(Answer(502, b"<html>" + b"x" * 100_000))
    assert "<html>" in str(page)
    assert len(str(page)) < 1_000


@pytest.mark.parametrize("status", [301, 204, 100, 700])
def test_what_is_neither_success_nor_error(status: int) -> None:
    assert isinstance(error_of(Answer(status, b"{}")), RegistryAnswerInvalid)


def test_an_error_survives_the_way_from_a_worker() -> None:
    error = registry_error("Schema 7 not found", 40403, asked="GET /schemas/ids/7")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert str(copy) == str(error)
    assert (copy.registry_code, copy.name, copy.verdict) == (
        40403,
        "SCHEMA_NOT_FOUND",
        error.verdict,
    )


def test_what_is_read_only_or_missing_may_change_and_content_may_not() -> None:
    kinds = {kind.name: kind.verdict for kind in REGISTRY_ERRORS.values()}
    waits = ("OPERATION_NOT_PERMITTED", "SCHEMA_NOT_FOUND", "UNKNOWN_LEADER", "FORBIDDEN")
    assert {kinds[name] for name in waits} == {Verdict.RETRY}
    aside = ("INVALID_SCHEMA", "INCOMPATIBLE_SCHEMA", "SCHEMA_TOO_LARGE")
    assert {kinds[name] for name in aside} == {Verdict.SET_ASIDE}
