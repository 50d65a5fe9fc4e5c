"""Framed records as people read them: their schema's id, and their fields."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.ops.shown import bytes_text
from heliostat.records.avro.columns import undressed
from heliostat.records.avro.frames import Framed
from heliostat.records.avro.rewriting import rewriting_of
from heliostat.records.avro.schema_text import Avro, AvroUnusable, read_schema, write_schema
from heliostat.records.copier.avro_step import AvroFields

_UNREADABLE = (ValueError, TypeError, EOFError, IndexError, OverflowError)


class Shown:
    """Shows the records of one column, before and after a step.

    Parameters
    ----------
    step
        The step, with its schemas.
    """

    def __init__(self, step: AvroFields) -> None:
        schemas = [schema for schema in step.schemas if not schema.problem]
        self._before = {schema.schema_id: schema.text for schema in schemas}
        self._after = self._before
        if step.rewrites:
            self._after = {schema.target_id: rewriting_of(step, schema).text for schema in schemas}

    def before(self, content: bytes) -> Any:
        """Return what is shown of a value before the step: itself, unless it is such a record."""
        return _shown(content, self._before)

    def after(self, content: bytes) -> Any:
        """Return what is shown of a value after the step."""
        return _shown(content, self._after)


def _shown(content: bytes, texts: Mapping[int, str]) -> Any:
    framed = Framed(pa.array([content], pa.binary()))
    try:
        ((_, number, begin, end),) = framed.payloads()
        schema = read_schema(texts[number])
        return {"schema_id": number, "fields": _fields(schema, content[begin:end])}
    except (TransformFailed, KeyError, AvroUnusable, *_UNREADABLE):
        return content


def _fields(schema: Avro, payload: bytes) -> Any:
    try:
        record = fastavro.schemaless_reader(
            io.BytesIO(payload), json.loads(write_schema(schema)), None
        )
    except (OverflowError, ValueError):  # a time that Python has not
        record = fastavro.schemaless_reader(io.BytesIO(payload), undressed(schema), None)
    return _plain(record)


def _plain(content: Any) -> Any:
    """Return a value as JSON has it; bytes as text or hexadecimal digits."""
    if isinstance(content, dict):
        return {name: _plain(field) for name, field in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(element) for element in content]
    if isinstance(content, bytes):
        return bytes_text(content)
    if isinstance(content, datetime | date | time):
        return content.isoformat()
    return str(content) if isinstance(content, Decimal | UUID) else content
