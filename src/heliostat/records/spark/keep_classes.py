"""Archives the classes of Spark's driver, see `heliostat.ops.quick_jvm`; a part of set-up.

One for a driver that only schedules, and with the argument `rows` one for a driver with rows of
pipelines: each needs a process of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from heliostat.ops.pyspark_private import gateway_of
from heliostat.ops.quick_jvm import ARCHIVE, ROWS_ARCHIVE, archiving_java_options
from heliostat.records.copier.pipeline_steps import Pipeline, SetColumns, Where
from heliostat.records.spark import frames
from heliostat.records.spark.pipeline import SparkRounds

if TYPE_CHECKING:
    import pyarrow as pa

END_WITHIN_S = 120.0
"""The JVM writes the archive when it ends."""
PIPELINE = Pipeline(
    "classes",
    (
        Where("NOT exists(headers, h -> h.key = 'skip') AND value IS NOT NULL"),
        SetColumns((("value", "encode(concat(decode(value, 'UTF-8'), '!'), 'UTF-8')"),)),
    ),
)
"""Steps as users write them."""


def make_archive(*, has_rows: bool) -> None:
    """Run a session as links do, with one small job, and archive the classes that it loads.

    `has_rows`: the session has rows of a pipeline.

    Raises
    ------
    OSError
        The archive can't be written.
    subprocess.TimeoutExpired
        The JVM does not end.
    """
    from pyspark import SparkContext

    archive = ROWS_ARCHIVE if has_rows else ARCHIVE
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f"{archive.name}.{os.getpid()}")
    java_options = archiving_java_options(draft, has_rows=has_rows)
    conf = {"spark.driver.extraJavaOptions": java_options}
    rounds = SparkRounds("classes", "local[2]", conf, task_cpus=1.0, has_rows=has_rows)
    gateway = gateway_of(SparkContext)  # PySpark has no public way to end its JVM
    assert gateway is not None
    try:
        context = rounds.context
        context.setJobGroup("classes", "classes", interruptOnCancel=True)
        assert context.parallelize([1], 1).mapPartitions(list).collect() == [1]
        if has_rows:
            _run_pipeline(rounds)
    finally:
        rounds.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(END_WITHIN_S)
    draft.replace(archive)


def _run_pipeline(rounds: SparkRounds) -> None:
    session = frames.session_of_rows(rounds.session)
    piped = frames.on_lane(session, no_rows, PIPELINE)
    assert piped.frame.mapInArrow(no_rows, "report binary").collect() == []


def no_rows(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stand for both workers of a lane: what they give needs no more classes."""
    for _ in rows:
        pass
    yield from ()


if __name__ == "__main__":
    make_archive(has_rows=sys.argv[1:] == ["rows"])
