"""Whatever is asked at Kafka Connect's paths, the answer is one that Connect may give.

Connect has no OpenAPI document; one is made here of our own routes, so that requests of all shapes
can be made up. A 5xx is allowed where offsets are altered, as Connect refuses these so.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from support.schemathesis_fetched import schemathesis
from unit.connect.kept import partition
from unit.connect.technote import SOURCE, UPLOADS
from unit.serve.connect.test_connect_routes import LINK, Service
from unit.serve.test_fuzzed import parts_of

pytestmark = pytest.mark.long
EXAMPLES, KEPT = 8, 4
"""Requests of each operation and mode; after so many what is there is put back."""
DOCUMENT = "/openapi.json"
SAID = {200, 201, 202, 204, 400, 404, 405, 409, 413, 415}
ALTERED = ("PATCH /connectors/{name}/offsets", "DELETE /connectors/{name}/offsets")
MODES = ("positive", "negative")
SCALAR = {"type": ["string", "number", "boolean", "null"]}
CONFIG = {
    "type": "object",
    "properties": dict.fromkeys(SOURCE, SCALAR),
    "additionalProperties": SCALAR,
}
BODIES: dict[str, dict[str, Any]] = {
    "POST /connectors": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "config": CONFIG, "initial_state": SCALAR},
    },
    "PUT /connectors/{name}/config": CONFIG,
    "PATCH /connectors/{name}/config": CONFIG,
    "PUT /connector-plugins/{name}/config/validate": CONFIG,
    "PATCH /connectors/{name}/offsets": {
        "type": "object",
        "properties": {
            "offsets": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"partition": {"type": "object"}, "offset": {"type": "object"}},
                },
            }
        },
    },
    "PUT /admin/loggers/{name}": {"type": "object", "properties": {"level": SCALAR}},
}


def document(table: list[tuple[str, str]]) -> dict[str, Any]:
    """Return an OpenAPI document of these paths and methods."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method in table:
        label = f"{method} {path}"
        names = re.findall(r"{(\w+)", path)
        operation: dict[str, Any] = {
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in names
            ]
            + [
                {"name": name, "in": "query", "schema": {"type": "string"}}
                for name in ("expand", "includeTasks", "onlyFailed", "connectorsOnly", "dry_run")
            ],
            "responses": {str(status): {"description": ""} for status in SAID},
        }
        body = BODIES.get(label) or BODIES.get(re.sub(r"{\w+}", "{name}", label))
        if body is not None:
            operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
        plain = re.sub(r"{(\w+):\w+}", r"{\1}", path)
        paths.setdefault(plain, {})[method.lower()] = operation
    info = {"title": "Kafka Connect", "version": "4.3.0"}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def with_document(app: ASGIApp, content: dict[str, Any]) -> ASGIApp:
    """Return an app that answers with the document, too."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == DOCUMENT:
            await JSONResponse(content)(scope, receive, send)
        elif scope["type"] == "http":
            await app(scope, receive, send)

    return both


def put_back(service: Service) -> None:
    """Have the three connectors there, and their link stopped."""
    for config in UPLOADS:
        service.ask("PUT", f"/connectors/{config['name']}/config", config)
    service.links.runs(LINK, partition("foo"), state="stopped")


def test_each_answer_is_one_of_connects() -> None:
    """Given three connectors / when each path is asked in many ways, also wrong ones / then no

    answer is a fault of ours, and each error has Connect's shape.
    """
    fuzz, service = schemathesis(), Service()
    table = [
        (route.path, method)  # type: ignore[attr-defined]  # all are `Route`
        for route in service.app.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]  # as above
    ]
    app = with_document(service.client.app, document(sorted(table)))
    schema = fuzz.openapi.from_asgi(DOCUMENT, app)
    wrong: list[str] = []
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in MODES:
            strategy = operation.as_strategy(generation_mode=fuzz.GenerationMode(mode))

            @seed(37)
            @settings(
                max_examples=EXAMPLES,
                phases=(Phase.explicit, Phase.generate),
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                if asked % KEPT == 0:
                    put_back(service)
                elif "name" in (case.path_parameters or {}):
                    case.path_parameters["name"] = SOURCE["name"]
                check(case.operation.label, case.call(), case.as_curl_command())

            try:
                ask()
            except Unsatisfiable:
                continue  # without parameters nothing can be wrong
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # all are told
                wrong.append(f"{operation.label} {mode}: {parts_of(error)}")
    assert wrong == [], "\n\n".join(wrong)
    assert asked > EXAMPLES * len(MODES)


def check(label: str, response: Any, command: str) -> None:
    status, text = response.status_code, response.text
    assert status in SAID or (status == 500 and label in ALTERED), f"{status} {text}: {command}"
    if status >= 400 and not text.startswith("<"):
        told = json.loads(text)
        assert told["error_code"] == status, command
        assert isinstance(told["message"], str), command
