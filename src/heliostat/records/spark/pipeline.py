"""Rounds on Spark.

Each round of a lane is one job, submitted by the lane's own thread on the driver with its own job
group and description, so lanes run and fail independently and the Spark UI names them. The rows
that come back are the report's sums. See docs/adr/0002 for why not Structured Streaming.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from heliostat.errors import SparkUnavailable
from heliostat.names import LaneId, LinkName
from heliostat.ops.driver_death import (
    HADOOP_HINT,
    INSTALL_HINT,
    begun,
    death,
    has_died,
    report_death,
    stopped,
)
from heliostat.ops.jvm_output import Tell, to_stderr
from heliostat.ops.pyspark_private import (
    ask_numpy_converters_of_numpy_only,
    java_exception,
    java_process,
    jvm_of,
    scala_context,
)
from heliostat.ops.quick_jvm import BUSY_JVM, driver_java_options
from heliostat.ops.spark_session import (
    Executor,
    ShippedPackage,
    executors_of,
    is_local,
    lacks_hadoop,
    session_settings,
    wait_executors,
)
from heliostat.records.copier.blame import Blame, RowsFailed
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.spark import frames, row_workers
from heliostat.records.spark.placement import Placement, lanes_for
from heliostat.records.spark.row_failures import blame_by_classes
from heliostat.records.spark.task import copy_rounds, load_code
from heliostat.records.spark.warm_executors import WarmExecutors
from heliostat.records.spark.worker_daemon import HAS_PIPELINES, WORKER_DAEMON

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

_Row = TypeVar("_Row")
LOCAL_SETTINGS = {
    "spark.python.daemon.module": WORKER_DAEMON,
    # Each round has a new process, a fork that takes milliseconds. Two rounds of a lane overlap
    # for a moment, so Spark would keep two processes a lane, half of them idle. On a cluster a new
    # process would load everything again, 1.4 s of processor time.
    "spark.python.worker.reuse": "false",
}
DAEMON_OF_PIPELINES = {f"spark.executorEnv.{HAS_PIPELINES}": "1"}
EXECUTORS_WITH_ROWS = {"spark.executor.extraJavaOptions": " ".join(BUSY_JVM)}
LOG_SETTINGS = Path(__file__).with_name("spark-log4j2.properties")
AN_EXECUTOR_WITHIN_S = 3.0
"""How long a round waits when all executors are gone, before it fails."""
LOOK_S = 0.1
NAMED_PARTITIONS_MAX = 4
"""A description names at most this many; Spark's page shows one line."""


class SparkRounds:
    """A Spark session that runs rounds.

    Parameters
    ----------
    app_name
        Shown in Spark's UI.
    master
        `local[*]`, `spark://host:port`, `yarn`, `k8s://...`.
    conf
        Further settings; they override ours.
    task_cpus
        Cores a lane counts for: lanes wait for the network most of the time (Spark 4.3 takes
        fractions).
    has_pipelines
        Whether lanes have pipelines.
    has_rows
        Whether records will be rows of Spark: in executors, or in the driver if it is local.
    tell
        Receives what Spark's JVM prints.
    """

    def __init__(
        self,
        app_name: str,
        master: str,
        conf: Mapping[str, str],
        *,
        task_cpus: float,
        has_pipelines: bool = False,
        has_rows: bool = False,
        tell: Tell = to_stderr,
    ) -> None:
        from py4j import protocol
        from pyspark import SparkConf, SparkContext

        ask_numpy_converters_of_numpy_only(protocol.INPUT_CONVERTER)
        self.is_local = is_local(master)
        """Whether rounds run on this machine."""
        self._lock = threading.Lock()
        self._placement = Placement()
        self._warm = WarmExecutors(self._load_code)
        settings = _settings(
            master, conf, task_cpus, has_pipelines=has_pipelines, has_rows=has_rows
        )
        wanted = SparkConf().setAppName(app_name).setMaster(master).setAll(list(settings.items()))
        caught = signal.getsignal(signal.SIGINT)
        self.context: SparkContext = begun(
            lambda: SparkContext.getOrCreate(wanted),
            SparkContext,
            tell,
            HADOOP_HINT if lacks_hadoop(master) else INSTALL_HINT,
        )
        if threading.current_thread() is threading.main_thread():
            # PySpark's own handler would kill the rounds at Ctrl-C; ours ends them gracefully.
            signal.signal(signal.SIGINT, caught)
        self._package: ShippedPackage | None = None
        try:
            self.context.setLogLevel("OFF")
            if self.is_local:
                threading.Thread(target=self._start_daemon, name="workers", daemon=True).start()
            else:
                self._package = ShippedPackage(self.context)
                wait_executors(self.context)
        except BaseException:
            self.stop()
            raise

    @property
    def session(self) -> SparkSession:
        """A SQL session in the same Spark, for `verify`.

        Rounds need none: its JVM would load thousands of classes more.
        """
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    @property
    def jvm_pid(self) -> int | None:
        """Id of the JVM's process; None if it is not ours."""
        process = java_process(self.context)
        return None if process is None else int(process.pid)

    @property
    def cores(self) -> int:
        """Number of cores that Spark has for us now; on a cluster it varies with its executors."""
        context = self.context
        with report_death(context):
            if self.is_local:
                return int(context.defaultParallelism)
            return lanes_for(self._warm.of(executors_of(context)))

    def run(self, lane: LaneSpec) -> RoundReport:
        """Run one round of `lane` as a Spark job; blocks until it ends.

        Raises
        ------
        SparkUnavailable
            There is no executor to run it, or Spark's JVM has died.
        py4j.protocol.Py4JJavaError
            The task failed; the text holds our error's code.
        """
        with report_death(self.context):
            return self._run(lane)

    def _run(self, lane: LaneSpec) -> RoundReport:
        context = self.context
        group, place = _job_group(lane), f"{lane.link}/{lane.lane}"
        context.setJobGroup(group, describe(lane), True)
        if lane.row_pipeline is not None:
            return self._run_with_pipeline(lane, lane.row_pipeline)
        if self.is_local:
            return context.parallelize([lane], 1).mapPartitions(copy_rounds).collect()[0]
        executors = self._warm.of(self._wait_executors())
        with self._lock:
            chosen = self._placement.take(place, lane.round_number, executors)
        assert chosen is not None
        try:
            return _placed(context, lane, chosen).mapPartitions(copy_rounds).collect()[0]
        finally:
            with self._lock:
                self._placement.give_back(place, lane.round_number)

    def _run_with_pipeline(self, lane: LaneSpec, pipeline: Pipeline) -> RoundReport:
        """Run a round whose records are rows of Spark on their way, see `frames`.

        Raises
        ------
        PipelineRefused
            Spark can't run the pipeline.
        RowsFailed
            Spark ended the round, as the pipeline failed or for another reason.
        HeliostatError
            What the copier raised.
        """
        name = f"{self.context.applicationId}/{lane.link}/{lane.round_id}"
        session = frames.session_of_rows(self.session)
        # A frame has its workers' code pickled when it is made: the first one shows what they need.
        try:
            shape = frames.on_lane(session, row_workers.LaneRows(), pipeline)
        except Exception as error:
            if not pipeline.members or has_died(self.context):
                raise
            # Each has been checked by itself: they go on apart.
            raise RowsFailed(str(error), Blame.UNSURE) from error
        flush = frames.marks_needed(shape.frame)
        is_careful = bool(lane.careful)
        rows = row_workers.LaneRows(
            name, flush, shape.reads, is_careful=is_careful, is_shared=bool(pipeline.members)
        )
        piped = frames.on_lane(session, rows, pipeline)
        copy = row_workers.CopyRows(lane, name, piped.changed)
        frame = piped.frame.mapInArrow(copy, row_workers.REPORT)
        try:
            found = frame.collect()
        except Exception as error:
            # Of PySpark and py4j, which have no common class; the JVM's death is reported outside.
            if has_died(self.context) or java_exception(error) is None:
                raise
            raise RowsFailed(str(error), blame_by_classes(error)) from error
        ended = pickle.loads(found[0][0])  # noqa: S301 - from our own task
        if isinstance(ended, Exception):
            raise ended
        assert isinstance(ended, RoundReport)
        return ended

    def refused(self, pipelines: Mapping[str, Pipeline]) -> dict[str, str]:
        """Return why some of these pipelines can't be run, by name."""
        found = frames.refused_in_place(pipelines.values())
        of_rows = [each for each in pipelines.values() if not each.is_in_place]
        if not of_rows:  # a SQL session loads thousands of classes
            return found
        with report_death(self.context):
            return found | frames.refused(frames.session_of_rows(self.session), of_rows)

    def misplaced(self, link: LinkName) -> LaneId | None:
        """Return a lane of this link that should begin anew on another executor."""
        if self.is_local:
            return None
        with report_death(self.context):
            executors = self._warm.of(executors_of(self.context))
        with self._lock:
            place = self._placement.misplaced(executors) or ""
            best = self._placement.best(place, executors)
            is_leaving = not self._placement.is_on_one_of(place, executors)
        name, _, lane = place.rpartition("/")
        if name != link:
            return None
        # Who leaves must not wait: a worker that is shut down waits for it.
        may_go = is_leaving or best is None or self._warm.has_process(best)
        return LaneId(int(lane)) if may_go else None

    def why_ended(self) -> SparkUnavailable | None:
        """Return why Spark ended: its JVM died, or the cluster's master removed this program."""
        context = self.context
        if has_died(context):
            return death()
        try:
            with report_death(context):
                is_stopped = scala_context(context).isStopped()
        except SparkUnavailable as error:
            return error
        return SparkUnavailable("Spark has ended this program's session") if is_stopped else None

    def cancel(self, lane: LaneSpec) -> None:
        """Kill a lane's job: the last resort when a task does not end by itself."""
        context = self.context
        stopped(context, lambda: context.cancelJobGroup(_job_group(lane)))

    def stop(self) -> None:
        """Stop Spark."""
        try:
            stopped(self.context, self.context.stop)
        finally:
            if self._package is not None:
                self._package.delete()

    def _start_daemon(self) -> None:
        """Run a job that does nothing, so that Spark starts its daemon of Python workers now.

        The daemon takes 2 s to load our code: the first round need not wait for it.
        """
        with contextlib.suppress(Exception):  # as when Spark is stopped meanwhile; rounds report it
            self.context.setJobDescription("start the daemon of Python workers")
            self.context.parallelize([0], 1).mapPartitions(list).collect()

    def _load_code(self, executor: Executor) -> None:
        """Run a job that loads the copying code at an executor."""
        text = f"load the copying code at executor {executor.number}"
        self.context.setJobGroup(f"code/{executor.number}", text, True)
        _placed(self.context, executor.number, executor).mapPartitions(load_code).collect()

    def _wait_executors(self) -> list[Executor]:
        """Return the running executors; waits for one when all are gone."""
        deadline_s = time.monotonic() + AN_EXECUTOR_WITHIN_S
        while not (found := executors_of(self.context)):
            if time.monotonic() > deadline_s:
                raise SparkUnavailable("all of Spark's executors are gone")
            time.sleep(LOOK_S)
        return found


def _settings(
    master: str, conf: Mapping[str, str], task_cpus: float, *, has_pipelines: bool, has_rows: bool
) -> dict[str, str]:
    here = is_local(master)
    return {
        "spark.task.cpus": f"{task_cpus:g}",
        "spark.driver.memory": "512m",
        "spark.speculation": "false",  # two attempts of one lane would only race
        "spark.task.maxFailures": "1",  # a lane's next round is the retry, at the new position
        "spark.task.reaper.enabled": "true",
        # Python workers pass on each batch of rows at once, see `frames`.
        "spark.python.udf.pipelined.enabled": "true",
        "spark.driver.extraJavaOptions": (
            f"{driver_java_options(has_rows=has_rows and here)} {_log_option()}"
        ),
        **(LOCAL_SETTINGS if here else {}),
        **(DAEMON_OF_PIPELINES if has_pipelines and here else {}),
        **session_settings(master, {**(EXECUTORS_WITH_ROWS if has_rows else {}), **conf}),
    }


def _log_option() -> str:
    """Return the driver's logging option: at an executor this package is in an archive."""
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


def _job_group(lane: LaneSpec) -> str:
    """Return the name by which a round's job can be cancelled without the prepared next one."""
    return f"{lane.link}/{lane.round_id}"


def describe(lane: LaneSpec) -> str:
    """Return the description of a round's job for Spark's page."""
    named = [str(item.source) for item in lane.partitions[:NAMED_PARTITIONS_MAX]]
    more = len(lane.partitions) - len(named)
    plural = "" if len(lane.partitions) == 1 else "s"
    return (
        f"{lane.link} lane {lane.lane}, round {lane.round_number}: "
        f"{len(lane.partitions)} partition{plural}, {', '.join(named)}"
        + (f" and {more} more" if more else "")
    )


def _placed(context: Any, content: _Row, executor: Executor) -> RDD[_Row]:
    """Return one row, `content`, for which Spark prefers `executor` (SparkContext.makeRDD).

    Python's `parallelize` takes no location. If this executor is gone, any other takes the row.
    """
    from pyspark import RDD
    from pyspark.serializers import CPickleSerializer

    jvm = jvm_of(context)
    place = f"executor_{executor.host}_{executor.number}"  # Scala class TaskLocation
    wanted = jvm.PythonUtils.toSeq([place])
    pickles: Any = CPickleSerializer()
    row = jvm.scala.Tuple2(pickles.dumps(content), wanted)
    tag = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").AnyRef()
    rows = scala_context(context).makeRDD(jvm.PythonUtils.toSeq([row]), tag)
    placed = jvm.org.apache.spark.api.java.JavaRDD.fromRDD(rows, tag)
    return RDD(placed, context, pickles)
