"""Spark's driver starts with the class archive of set-up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from heliostat.ops.quick_jvm import ARCHIVE

pytestmark = [pytest.mark.spark, pytest.mark.core]

SESSION = """
import psutil
from heliostat.records.spark.pipeline import SparkRounds
rounds = SparkRounds("classes", "local[1]", {}, task_cpus=1.0)
(jvm,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
print([each.path for each in jvm.memory_maps() if each.path.endswith(".jsa")])
rounds.stop()
"""


def test_a_session_loads_the_class_archive_silently() -> None:
    """Given the archive of set-up / when a session starts / then its JVM uses it, silently."""
    assert ARCHIVE.is_file(), "scripts/setup makes it"
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120, check=True
    )
    assert str(ARCHIVE.resolve()) in done.stdout, done.stdout + done.stderr
    assert "cds" not in done.stdout + done.stderr
