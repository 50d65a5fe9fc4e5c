"""The step of a pipeline that cuts fields out of JSON objects, for rows of Spark.

The same as `rows.in_place` does on batches' bytes, by the same compiled loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.records.rows.json_changes import JsonChanges
from heliostat.records.spark.arrow_functions import on_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame


def with_json_cut(frame: DataFrame, column: str, changes: JsonChanges) -> DataFrame:
    """Return a frame with changed fields in the objects of one column."""
    from pyspark.sql import functions as f

    return frame.withColumn(column, on_columns(_cutting(changes), "binary")(f.col(column)))


def _cutting(changes: JsonChanges) -> Callable[[pa.Array], pa.Array]:
    def cut(contents: pa.Array) -> pa.Array:
        from heliostat.records.rows.json_cuts import JsonCutter

        cutter = JsonCutter(changes)
        found = [None if each is None else cutter.cut(each) for each in contents.to_pylist()]
        return pa.array(found, pa.binary())

    return cut


def checked(column: Column) -> Column:
    """Return a column that fails where there is something else than a JSON object, by RFC 8259."""
    return on_columns(_checked, "binary")(column)


def _checked(contents: pa.Array) -> pa.Array:
    from heliostat.records.rows.json_cuts import check_object

    for each in contents.to_pylist():
        if each is not None:
            check_object(each)
    return contents
