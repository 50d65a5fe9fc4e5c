"""Spark's driver starts with the class archive of set-up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from heliostat.ops.quick_jvm import ARCHIVE, ROWS_ARCHIVE

pytestmark = [pytest.mark.spark, pytest.mark.core]

SESSION = """
import psutil
from heliostat.records.spark.pipeline import SparkRounds
rounds = SparkRounds("classes", "local[1]", {}, task_cpus=1.0, has_rows=HAS_ROWS)
(jvm,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
print([each.path for each in jvm.memory_maps() if each.path.endswith(".jsa")])
rounds.stop()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )


@pytest.mark.thorough
@pytest.mark.parametrize("has_rows", [False, True], ids=["plain", "rows"])
def test_a_session_loads_its_class_archive_silently(has_rows: bool) -> None:
    """Given the archives of set-up / when a session starts / then its JVM uses its own."""
    archive = ROWS_ARCHIVE if has_rows else ARCHIVE
    assert archive.is_file(), "scripts/setup makes it"
    program = SESSION.replace("HAS_ROWS", str(has_rows))
    done = run(program)
    assert str(archive.resolve()) in done.stdout, done.stdout + done.stderr
    assert "cds" not in done.stdout + done.stderr


WITHOUT_MEMORY = """
from heliostat.errors import SparkUnavailable
from heliostat.ops.driver_death import report_death
from heliostat.records.spark.pipeline import SparkRounds
rounds = SparkRounds("memory", "local[1]", {}, task_cpus=1.0, has_rows=True)
try:
    with report_death(rounds.context):
        text = "repeat('x', cast(id AS int) + 900000000)"
        rounds.session.range(1).selectExpr(f"length({text})").collect()
except SparkUnavailable as error:
    print(error)
rounds.stop()
"""


@pytest.mark.thorough
def test_a_task_without_memory_ends_the_jvm_and_nobody_waits() -> None:
    """Given a session / when one of its tasks needs more memory than its JVM has / then the job

    ends with an error that says so; nothing waits for it.
    """
    done = run(WITHOUT_MEMORY)
    assert "[SPARK_UNAVAILABLE] Spark's JVM has died" in done.stdout, done.stdout + done.stderr
    assert "spark.driver.memory" in done.stdout
