"""Steps about headers and tombstones in Spark SQL, for pipelines that have other steps as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from heliostat.records.copier.pipeline_steps import SetColumns, Where
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InPlaceStep,
    InsertHeaders,
    InsertOrigin,
    Origin,
    RenameHeaders,
)

_ORIGINS = {
    Origin.TOPIC: "topic",
    Origin.PARTITION: "cast(partition AS string)",
    Origin.OFFSET: "cast(offset AS string)",
    Origin.TIMESTAMP: "cast(unix_millis(timestamp) AS string)",
}


def in_sql(step: InPlaceStep) -> Where | SetColumns:
    """Return the same step for Spark: to a row, what `rows.in_place` does to a record."""
    match step:
        case HasHeader(name, is_kept):
            has = f"exists(headers, h -> h.key = {literal(name)})"
            return Where(has if is_kept else f"NOT {has}")
        case HasValue():
            return Where("value IS NOT NULL")
        case DropHeaders(names):
            listed = ", ".join(map(literal, names))
            return _headers(f"filter(headers, h -> h.key NOT IN ({listed}))")
        case RenameHeaders(names):
            cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in names)
            key = f"CASE h.key {cases} ELSE h.key END"
            return _headers(
                f"transform(headers, h -> named_struct('key', {key}, 'value', h.value))"
            )
        case InsertHeaders(headers):
            return _inserted((name, literal(text)) for name, text in headers)
        case InsertOrigin(headers, cluster):
            return _inserted((name, _ORIGINS.get(what, literal(cluster))) for name, what in headers)
        case _:
            assert_never(step)


def _inserted(headers: Iterable[tuple[str, str]]) -> SetColumns:
    added = ", ".join(
        f"named_struct('key', {literal(name)}, 'value', encode({text}, 'UTF-8'))"
        for name, text in headers
    )
    return _headers(f"concat(headers, array({added}))")


def _headers(expression: str) -> SetColumns:
    return SetColumns((("headers", expression),))


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
