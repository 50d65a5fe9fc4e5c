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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from heliostat.errors import HeliostatError, PipelineRefused
from heliostat.ops.driver_death import CUT, has_died
from heliostat.ops.pyspark_private import (
    column_ids,
    compute_constants,
    elements,
    frame_of,
    has_pattern,
    java_exception,
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
from heliostat.records.rows.row_names import BACK, CHANGEABLE, MEMBER, TYPES
from heliostat.records.spark import row_workers
from heliostat.records.spark.in_place_sql import in_sql
from heliostat.records.spark.json_fields import IS_MARK, kept, with_json_fields
from heliostat.records.spark.wrong_constants import check_constants

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
_NOW = r"\s*(?:now|today|tomorrow|yesterday)\b"
_CAST_OF_NOW = re.compile(rf"cast\({_NOW}[^()]* as (?:date|timestamp)", re.IGNORECASE)
_LITERAL_OF_NOW = re.compile(rf"\b(?:date|timestamp\w*)\s*['\"]{_NOW}", re.IGNORECASE)
"""Texts of a time that Spark computes while it reads the expression: no plan shows them."""
_RANDOM_IV = re.compile(r"aes_encrypt\(.*?, (?:GCM|CBC), \w+, cast\( as binary\)")
"""Spark calls it deterministic, though it chooses an initialization vector each time."""


def session_of_rows(session: SparkSession) -> SparkSession:
    """Return a session for pipelines beside this one, whose settings stay as they are."""
    # Their JSON on a page of text says what the round's error says.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
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
    if pipeline.members:
        frame = _lane_frame(session, rows_of_lane, {**TYPES, MEMBER: "int"})
        return with_members(frame, pipeline.members)
    return with_steps(_lane_frame(session, rows_of_lane, TYPES), pipeline)


def _lane_frame(
    session: SparkSession, rows_of_lane: Callable[..., Any], types: Mapping[str, str]
) -> DataFrame:
    columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
    return session.range(0, 1, 1, 1).mapInArrow(rows_of_lane, columns)


def with_steps(frame: DataFrame, pipeline: Pipeline, *, checks_constants: bool = False) -> Piped:
    """Return a frame of records after a pipeline's steps.

    Parameters
    ----------
    frame, pipeline
        Records, and their pipeline.
    checks_constants
        Whether those are looked at that Spark looks at with the first record: not for each round.

    Raises
    ------
    PipelineRefused
        Spark refuses a step, or a function raises; or the steps need more than one stage, or could
        give another result each time.
    """
    source, workers = column_ids(frame), _workers(frame)
    for number, step in enumerate(pipeline.steps, 1):
        with _refusing(pipeline, frame, f"step {number} of "):
            frame = _with_step(frame, step)
    with _refusing(pipeline, frame):
        now = column_ids(frame)
        if _workers(frame) == workers:  # what a worker gives back is looked at when it comes
            _check_places(source, now)
        changed = tuple(name for name in CHANGEABLE if now[name] != source[name])
        frame = frame.selectExpr(*_back(frame, changed))
        _check(frame, pipeline)  # constants are computed here, and may fail
        if checks_constants:
            check_constants(frame)
            _check_avro(frame, pipeline)
        read = read_ids(frame)
    return Piped(frame, changed, tuple(name for name, number in source.items() if number in read))


def with_members(frame: DataFrame, members: Sequence[Pipeline]) -> Piped:
    """Return a frame of records after each has gone through its own one of some pipelines.

    All filters are one condition, and what changes columns is one projection for each step: the
    plan is about as small as that of one pipeline. Each of them has been checked by itself, and
    filters before it changes (`Pipeline.may_share`).
    """
    from pyspark.sql.functions import expr

    source = column_ids(frame)
    filters, layers = _by_kind(members)
    if filters:
        own = f"CASE {MEMBER} {' '.join(filters)} ELSE true END"
        frame = frame.where(f"{IS_MARK} OR ({own})")
    for layer in layers:
        frame = frame.withColumns(
            {
                name: expr(
                    f"CASE WHEN {IS_MARK} THEN NULL "
                    f"ELSE CASE {MEMBER} {' '.join(cases)} ELSE {name} END END"
                )
                for name, cases in layer.items()
            }
        )
    now = column_ids(frame)
    changed = tuple(name for name in CHANGEABLE if now[name] != source[name])
    frame = frame.selectExpr("partition", "offset", *changed)
    read = read_ids(frame)
    reads = tuple(name for name, number in source.items() if number in read and name != MEMBER)
    return Piped(frame, changed, reads)


def _by_kind(members: Sequence[Pipeline]) -> tuple[list[str], list[dict[str, list[str]]]]:
    """Return the filters of some pipelines, and what each further step does to columns: cases."""
    filters: list[str] = []
    layers: list[dict[str, list[str]]] = []
    for number, pipeline in enumerate(members):
        steps = [in_sql(each) if isinstance(each, InPlaceStep) else each for each in pipeline.steps]
        conditions = [f"({each.condition})" for each in steps if isinstance(each, Where)]
        if conditions:
            filters.append(f"WHEN {number} THEN {' AND '.join(conditions)}")
        sets = (each for each in steps if isinstance(each, SetColumns))
        for depth, step in enumerate(sets):
            if depth == len(layers):
                layers.append({})
            for name, text in step.columns:
                case = f"WHEN {number} THEN cast(({text}) as {TYPES[name]})"
                layers[depth].setdefault(name, []).append(case)
    return filters, layers


def _check_avro(frame: DataFrame, pipeline: Pipeline) -> None:
    if pipeline.avro_steps:
        # Only here: most pipelines need no Avro.
        from heliostat.records.spark.avro_fields import check_avro

        for step in pipeline.avro_steps:
            check_avro(frame.sparkSession, step)


def _workers(frame: DataFrame) -> int:
    """Return how many of a frame's steps are Python workers that give back whole rows."""
    return sum("MapIn" in name for name in node_names(frame))


def _check_places(source: Mapping[str, int], now: Mapping[str, int]) -> None:
    moved = [name for name in ("partition", "offset") if now[name] != source[name]]
    if moved:
        raise PipelineRefused(
            f"it changes the column {moved[0]}: a row keeps its topic, partition and offset"
        )


def _back(frame: DataFrame, changed: Sequence[str]) -> Iterator[str]:
    """Yield the columns that go back to the copier, as expressions."""
    from pyspark.sql.types import NumericType

    if isinstance(frame.schema["timestamp"].dataType, NumericType):
        raise PipelineRefused(
            "timestamp is a number, which Spark takes for seconds: timestamp_millis(...) makes a "
            "timestamp of milliseconds"
        )
    for name in ("partition", "offset", *changed):
        yield f"cast({name} as {TYPES[name]}) as {name}"


@contextmanager
def _refusing(pipeline: Pipeline, frame: DataFrame, which: str = "") -> Iterator[None]:
    """Say of what goes wrong with a pipeline, whatever it is, that it is refused.

    What ends Spark itself is no fault of a pipeline's. A function of a user's may raise anything.
    """
    try:
        yield
    except PipelineRefused as error:
        said = error.text
    except HeliostatError:
        raise
    except Exception as error:
        if has_died(frame.sparkSession.sparkContext) or type(error).__name__ in CUT:
            raise
        said = _words(error)
    else:
        return
    raise PipelineRefused(f"{which}pipeline {pipeline.name} is refused: {said}")


def _words(error: Exception) -> str:
    """Return what went wrong in one line."""
    from pyspark.errors import PySparkException

    thrown = java_exception(error)
    is_spark = thrown is not None or isinstance(error, PySparkException)
    text = str(error if type(error).__name__ != "Py4JJavaError" else thrown)
    said = text.strip().split("\n", 1)[0]  # what Spark's parser says begins with an empty line
    return said if is_spark else f"{type(error).__name__}: {said}"


def _with_step(frame: DataFrame, step: Step) -> DataFrame:
    match in_sql(step) if isinstance(step, InPlaceStep) else step:
        case Where(condition):
            return kept(frame, condition)
        case SetColumns(columns):
            from pyspark.sql.functions import expr

            # In a branch of a CASE, what is constant and fails would fail at the first record only.
            compute_constants(frame.select([expr(text) for _, text in columns]))
            return frame.withColumns(
                {
                    name: expr(f"CASE WHEN {IS_MARK} THEN NULL ELSE ({text}) END")
                    for name, text in columns
                }
            )
        case JsonFields() as fields:
            return _with_json(frame, fields)
        case AvroFields() as fields:
            # Only here: most pipelines need no Avro.
            from heliostat.records.spark.avro_fields import with_avro_fields

            return with_avro_fields(frame, fields)
        case CallFunction(path):
            return _called(frame, path)


def _with_json(frame: DataFrame, step: JsonFields) -> DataFrame:
    if step.schema:
        return with_json_fields(frame, step)
    # Only here: most pipelines need no Arrow at the driver.
    if step.is_cut:
        from heliostat.records.spark.json_cutting import with_json_cut

        return with_json_cut(frame, step.column, step.cut)
    from heliostat.records.spark.json_objects import with_object_changes

    return with_object_changes(frame, step.object_changes)


def _called(frame: DataFrame, path: str) -> DataFrame:
    from pyspark.sql import DataFrame as Frame

    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anything may be raised; scripts exit
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


def _check(frame: DataFrame, pipeline: Pipeline) -> None:
    found = [name for name in node_names(frame) if any(word in name for word in _EXCHANGES)]
    plan, session = plan_of(frame), frame.sparkSession
    if found or has_pattern(plan, "PLAN_EXPRESSION", session):
        needs = found[0] if found else "a subquery"
        raise PipelineRefused(f"it needs {needs}: each record must go through by itself, in order")
    if not plan.deterministic() or _RANDOM_IV.search(str(plan)):
        raise PipelineRefused(
            "it could give another result each time, and a record that is copied again must not"
        )
    texts = (text for step in pipeline.steps for text in _texts(step))
    if (
        has_pattern(plan, "CURRENT_LIKE", session)
        or _CAST_OF_NOW.search(str(plan))
        or any(_LITERAL_OF_NOW.search(text) for text in texts)
    ):
        raise PipelineRefused(
            "it asks for the current time, user or session, which stand still from when a round "
            "begins: a record that is copied again, or compared, would be another"
        )


def _texts(step: Step) -> Iterator[str]:
    """Yield the SQL of a step."""
    match step:
        case Where(condition):
            yield condition
        case SetColumns(columns):
            yield from (text for _, text in columns)
        case JsonFields() | AvroFields():
            yield step.where
            yield from (text for _, text in step.columns)
        case _:
            pass


def marks_needed(frame: DataFrame) -> int:
    """Return how many marks push all rows before them through every step of a frame."""
    steps = sum(any(word in name for word in _PYTHON) for name in node_names(frame))
    return (steps + 1) * (BATCH_ROWS + 1)


def check_runs(session: SparkSession, pipeline: Pipeline) -> None:
    """Check all that a record need not be known for.

    Raises
    ------
    PipelineRefused
        As `with_steps`, or a constant is wrong for each record.
    """
    with_steps(_frame_to_check(session), pipeline, checks_constants=True)


def _frame_to_check(session: SparkSession) -> DataFrame:
    return _lane_frame(session, row_workers.LaneRows(), TYPES)


def refused(session: SparkSession, pipelines: Iterable[Pipeline]) -> dict[str, str]:
    """Return why Spark refuses some pipelines, by name; those done in place need no Spark."""
    found: dict[str, str] = {}
    frame = _frame_to_check(session)
    for pipeline in pipelines:
        try:
            with_steps(frame, pipeline, checks_constants=True)
        except PipelineRefused as error:
            found[pipeline.name] = str(error)
    return found


def refused_in_place(pipelines: Iterable[Pipeline]) -> dict[str, str]:
    """Return why some pipelines that are done in place can't be, by name."""
    found: dict[str, str] = {}
    for pipeline in pipelines:
        if pipeline.is_in_place and pipeline.avro_steps:
            # Only here: most pipelines need no Avro.
            from heliostat.records.avro.cuts import check_names, check_usable

            try:
                for step in pipeline.avro_steps:
                    check_usable(step)
                    check_names(step)
            except PipelineRefused as error:
                found[pipeline.name] = str(error)
    return found
