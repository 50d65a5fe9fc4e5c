"""What steps make of framed Avro records without decoding a field, for `rows.field_cuts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from heliostat.errors import PipelineRefused, TransformFailed
from heliostat.records.avro.rewriter import Writing, rewriter_of
from heliostat.records.avro.schema_text import read_schema
from heliostat.records.copier.avro_step import AvroFields
from heliostat.records.rows.field_cuts import Cut, FieldCuts


def cuts_of(steps: Iterable[AvroFields]) -> FieldCuts:
    """Return what steps of different columns make of records: none of them decodes fields."""
    by_column = {step.column: step for step in steps}
    return FieldCuts(
        keys=_cuts(by_column, "key"),
        values=_cuts(by_column, "value"),
        why_no_avro=lambda column, content: _why(by_column[column], content),
    )


def _cuts(steps: Mapping[str, AvroFields], column: str) -> tuple[Cut, ...] | None:
    step = steps.get(column)
    if step is None:
        return None
    return tuple(map(_cut, rewriter_of(step).writings()))


def _cut(writing: Writing) -> Cut:
    parts, walk = writing.parts, writing.walk
    assert not any(part.made for part in parts), "a step that computes fields is not done in place"
    pieces = (part.constant if part.fields is None else part.fields for part in parts)
    return Cut(writing.number, walk.nodes, walk.children, walk.fields, (writing.head, *pieces))


def _why(step: AvroFields, content: bytes) -> str:
    """Return why contents can't be cut: the same that the function for Spark says of them."""
    try:
        rewriter_of(step).rewrite(pa.array([content], pa.binary()), None)
    except TransformFailed as error:
        return error.text
    raise AssertionError("what can't be cut in place can't be written anew either")


def check_usable(step: AvroFields) -> None:
    """Refuse a step that can change no record: it would fail at each.

    Raises
    ------
    PipelineRefused
        There are schemas, and none of them will do.
    """
    if step.schemas and all(schema.problem for schema in step.schemas):
        raise PipelineRefused(f"no record of its topics can be changed: {step.schemas[0].problem}")


def check_names(step: AvroFields) -> None:
    """Refuse a step that names a field which no schema has: nothing would be hidden by it.

    Raises
    ------
    PipelineRefused
        There are schemas, and it does.
    """
    schemas = [schema for schema in step.schemas if not schema.problem]
    there = {field["name"] for schema in schemas for field in read_schema(schema.text).fields}
    there |= {name for name, _ in (*step.columns, *step.casts)}
    named = [name for name, _ in (*step.masks, *step.renames)]
    there |= {new for _, new in step.renames}
    extracted = () if step.flattens else step.extracts
    missing = [name for name in (*named, *step.drops, *extracted) if name not in there]
    if schemas and missing:
        raise PipelineRefused(f"no schema of its topics has a field {missing[0]}")
