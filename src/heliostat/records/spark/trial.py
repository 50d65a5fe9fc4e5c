"""What a pipeline makes of some records, without a lane: before, after, and at which it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from heliostat.errors import PipelineRefused
from heliostat.ops.driver_death import begun, report_death, stopped
from heliostat.ops.pyspark_private import active_context, java_exception
from heliostat.ops.quick_jvm import driver_java_options
from heliostat.ops.spark_session import essence, session_settings
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.spark.frames import check_runs, session_of_rows, with_steps
from heliostat.records.spark.tried_record import TriedRecord, shown_rows
from heliostat.records.spark.worker_daemon import HAS_PIPELINES, ONLY, WORKER_DAEMON

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Spark: TypeAlias = "SparkContext"
Session: TypeAlias = "SparkSession"
"""For those who hand them on."""
MASTER = "local[1]"
"""Some records need no cluster."""


def maker_in(context: Spark) -> Maker:
    """Return `made_of` in a Spark that runs; of a refused pipeline it makes nothing."""
    session, why = _session_in(context), dict[str, tuple[Pipeline, PipelineRefused | None]]()

    def made(pipeline: Pipeline, rows: pa.Table) -> Iterator[MadePart]:
        checked, refusal = why.get(pipeline.name, (None, None))
        if checked is not pipeline:
            refusal = _refusal(session, pipeline)
            why[pipeline.name] = pipeline, refusal
        if refusal is not None:
            raise PipelineRefused(refusal.text)
        return made_of(session, pipeline, rows)

    return made


def _refusal(session: SparkSession, pipeline: Pipeline) -> PipelineRefused | None:
    try:
        check_runs(session, pipeline)
    except PipelineRefused as error:
        return error
    return None


def _session_in(context: Spark) -> SparkSession:
    from pyspark.sql import SparkSession as Session

    return session_of_rows(Session(context))


@contextmanager
def trial_session(conf: Mapping[str, str], *, reads_again: bool = False) -> Iterator[SparkSession]:
    """Yield a session for `tried`, of this process's Spark if it has one, as in a notebook.

    Parameters
    ----------
    reads_again
        Whether modules may change: workers that go on would keep them as they were.

    Raises
    ------
    SparkUnavailable
        Spark can't be started.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as Session

    running = active_context(SparkContext)
    if running is not None:
        yield _session_in(running)
        return
    settings = {
        "spark.log.level": "OFF",
        # Forks of a daemon that has loaded all but the functions' own modules.
        "spark.python.worker.reuse": str(not reads_again).lower(),
        "spark.python.daemon.module": WORKER_DAEMON,
        f"spark.executorEnv.{HAS_PIPELINES}": ONLY,
        "spark.driver.extraJavaOptions": driver_java_options(has_rows=True),
        **session_settings(MASTER, conf),
    }
    builder = Session.builder.master(MASTER).appName("heliostat pipelines")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = begun(builder.getOrCreate, SparkContext)
    context = session.sparkContext
    try:
        with report_death(context):
            yield session_of_rows(session)
    finally:
        stopped(context, session.stop)


def tried(session: SparkSession, pipeline: Pipeline, rows: pa.Table) -> Iterator[TriedRecord]:
    """Yield what a pipeline makes of each of these rows, in order.

    Parameters
    ----------
    session, pipeline, rows
        See `made_of`.

    Raises
    ------
    PipelineRefused
        Spark can't run the pipeline.
    """
    for part in made_of(session, pipeline, rows, checks_constants=True):
        found = {} if part.made is None else {row["offset"]: row for row in shown_rows(part.made)}
        for row in shown_rows(part.rows):
            after = found.get(row["offset"])
            yield TriedRecord(row, None if after is None else row | after, part.error)


class MadePart(NamedTuple):
    """Rows in a row, and what a pipeline made of them."""

    rows: pa.Table
    made: pa.Table | None
    """The columns partition, offset, and those that the pipeline may change; None: it fails."""
    error: str = ""
    """Why it fails at this one row."""


Maker = Callable[[Pipeline, "pa.Table"], Iterator[MadePart]]
"""Returns what a pipeline makes of rows, see `made_of`."""


def made_of(
    session: SparkSession, pipeline: Pipeline, rows: pa.Table, *, checks_constants: bool = False
) -> Iterator[MadePart]:
    """Yield what a pipeline makes of rows, in order; a row at which it fails is a part of its own.

    Parameters
    ----------
    session
        Spark.
    pipeline
        The pipeline.
    rows
        At least one row of the schema `layout.SCHEMA`, of one partition.
    checks_constants
        See `with_steps`.

    Raises
    ------
    PipelineRefused
        Spark can't run the pipeline.
    """
    # Only here: who makes a session need not have Arrow.
    from heliostat.records.rows.wrong_rows import misplaced

    frame = session.createDataFrame(rows).coalesce(1)
    piped = with_steps(frame, pipeline, checks_constants=checks_constants)
    made, why = _made_at_once(piped.frame)
    why = why or misplaced(rows["partition"][0].as_py(), rows["offset"].to_numpy(), made)
    if not why:
        yield from _checked(rows, made)
    elif rows.num_rows == 1:
        yield MadePart(rows, None, why)
    else:
        half = rows.num_rows // 2
        yield from made_of(session, pipeline, rows.slice(0, half))
        yield from made_of(session, pipeline, rows.slice(half))


def _made_at_once(frame: DataFrame) -> tuple[pa.Table | None, str]:
    """Return what a pipeline makes of rows, or why it fails at one of them."""
    try:
        made = frame.toArrow()
    except Exception as error:
        # Of PySpark and py4j, which have no common class.
        if java_exception(error) is None:
            raise
        return None, essence(str(error))
    return made, ""


def _checked(rows: pa.Table, made: pa.Table) -> Iterator[MadePart]:
    """Yield what was made of rows, with those records apart of which something wrong came back."""
    import pyarrow.compute as pc

    from heliostat.records.rows.wrong_rows import wrong_rows

    wrong, given, begin = wrong_rows(made), rows["offset"], None
    for offset in [*sorted(wrong), None]:
        some = [rows, made]
        if begin is not None:
            some = [each.filter(pc.greater(each["offset"], begin)) for each in some]
        if offset is not None:
            some = [each.filter(pc.less(each["offset"], offset)) for each in some]
        if some[0].num_rows:
            yield MadePart(*some)
        if offset is not None:
            yield MadePart(rows.filter(pc.equal(given, offset)), None, wrong[offset])
        begin = offset
