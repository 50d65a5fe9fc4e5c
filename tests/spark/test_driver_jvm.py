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


@pytest.mark.parametrize("has_rows", [False, True], ids=["plain", "rows"])
def test_a_session_loads_its_class_archive_silently(has_rows: bool) -> None:
    """Given the archives of set-up / when a session starts / then its JVM uses its own."""
    archive = ROWS_ARCHIVE if has_rows else ARCHIVE
    assert archive.is_file(), "scripts/setup makes it"
    program = SESSION.replace("HAS_ROWS", str(has_rows))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert str(archive.resolve()) in done.stdout, done.stdout + done.stderr
    assert "cds" not in done.stdout + done.stderr
