"""The parts of PySpark that we need and that have no public equivalent: here, and nowhere else.

Any release may change them; `tests/spark/test_pyspark_private.py` then fails. Imports no PySpark:
callers pass its objects in.
"""

from __future__ import annotations

from typing import Any


def gateway_of(context_kind: Any) -> Any:
    """Return py4j's gateway to this process's JVM; None before the first session.

    Parameters
    ----------
    context_kind
        PySpark's class `SparkContext`, which keeps it from one session to the next.
    """
    return context_kind._gateway  # noqa: SLF001  # no public way


def active_context(context_kind: Any) -> Any:
    """Return this process's running `SparkContext`, if any: a process has at most one.

    The public `getOrCreate` would start one.
    """
    return context_kind._active_spark_context  # noqa: SLF001  # no public way


def java_process(context_kind: Any) -> Any:
    """Return the JVM's process (`subprocess.Popen`); None where `spark-submit` started us."""
    return getattr(gateway_of(context_kind), "proc", None)


def silence_accumulators(context: Any) -> None:
    """Keep the accumulator thread from printing a trace to stderr when the JVM ends."""
    context._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001  # no public way


def scala_context(context: Any) -> Any:
    """Return Spark's own `SparkContext`, in the JVM."""
    return context._jsc.sc()  # noqa: SLF001  # no public way


def jvm_of(context: Any) -> Any:
    """Return py4j's view of the JVM's packages."""
    return context._jvm  # noqa: SLF001  # no public way
