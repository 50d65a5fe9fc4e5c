"""The image's entry point as an executor, started as Kubernetes would, for a real driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.tools import ROOT

from heliostat_sandbox.spark_cluster import SparkCluster, spark_home

pytestmark = [pytest.mark.spark, pytest.mark.long]

ENTRYPOINT = ROOT / "deploy" / "container" / "entrypoint"
DRIVER = """
import os, subprocess, sys
from pyspark import SparkConf, SparkContext
from heliostat.ops.spark_session import ShippedPackage, session_settings, wait_executors

master, entrypoint, home, folder = sys.argv[1:]
settings = session_settings(master, {})
context = SparkContext(conf=SparkConf().setMaster(master).setAll(list(settings.items())))
package = ShippedPackage(context)
variables = {
    "SPARK_HOME": home,
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=" + context.getConf().get("spark.driver.port"),
    "SPARK_JAVA_OPT_1": "-XX:+UseSerialGC",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:"
    + context.getConf().get("spark.driver.port"),
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": context.applicationId,
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "heliostat-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "NUMBA_CACHE_DIR": folder,
}
executor = subprocess.Popen([entrypoint, "executor"], env={**os.environ, **variables}, cwd=folder)

def place(rows):
    import heliostat
    yield os.getcwd(), heliostat.__file__

try:
    print("executors", *wait_executors(context))
    print("task", *context.parallelize([0], 1).mapPartitions(place).collect())
finally:
    package.delete()
    context.stop()
    try:
        print("ended", executor.wait(60) is not None)
    finally:
        executor.kill()
"""


def test_a_driver_uses_it_and_it_ends_with_the_driver(tmp_path: Path) -> None:
    """Given a driver without workers / when the entry point starts / then tasks run there."""
    with SparkCluster.start(0) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, cluster.master, ENTRYPOINT, spark_home(), tmp_path],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executors Executor(number='3', host='127.0.0.1', cores=2)" in done.stdout
    assert f"task ('{tmp_path}', './heliostat-" in done.stdout
    assert "ended True" in done.stdout
