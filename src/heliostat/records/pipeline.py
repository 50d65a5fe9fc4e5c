"""Rounds on Spark: the only module of the copying path that imports PySpark.

One job a round and lane, submitted by the lane's own thread on the driver with its own job group
and description, so lanes live and fail independently and the Spark UI names them. The rows that
come back are the report. See docs/adr/0002 for why not Structured Streaming.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
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
LOG_SETTINGS = Path(__file__).with_name("spark-log4j2.properties")
JAVA_OPTIONS = f"-XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
"""Serial collection: Spark's JVM only schedules here, Python does the work."""


class SparkRounds:
    """A Spark session that runs rounds.

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

    def __init__(
        self, app_name: str, master: str, conf: Mapping[str, str], *, task_cpus: float
    ) -> None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        is_local = master.startswith("local")
        if is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession

        settings = {
            "spark.task.cpus": f"{task_cpus:g}",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "512m",
            "spark.speculation": "false",  # two attempts of one lane would race for nothing
            "spark.task.maxFailures": "1",  # a lane's next round is the retry, position read anew
            "spark.task.reaper.enabled": "true",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            **(LOOPBACK if is_local else {}),
            **conf,
        }
        builder = SparkSession.builder.appName(app_name).master(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        caught = signal.getsignal(signal.SIGINT)
        self.session: SparkSession = builder.getOrCreate()
        if threading.current_thread() is threading.main_thread():
            # PySpark's own handler would kill the rounds at Ctrl-C; ours ends them gracefully.
            signal.signal(signal.SIGINT, caught)
        self.session.sparkContext.setLogLevel("OFF")

    @property
    def cores(self) -> int:
        """Cores that Spark has for us."""
        return int(self.session.sparkContext.defaultParallelism)

    def run(self, lane: LaneSpec) -> RoundReport:
        """Run one round of `lane` as a Spark job; blocks until it ends.

        Raises
        ------
        py4j.protocol.Py4JJavaError
            The task failed; the text holds our error's code.
        """
        context = self.session.sparkContext
        label = f"{lane.link} lane {lane.lane}, round {lane.round_number}"
        context.setJobGroup(_job_group(lane), label, True)
        rows = context.parallelize([lane], 1).mapPartitions(copy_rounds).collect()
        return rows[0]

    def cancel(self, lane: LaneSpec) -> None:
        """Kill a lane's job: the last resort when a task does not end by itself."""
        self.session.sparkContext.cancelJobGroup(_job_group(lane))

    def stop(self) -> None:
        """Stop Spark."""
        self.session.stop()


def _job_group(lane: LaneSpec) -> str:
    """Name under which a lane's job can be cancelled."""
    return f"{lane.link}/{lane.lane}"


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
        WireCluster(lane.source_access, dial),
        WireCluster(lane.target_access, dial),
        lane.settings,
        clock.monotonic_s,
    )
    state = StateChannel(
        lane, WireCluster(lane.target_access, dial), clock.monotonic_s, clock.wall_ms
    )
    try:
        copier = Copier(lane, network, clock)
        report = copier.run(Hooks(state.is_superseded, state.due, state.publish))
        state.publish(report)
        return report
    finally:
        state.close()
        network.close()
