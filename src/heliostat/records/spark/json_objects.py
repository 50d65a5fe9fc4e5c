"""The step that changes JSON objects of no schema, for rows of Spark: as `rows.json_in_place`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.errors import TransformFailed
from heliostat.records.rows.json_changes import ObjectChanges
from heliostat.records.rows.layout import HEADERS, SCHEMA
from heliostat.records.rows.row_names import TYPES
from heliostat.records.spark.arrow_functions import on_columns
from heliostat.records.spark.json_fields import IS_MARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_CHANGED = "changed"


def with_object_changes(frame: DataFrame, changes: ObjectChanges) -> DataFrame:
    """Return a frame with changed objects of one column, and what else is made of them."""
    from pyspark.sql import functions as f

    reads = list(dict.fromkeys([*changes.reads, *changes.writes, "partition", "offset"]))
    ddl = ", ".join(f"{name}: {TYPES[name]}" for name in changes.writes)
    made = on_columns(_changing(changes, reads), f"struct<{ddl}>")(*map(f.col, reads))
    frame = frame.withColumn(_CHANGED, f.when(~f.expr(IS_MARK), made))
    new = {name: f.col(f"{_CHANGED}.{name}") for name in changes.writes}
    return frame.withColumns(new).drop(_CHANGED)


def _changing(changes: ObjectChanges, reads: list[str]) -> Callable[..., pa.Array]:
    fields = [pa.field(name, SCHEMA.field(name).type) for name in changes.writes]

    def change(*columns: pa.Array) -> pa.Array:
        from heliostat.records.rows.json_in_place import ColumnsOfObjects

        rows = pa.RecordBatch.from_arrays(list(columns), names=reads)
        done = ColumnsOfObjects(changes).of(rows)
        if done.why:
            raise TransformFailed(done.why)
        own = [done.columns.get(name, rows.column(name)) for name in changes.writes]
        kinds = [
            HEADERS if name == "headers" else rows.column(name).type for name in changes.writes
        ]
        own = [column.cast(kind) for column, kind in zip(own, kinds, strict=True)]
        return pa.StructArray.from_arrays(own, fields=fields)

    return change
