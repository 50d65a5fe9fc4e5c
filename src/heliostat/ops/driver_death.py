"""Reports in one sentence, not PySpark's long traces, that the driver's JVM is missing or dead.

Imports no PySpark; callers pass its objects in.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from heliostat.errors import SparkUnavailable
from heliostat.ops.jvm_output import Tell, passed_on, to_stderr
from heliostat.ops.pyspark_private import (
    JvmProcess,
    active_context,
    gateway_of,
    java_exception,
    java_process,
    jvm_started_as,
    silence_accumulators,
)
from heliostat.ops.spark_session import essence

DYING_S = 2.0
"""A killed JVM refuses connections shortly before its process is seen to have ended."""
CUT = frozenset({"Py4JNetworkError", "Py4JError"})
"""What py4j raises for a call whose answer was cut off; Java's exceptions have other classes."""
INSTALL_HINT = "install a Java runtime of version 17 or newer, or point JAVA_HOME at one"
HADOOP_HINT = (
    "set HADOOP_CONF_DIR to the folder with YARN's core-site.xml and yarn-site.xml; without it "
    "Spark can't find the ResourceManager"
)
REFUSED_HINT = (
    "correct spark.master or spark.conf if it names a setting; else see the cluster's own log: "
    "YARN and Kubernetes refuse what they have no room or right for"
)
DEATH_HINT = (
    "check whether the machine ran out of memory, or Spark's JVM (its output says so then; give it "
    "more by spark.conf, spark.driver.memory), then start again: what was copied is intact, and "
    "copying continues from there"
)


def begun(
    start: Callable[[], Any],
    context_kind: Any,
    tell: Tell = to_stderr,
    hint: str = INSTALL_HINT,
) -> Any:
    """Start Spark; return what `start` returns.

    Parameters
    ----------
    start
        Starts (or returns) a session or a `SparkContext`.
    context_kind
        PySpark's class `SparkContext`, which keeps a process's JVM.
    tell
        Receives what the JVM prints.
    hint
        What to do if the JVM ends while it starts.

    Raises
    ------
    SparkUnavailable
        There is no Java, its JVM does not start, or Spark refuses in it.
    """
    had_jvm = gateway_of(context_kind) is not None
    if not had_jvm and "PYSPARK_GATEWAY_PORT" not in os.environ:
        find_java()
    _silence_py4j()
    try:
        with passed_on(tell) as output, jvm_started_as(context_kind, JvmProcess(output)):
            started = start()
    except KeyboardInterrupt:
        if not had_jvm and gateway_of(context_kind) is None:
            _kill_unconnected()
        raise
    except Exception as error:
        # What PySpark and py4j raise then has no common base class. A setting that Spark refuses
        # does not end the JVM: Spark's own message says more.
        if had_jvm or not (gateway_of(context_kind) is None or _has_died(context_kind)):
            if java_exception(error) is None:
                raise
            why = essence(str(error)).removeprefix(": ")
            raise SparkUnavailable(f"Spark did not start: {why}", hint=REFUSED_HINT) from error
        raise SparkUnavailable(
            "Spark's JVM ended while it started; its own output is above",
            hint=hint,
        ) from error
    silence_accumulators(active_context(context_kind))
    return started


def _kill_unconnected() -> None:
    """Kill a JVM that was started and is not connected yet.

    Interrupted there, PySpark takes away the folder in which the JVM would say where it listens:
    the JVM's main thread fails then, and another keeps it for ever, whatever becomes of us.
    """
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any("SparkSubmit" in word or "spark-submit" in word for word in child.cmdline()):
                child.kill()


def has_died(context: Any) -> bool:
    """Whether the JVM of this `SparkContext` is gone, whatever ended it."""
    return _has_died(type(context))


@contextmanager
def report_death(context: Any) -> Iterator[None]:
    """Replace what a call raises with one sentence, if the JVM's death is the cause.

    Raises
    ------
    SparkUnavailable
        The JVM has died.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, SparkUnavailable) or not _dies(context, error):
            raise
        raise death() from error


def _dies(context: Any, error: Exception) -> bool:
    """Whether the JVM is gone, or just ending: it refuses connections shortly before."""
    until_s = time.monotonic() + DYING_S
    while not has_died(context):
        is_cut = isinstance(error, OSError) or type(error).__name__ in CUT
        if not is_cut or time.monotonic() >= until_s:
            return False
        time.sleep(0.05)
    return True


def death() -> SparkUnavailable:
    """Return the error that reports the death of Spark's JVM."""
    return SparkUnavailable("Spark's JVM has died, and all its jobs with it", hint=DEATH_HINT)


def stopped(context: Any, stop: Callable[[], None]) -> None:
    """Call `stop`, unless the JVM is dead."""
    if not has_died(context):
        with report_death(context):
            stop()


def _has_died(context_kind: Any) -> bool:
    process = java_process(context_kind)
    return process is not None and process.poll() is not None


def find_java() -> str:
    """Return where Spark's own `spark-class` finds Java, whose message says less.

    Raises
    ------
    SparkUnavailable
        There is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise SparkUnavailable(
                f"Spark needs Java, but JAVA_HOME points to none: {java}",
                hint=INSTALL_HINT,
            )
        return str(java)
    on_path = shutil.which("java")
    if on_path is None:
        raise SparkUnavailable(
            "Spark needs Java: JAVA_HOME is not set, and PATH has no java",
            hint=INSTALL_HINT,
        )
    return on_path


def _silence_py4j() -> None:
    """Suppress py4j's log of a trace, through the root logger, for each call to a dead JVM."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())  # else the first trace adds one for stderr
    if _not_py4j not in root.filters:
        root.addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
