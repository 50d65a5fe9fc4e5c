"""The references of metrics and REST, as lines of docs/reference/metrics.md and rest.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from heliostat.clock import SystemClock
from heliostat.config import Config
from heliostat.metrics.families import FAMILIES, LATENCY_BOUNDS_S, Kind
from heliostat.serve.app import make_app
from heliostat.serve.watch import Watch

ANY = {
    "clusters": {"a": {"bootstrap": "127.0.0.1:1"}},
    "links": [{"name": "l", "source": "a", "target": "a"}],
}
"""A configuration: the document is the same for all."""


def metrics_page() -> Iterator[str]:
    """Return the page of all metrics."""
    yield "# Metrics"
    yield ""
    yield "What `heliostat serve` answers at `/metrics`, for Prometheus. A value that is not known"
    yield "is absent, never 0. `link`, `source` and `target` are names of the configuration,"
    yield "`topic` is the name at the source."
    yield from ("", "| metric | type | labels | meaning |", "|---|---|---|---|")
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.kind.value} | {labels} | {family.meaning} |"
    bounds = ", ".join(f"{bound:g}" for bound in LATENCY_BOUNDS_S)
    names = ", ".join(f"`{each.name}`" for each in FAMILIES if each.kind is Kind.HISTOGRAM)
    yield from ("", f"Upper bounds of {names}, in seconds: {bounds}.")


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    return make_app(Watch(Config.model_validate(ANY), SystemClock())).openapi()


def openapi_text() -> str:
    """Return the OpenAPI document as text."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


def rest_page() -> Iterator[str]:
    """Return the page of all addresses."""
    yield "# REST"
    yield ""
    yield "What `heliostat serve` answers, as JSON unless said. [openapi.json](openapi.json) has"
    yield "all fields. What is wrong is said as `application/problem+json` with `code`, `detail`,"
    yield "`field` and `hint`. Answers have an `ETag` and are at most a second old."
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            yield from ("", f"## `{method.upper()} {path}`", "")
            yield " ".join(operation["description"].split())
            yield from _parameters(operation.get("parameters", ()))


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    if not parameters:
        return
    yield from ("", "| parameter | type | default | meaning |", "|---|---|---|---|")
    for each in parameters:
        schema = each["schema"]
        choices = schema.get("anyOf", [schema])
        kinds = " or ".join(str(choice.get("type", "")) for choice in choices)
        named = schema.get("enum") or schema.get("pattern", "").strip("^$()").split("|")
        kind = ", ".join(f"`{name}`" for name in named) if named != [""] else kinds
        default = "required" if each.get("required") else f"`{json.dumps(schema.get('default'))}`"
        yield f"| `{each['name']}` | {kind} | {default} | {each.get('description', '')} |"
