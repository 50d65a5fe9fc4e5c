"""One local Spark session for all tests of a run: two cores, loopback only, quiet."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

CORES = 2
DRIVER_MEMORY = "768m"  # brokers of the same run need the rest
_LOG4J = Path(__file__).with_name("log4j2.properties")
_SOURCES = Path(__file__).parents[2] / "src"


def local_session(cores: int = CORES) -> SparkSession:
    """Start (or give) the session; workers import the package from this checkout."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    path = os.environ.get("PYTHONPATH", "")
    if str(_SOURCES) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_SOURCES), path]))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("heliostat tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", DRIVER_MEMORY)
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        )
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a session that lives as long as the test run; stopped with its JVM's children."""
    session = local_session()
    yield session
    session.stop()
