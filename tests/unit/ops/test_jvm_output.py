"""What Spark's JVM prints: nobody sees its greetings, and everybody the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from support.clusters import until

from heliostat.ops.jvm_output import passed_on
from heliostat.ops.pyspark_private import JvmProcess

SAID = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "ERROR".
26/11/29 04:53:07 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
Setting Spark log level to "OFF".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).

java.lang.OutOfMemoryError: Java heap space
	at org.apache.spark.Some.thing(Some.scala:1)
"""


def test_greetings_are_dropped_and_the_rest_is_passed_on() -> None:
    lines: list[str] = []
    with passed_on(lines.append) as output:
        os.write(output, SAID.encode() + b"no end of a line, and \xff")
    until(lambda: len(lines) == 3, "the lines")
    assert lines[0].startswith("java.lang.OutOfMemoryError")
    assert lines[2] == "no end of a line, and \ufffd"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_child_that_pyspark_prepares_ignores_both_signals(number: signal.Signals) -> None:
    """Given a process as PySpark starts its JVM / then a signal to all does not end it."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what PySpark sets

    settings: dict[str, Any] = JvmProcess(1)
    settings["preexec_fn"] = prepare
    assert (settings.pop("stdout"), settings.pop("stderr")) == (1, 1)
    script = f"import signal; print(signal.getsignal({int(number)}) is signal.SIG_IGN)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, **settings
    )
    assert done.stdout == "True\n"
