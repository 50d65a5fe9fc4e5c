"""What Spark's exceptions say about a pipeline's records: their classes do, and their conditions.

Measured with Spark 4.3 (2026-11-27): what an expression or a Python function raises comes as such;
of a worker that is gone only a stream's end is left; a job that was cancelled, or whose executor is
lost, has no cause in the task at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heliostat.ops.pyspark_private import java_exception
from heliostat.records.copier.blame import Blame

_SPARK = "org.apache.spark.SparkException"
_OF_STREAMS = ("java.io.", "java.net.", "java.nio.channels.")
_CANCELLED = "SPARK_JOB_CANCELLED"


def blame_by_classes(error: Exception) -> Blame:
    """Return what an exception of PySpark or py4j says about the records in the pipeline."""
    thrown = java_exception(error)
    if thrown is None:
        return Blame.NONE
    causes = list(_causes(thrown))
    names = [each.getClass().getName() for each in causes]
    if any(name.startswith(_OF_STREAMS) for name in names):
        return Blame.UNSURE
    if names == [_SPARK]:
        condition = causes[0].getCondition()
        return Blame.NONE if condition in {None, _CANCELLED} else Blame.RECORD
    return Blame.RECORD


def _causes(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()
