"""Rounds on Spark: the only module of the copying path that imports PySpark.

One job a round and lane, submitted by the lane's own thread on the driver with its own job group
and description, so lanes live and fail independently and the Spark UI names them. The rows that
come back are the report. See docs/adr/0002 for why not Structured Streaming.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from heliostat.clock import SystemClock
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.records.copier import Copier, Hooks
from heliostat.records.lane import LaneSpec, RoundReport
from heliostat.records.state_channel import StateChannel
from heliostat.records.wire_network import WireNetwork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""A local master needs no listener that other machines can reach."""


def open_spark(
    app_name: str, master: str, conf: Mapping[str, str], *, task_cpus: float
) -> SparkSession:
    """Start (or get) the Spark session that lanes run on.

    Parameters
    ----------
    app_name
        Shown in Spark's UI.
    master
        `local[*]`, `spark://host:port`, `yarn`, `k8s://...`.
    conf
        Further settings; they win over ours.
    task_cpus
        Cores a lane counts for: lanes wait for the network most of the time (Spark 4.3 takes
        fractions).
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    settings = {
        "spark.task.cpus": f"{task_cpus:g}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(LOOPBACK if master.startswith("local") else {}),
        "spark.driver.memory": "512m",
        "spark.speculation": "false",  # two attempts of one lane would race for nothing
        "spark.task.maxFailures": "1",  # a lane's next round is the retry, with a fresh position
        "spark.task.reaper.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.extraJavaOptions": _quiet_java_options(),
        **conf,
    }
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _quiet_java_options() -> str:
    """Serial collection and few threads: Spark's JVM only schedules here, Python does the work."""
    return "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dio.netty.allocator.numDirectArenas=1"


def run_round(spark: SparkSession, lane: LaneSpec) -> RoundReport:
    """Run one round of `lane` as a Spark job; blocks until it ends.

    Raises
    ------
    py4j.protocol.Py4JJavaError
        The task failed; the text holds our error's code.
    """
    context = spark.sparkContext
    label = f"{lane.link} lane {lane.lane}"
    context.setJobGroup(job_group(lane), f"{label}, round {lane.round_number}", True)
    rows: list[RoundReport] = context.parallelize([lane], 1).mapPartitions(copy_rounds).collect()
    return rows[0]


def job_group(lane: LaneSpec) -> str:
    """Name under which a lane's job can be cancelled."""
    return f"{lane.link}/{lane.lane}"


def cancel_round(spark: SparkSession, lane: LaneSpec) -> None:
    """Kill a lane's job: the last resort when a task does not end by itself."""
    spark.sparkContext.cancelJobGroup(job_group(lane))


def copy_rounds(lanes: Iterable[LaneSpec]) -> Iterator[RoundReport]:
    """Body of the Spark task."""
    for lane in lanes:
        yield copy_round(lane)


def copy_round(lane: LaneSpec) -> RoundReport:
    """One round over real connections, in this process."""
    clock = SystemClock()
    dial = DialSettings(client_id=f"heliostat-{lane.link}-{lane.lane}")
    network = WireNetwork(
        lane.partitions,
        WireCluster(lane.source_bootstrap, dial),
        WireCluster(lane.target_bootstrap, dial),
        lane.settings,
        clock.monotonic_s,
    )
    state = StateChannel(
        lane, WireCluster(lane.target_bootstrap, dial), clock.monotonic_s, clock.wall_ms
    )
    try:
        copier = Copier(lane, network, clock)
        report = copier.run(Hooks(state.is_superseded, state.due, state.publish))
        state.publish(report)
        return report
    finally:
        state.close()
        network.close()
