"""Pipelines that are done on batches' bytes, for lanes that have one, and for trials of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.rows.field_cuts import FieldCuts
from heliostat.records.rows.in_place import AppliedSteps, FailedRecord, InPlace
from heliostat.records.rows.json_changes import ObjectChanges
from heliostat.records.rows.to_rows import Chunk, rows_of
from heliostat.records.spark.tried_record import Row, TriedRecord, shown_rows
from heliostat.records.transport.piped_answers import InPlaceExchange


def exchange_of(lane: LaneSpec, pipeline: Pipeline) -> InPlaceExchange:
    """Return what a lane's answers go through."""
    steps = {each.name: in_place(each) for each in pipeline.members or (pipeline,)}
    return InPlaceExchange(lane.partitions, steps)


def in_place(pipeline: Pipeline) -> AppliedSteps:
    """Return what does a pipeline's steps to batches."""
    parts = pipeline.in_turn
    if not any(isinstance(part, ObjectChanges) for part in parts) and len(parts) == 1:
        return _on_bytes(pipeline)
    # Only here: it is compiled code of its own.
    from heliostat.records.rows.json_in_place import InTurn, ObjectsInPlace

    return InTurn(
        [
            ObjectsInPlace(part) if isinstance(part, ObjectChanges) else _on_bytes(part)
            for part in parts
        ]
    )


def _on_bytes(pipeline: Pipeline) -> InPlace:
    cuts = FieldCuts(None, None)
    if pipeline.avro_steps:
        from heliostat.records.avro.cuts import cuts_of  # only here: most need no Avro

        cuts = cuts_of(pipeline.avro_steps)
    json = pipeline.json_cuts
    keys, values = json.get("key", cuts.keys), json.get("value", cuts.values)
    return InPlace(pipeline.header_steps, replace(cuts, keys=keys, values=values))


def tried_in_place(pipeline: Pipeline, chunk: Chunk) -> Iterator[TriedRecord]:
    """Yield what a pipeline makes of each record of a chunk, in order; without Spark.

    Raises
    ------
    BatchError
        A batch is damaged.
    """
    steps = in_place(pipeline)
    errors: dict[int, str] = {}
    after: dict[int, Row] = {}
    rest = chunk
    while True:
        data, error = steps.applied(rest)
        if error is not None and not isinstance(error, FailedRecord):
            raise error
        after |= {row["offset"]: row for row in _rows(rest._replace(data=data))}
        if error is None:
            break
        errors[error.offset] = error.why
        rest = rest._replace(first=error.offset + 1)
    for row in _rows(chunk):
        offset = row["offset"]
        yield TriedRecord(row, after.get(offset), errors.get(offset, ""))


def _rows(chunk: Chunk) -> list[Row]:
    return shown_rows(pa.Table.from_batches([rows_of(chunk)]))
