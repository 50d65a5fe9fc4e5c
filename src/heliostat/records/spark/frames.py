"""A pipeline as one stage of Spark: rows of a lane → its steps → the lane's copier.

    one row ─ mapInArrow(lane_rows) ─ where / set / function ... ─ mapInArrow(copy_rows) ─ report

Both ends are Python workers of one task; what is between them runs in Spark. The task lasts as long
as any lane's round. Spark hands rows to a Python worker in whole batches only, and bytes in whole
buffers: so batches are small (`BATCH_ROWS`), buffers tiny, and when nothing follows at once, marks
fill the batch up. Measured: 0.9 ms from worker to worker, 400,000 rows/s (docs/adr/0023).

Marks are rows, so they must get through each step: a condition is widened to let them pass, and
columns of a mark are set to null. A function sees them as tombstones of partition -1, and a filter
in its plan is widened in the same way.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from heliostat.errors import PipelineRefused
from heliostat.ops.pyspark_private import (
    column_ids,
    elements,
    frame_of,
    jvm_of,
    node_names,
    plan_of,
    read_ids,
)
from heliostat.records.copier.avro_step import AvroFields
from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
    Pipeline,
    SetColumns,
    Step,
    Where,
)
from heliostat.records.rows.header_steps import InPlaceStep
from heliostat.records.rows.row_names import BACK, CHANGEABLE, TYPES
from heliostat.records.spark.in_place_sql import in_sql
from heliostat.records.spark.json_fields import IS_MARK, kept, with_json_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 256
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.pandas.udf.buffer.size": "5",  # its least
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # Or a trial's records are filtered as its plan is made, where no error has its record.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    ),
}
_EXCHANGES = ("Exchange", "Sort", "Aggregate", "Join", "Limit", "Union", "Window", "Sample")
_PYTHON = ("Python", "MapIn")


def session_of_rows(session: SparkSession) -> SparkSession:
    """Return a session for pipelines beside this one, whose settings stay as they are."""
    # Its JSON on a page of text says what the round's error says.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    found = session.newSession()
    for key, value in SETTINGS.items():
        found.conf.set(key, value)
    return found


class Piped(NamedTuple):
    """A pipeline on a frame of records."""

    frame: DataFrame
    """The columns partition, offset, and those that the pipeline may change."""
    changed: tuple[str, ...]
    reads: tuple[str, ...]
    """The columns that it reads: the others need not be there."""


def on_lane(session: SparkSession, rows_of_lane: Callable[..., Any], pipeline: Pipeline) -> Piped:
    """Return a pipeline on the frame of one task in which `rows_of_lane` gives all rows.

    Raises
    ------
    PipelineRefused
        As `with_steps`.
    """
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    return with_steps(session.range(0, 1, 1, 1).mapInArrow(rows_of_lane, columns), pipeline)


def with_steps(frame: DataFrame, pipeline: Pipeline) -> Piped:
    """Return a frame of records after a pipeline's steps.

    Raises
    ------
    PipelineRefused
        Spark refuses a step, or the steps need more than one stage, or could give another result
        each time.
    """
    from pyspark.errors import PySparkException

    source = column_ids(frame)
    for number, step in enumerate(pipeline.steps, 1):
        try:
            frame = _with_step(frame, step)
        except PySparkException as error:
            raise _refused(pipeline, number, str(error)) from None
    now = column_ids(frame)
    changed = tuple(name for name in CHANGEABLE if now[name] != source[name])
    wanted = ("partition", "offset", *changed)
    try:
        frame = frame.selectExpr(*(f"cast({name} as {TYPES[name]}) as {name}" for name in wanted))
    except PySparkException as error:
        raise _refused(pipeline, len(pipeline.steps), str(error)) from None
    _check(pipeline, frame)
    read = read_ids(frame)
    return Piped(frame, changed, tuple(name for name, number in source.items() if number in read))


def _with_step(frame: DataFrame, step: Step) -> DataFrame:
    match in_sql(step) if isinstance(step, InPlaceStep) else step:
        case Where(condition):
            return kept(frame, condition)
        case SetColumns(columns):
            from pyspark.sql.functions import expr

            return frame.withColumns(
                {
                    name: expr(f"CASE WHEN {IS_MARK} THEN NULL ELSE ({text}) END")
                    for name, text in columns
                }
            )
        case JsonFields() as fields if fields.is_cut:
            # Only here: most pipelines need no Arrow at the driver.
            from heliostat.records.spark.json_cutting import with_json_cut

            return with_json_cut(frame, fields.column, fields.cut)
        case JsonFields() as fields:
            return with_json_fields(frame, fields)
        case AvroFields() as fields:
            # Only here: most pipelines need no Avro.
            from heliostat.records.spark.avro_fields import with_avro_fields

            return with_avro_fields(frame, fields)
        case CallFunction(path):
            return _called(frame, path)


def _called(frame: DataFrame, path: str) -> DataFrame:
    from pyspark.sql import DataFrame as Frame

    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PipelineRefused(f"{path} can't be imported: {error}") from None
    found = function(frame)
    if not isinstance(found, Frame):
        raise PipelineRefused(f"{path} returns {type(found).__name__}, not a DataFrame")
    missing = [column for column in BACK if column not in found.columns]
    if missing:
        raise PipelineRefused(f"{path} returns no column {', '.join(missing)}")
    return _letting_marks_pass(found)


def _letting_marks_pass(frame: DataFrame) -> DataFrame:
    """Widen each filter of a frame's plan, so that marks pass it.

    PySpark has no public way to change a plan; its parts are Spark's own classes.
    """
    changed: DataFrame = frame_of(frame, _widened(jvm_of(frame.sparkSession), plan_of(frame)))
    return changed


def _widened(jvm: Any, plan: Any) -> Any:
    changed = [_widened(jvm, child) for child in elements(plan.children())]
    if changed:
        plan = plan.withNewChildren(jvm.PythonUtils.toSeq(changed))
    if plan.nodeName() != "Filter":
        return plan
    catalyst = jvm.org.apache.spark.sql.catalyst
    columns = elements(plan.child().output())
    partition = next((each for each in columns if each.name() == "partition"), None)
    if partition is None:
        return plan
    zero = getattr(getattr(catalyst.expressions, "Literal$"), "MODULE$").apply(0)
    is_mark = catalyst.expressions.LessThan(partition, zero)
    condition = catalyst.expressions.Or(is_mark, plan.condition())
    return catalyst.plans.logical.Filter(condition, plan.child())


def _check(pipeline: Pipeline, frame: DataFrame) -> None:
    found = [name for name in node_names(frame) if any(word in name for word in _EXCHANGES)]
    if found:
        text = f"it needs {found[0]}: each record must go through by itself, in its order"
        raise PipelineRefused(f"pipeline {pipeline.name} is refused: {text}")
    if not plan_of(frame).deterministic():
        text = "it could give another result each time, and a record that is copied again must not"
        raise PipelineRefused(f"pipeline {pipeline.name} is refused: {text}")


def marks_needed(frame: DataFrame) -> int:
    """Return how many marks push all rows before them through every step of a frame."""
    steps = sum(any(word in name for word in _PYTHON) for name in node_names(frame))
    return (steps + 1) * (BATCH_ROWS + 1)


def _refused(pipeline: Pipeline, number: int, text: str) -> PipelineRefused:
    said = text.strip().split("\n", 1)[0]  # what its parser says begins with an empty line
    return PipelineRefused(f"step {number} of pipeline {pipeline.name} is refused: {said}")
