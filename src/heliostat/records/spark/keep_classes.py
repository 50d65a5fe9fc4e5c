"""Archives the classes of Spark's driver, see `heliostat.ops.quick_jvm`; a part of set-up."""

from __future__ import annotations

import os

from heliostat.ops.pyspark_private import gateway_of
from heliostat.ops.quick_jvm import ARCHIVE, archiving_java_options
from heliostat.records.spark.pipeline import SparkRounds

END_WITHIN_S = 120.0
"""The JVM writes the archive when it ends."""


def make_archive() -> None:
    """Run a session as links do, with one small job, and archive the classes that it loads.

    Raises
    ------
    OSError
        The archive can't be written.
    subprocess.TimeoutExpired
        The JVM does not end.
    """
    from pyspark import SparkContext

    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    draft = ARCHIVE.with_name(f"{ARCHIVE.name}.{os.getpid()}")
    conf = {"spark.driver.extraJavaOptions": archiving_java_options(draft)}
    rounds = SparkRounds("classes", "local[2]", conf, task_cpus=1.0)
    gateway = gateway_of(SparkContext)  # PySpark has no public way to end its JVM
    assert gateway is not None
    try:
        context = rounds.context
        context.setJobGroup("classes", "classes", interruptOnCancel=True)
        assert context.parallelize([1], 1).mapPartitions(list).collect() == [1]
    finally:
        rounds.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(END_WITHIN_S)
    draft.replace(ARCHIVE)


if __name__ == "__main__":
    make_archive()
