"""One Spark session for all tests of a process: links run in it, `verify` compares in it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from heliostat.records.spark.pipeline import SparkRounds

CORES = 2
"""Number of cores that links and `verify` see, as in `spark.master` of the tests' links."""
PLACES = 12
"""Concurrent tasks: two rounds of each of some lanes, and `verify` besides."""
DRIVER_MEMORY = "768m"  # brokers of the same run need the rest
_SOURCES = Path(__file__).parents[2] / "src"


@functools.cache
def shared_rounds() -> SparkRounds:
    """Start (or give) the session; workers import the package from this checkout."""
    path = os.environ.get("PYTHONPATH", "")
    if str(_SOURCES) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_SOURCES), path]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = {
        "spark.default.parallelism": str(CORES),
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.sql.shuffle.partitions": "2",
    }
    master = f"local[{PLACES}]"
    return SparkRounds("heliostat tests", master, conf, task_cpus=1.0, has_pipelines=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a session that runs as long as the tests; stopped with its JVM's children."""
    rounds = shared_rounds()
    yield rounds.session
    rounds.stop()
    shared_rounds.cache_clear()
