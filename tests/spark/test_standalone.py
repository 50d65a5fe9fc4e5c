"""A link on a real standalone Spark cluster whose workers come, go and die while it copies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from support.clusters import ClusterPair
from support.links import LinkProcess, wait_for, wait_level
from support.provoked import Provoked
from support.spark_links import PARTITIONS, Copied, Page, assert_verified, configured

from heliostat_sandbox.ports import free_ports
from heliostat_sandbox.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINK = "east-to-west"


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    """Give a master alone; a test adds workers of one core."""
    with SparkCluster.start(0, worker_cores=1) as cluster:
        yield cluster


WITHOUT_WORKERS = """
import sys
from pyspark.sql import SparkSession
from heliostat.ops.quick_jvm import driver_java_options
from heliostat.ops.spark_session import session_settings, wait_executors
conf = {"spark.driver.extraJavaOptions": driver_java_options()}
settings = session_settings(sys.argv[1], conf)
session = SparkSession.builder.master(sys.argv[1]).config(map=settings).getOrCreate()
try:
    wait_executors(session.sparkContext, 2.0)
finally:
    session.stop()
"""


@pytest.mark.provokes("SPARK_UNAVAILABLE", how="a Spark master without workers; no broker is asked")
def test_a_cluster_without_workers_is_reported(
    spark_cluster: SparkCluster, provoked: Provoked
) -> None:
    """Given a master alone / when an executor is awaited / then the error says what is missing."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_WORKERS, spark_cluster.master],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    provoked("SPARK_UNAVAILABLE", done.stderr)


def workers_of(cluster: SparkCluster) -> list[psutil.Process]:
    """Python processes of all executors."""
    return [
        child
        for worker in cluster.workers
        for executor in worker.executors()
        for child in executor.children(recursive=True)
    ]


def test_lanes_share_the_workers_and_no_worker_fault_costs_a_record(
    cluster_pair: ClusterPair, spark_cluster: SparkCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Given a link on workers / when executors, workers, the driver come and go / then exact."""
    copied = Copied(cluster_pair, "cluster-" + tmp_path.name)
    (port,) = free_ports(1)
    place = tmp_path, cluster_pair, copied.topic, spark_cluster.master
    page = Page(port)
    copied.write()
    for _ in range(2):
        spark_cluster.add_worker()
    with_page = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    with LinkProcess(configured(*place, **with_page)) as link:
        wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
        # One lane a core, one core a worker: each worker runs one.
        wait_for("a round on each worker", lambda: page.busy_executors() == 2)
        rounds = wait_for("both lanes", lambda: page.rounds(of_lanes=2))
        assert set(rounds) == {f"{LINK}/0", f"{LINK}/1"}
        for group, text in rounds.items():
            assert text.startswith(f"{LINK} lane {group[-1]}, round "), text
            assert f" partitions, {copied.topic}-" in text, text

        copied.write_much()
        assert spark_cluster.workers[0].kill_executors() == 1
        print(f"executor killed: felt {copied.write_and_wait():.1f} s")

        wait_for("both workers busy again", lambda: page.busy_executors() == 2)
        spark_cluster.remove_worker(spark_cluster.workers[1])
        copied.write_and_wait()
        spark_cluster.add_worker()
        wait_for("both workers busy", lambda: page.busy_executors() == 2)
        copied.write_and_wait()
        spark_cluster.add_worker()
        wait_for("one more lane", lambda: page.rounds(of_lanes=3))

        copied.write_much()
        spark_cluster.kill_worker(spark_cluster.workers[0])
        print(f"worker killed: felt {copied.write_and_wait():.1f} s")

        # The driver is killed: its executors and their Python must not copy on.
        copied.write_much()
        link.kill_driver()
    wait_for("no Python of a dead driver", lambda: not workers_of(spark_cluster), 60)
    spark_cluster.kill_worker(spark_cluster.workers[0])  # one is enough for what follows
    with LinkProcess(config := configured(*place)) as link:
        copied.write_and_wait()
        assert_verified(config, copied.written * PARTITIONS)
        assert link.stop() == 0, link.text()
    wait_for("the program's end at the master", lambda: not spark_cluster.applications(), 60)
    assert not workers_of(spark_cluster)
