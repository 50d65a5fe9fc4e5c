"""The driver's JVM, missing or dead: said in a sentence, where PySpark prints pages of traces.

Knows PySpark only by what it is handed.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heliostat.errors import SparkUnavailable

DYING_S = 2.0
"""A JVM that was killed refuses connections a moment before its process is seen to have ended."""
CUT = frozenset({"Py4JNetworkError", "Py4JError"})
"""What py4j raises by a call whose answer was cut off; what Java raised is a kind of its own."""
INSTALL_HINT = "install a Java runtime of version 17 or newer, or point JAVA_HOME at one"
DEATH_HINT = (
    "see whether the machine ran out of memory; start again: what was copied is whole, and it goes "
    "on from there"
)


def begun(builder: Any, context_kind: Any) -> Any:
    """Start (or give) the session that `builder` describes.

    Parameters
    ----------
    context_kind
        PySpark's class `SparkContext`, which keeps a process's JVM.

    Raises
    ------
    SparkUnavailable
        There is no Java, or no JVM comes up with it.
    """
    had_jvm = context_kind._gateway is not None  # noqa: SLF001  # no other way
    if not had_jvm:
        _find_java()
    _silence_py4j()
    try:
        session = builder.getOrCreate()
    except Exception as error:
        # What PySpark and py4j raise then has no kind in common. A setting that Spark refuses is
        # no death: its own words say more.
        gateway = context_kind._gateway  # noqa: SLF001  # no other way
        if had_jvm or not (gateway is None or _has_died(context_kind)):
            raise
        raise SparkUnavailable(
            "Spark's JVM ended while it started; what it said itself stands above",
            hint=INSTALL_HINT,
        ) from error
    # Its thread for accumulators meets the end of a JVM with a trace on stderr.
    server = session.sparkContext._accumulatorServer  # noqa: SLF001  # no other way
    server.handle_error = lambda *_: None
    return session


def has_died(context: Any) -> bool:
    """Whether the JVM of this `SparkContext` is gone, by whatever ended it."""
    return _has_died(type(context))


@contextmanager
def report_death(context: Any) -> Iterator[None]:
    """Turn what a call raises into a sentence, where the JVM's death is the cause.

    Raises
    ------
    SparkUnavailable
        It has died.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, SparkUnavailable) or not _dies(context, error):
            raise
        raise death() from error


def _dies(context: Any, error: Exception) -> bool:
    """Whether the JVM is gone, or just going: its connections are refused a moment before."""
    until_s = time.monotonic() + DYING_S
    while not has_died(context):
        is_cut = isinstance(error, OSError) or type(error).__name__ in CUT
        if not is_cut or time.monotonic() >= until_s:
            return False
        time.sleep(0.05)
    return True


def death() -> SparkUnavailable:
    """What is said of it."""
    return SparkUnavailable("Spark's JVM has died, and with it all that Spark ran", hint=DEATH_HINT)


def stopped(context: Any, stop: Callable[[], None]) -> None:
    """Call `stop` on what Spark still is; nothing where its JVM is dead."""
    if not has_died(context):
        with report_death(context):
            stop()


def _has_died(context_kind: Any) -> bool:
    gateway = context_kind._gateway  # noqa: SLF001  # no other way
    process = getattr(gateway, "proc", None)  # none where spark-submit started us
    return process is not None and process.poll() is not None


def _find_java() -> None:
    """As Spark's own `spark-class` looks for it, which then says less."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise SparkUnavailable(
                f"Spark needs Java, and there is none where JAVA_HOME says: {java}",
                hint=INSTALL_HINT,
            )
    elif shutil.which("java") is None:
        raise SparkUnavailable(
            "Spark needs Java, and there is none: JAVA_HOME is not set, PATH leads to no java",
            hint=INSTALL_HINT,
        )


def _silence_py4j() -> None:
    """It logs a trace for each call to a dead JVM, through the root logger."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())  # else the first trace gives it one for stderr
    if _not_py4j not in root.filters:
        root.addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
