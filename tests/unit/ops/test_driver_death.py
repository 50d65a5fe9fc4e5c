"""A missing or dead JVM is reported in one sentence; other errors stay as they are."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.errors import SparkUnavailable
from heliostat.ops import driver_death
from heliostat.ops.driver_death import begun, has_died, report_death, stopped


def context_of(code: int | None, *, with_process: bool = True) -> Any:
    """A context whose JVM has ended with this code; None: it lives."""
    process = SimpleNamespace(poll=lambda: code) if with_process else None

    class Context:
        _gateway = SimpleNamespace(proc=process)

    return Context()


@pytest.mark.parametrize(
    ("context", "is_dead"),
    [
        (context_of(None), False),
        (context_of(-9), True),
        (context_of(0), True),
        (context_of(None, with_process=False), False),
    ],
)
def test_a_dead_jvm_is_reported_and_other_failures_are_not_called_one(
    context: Any, *, is_dead: bool
) -> None:
    """Given a call that fails / when the JVM is dead / then that is reported, else the call."""
    assert has_died(context) is is_dead
    with (
        pytest.raises(SparkUnavailable if is_dead else OSError) as caught,
        report_death(context),
    ):
        raise OSError("socket")
    assert ("JVM has died" in str(caught.value)) is is_dead
    stop = Mock()
    stopped(context, stop)
    assert stop.called is not is_dead


@pytest.mark.parametrize(
    ("kind", "is_death"),
    [("Py4JNetworkError", True), ("Py4JError", True), ("Py4JJavaError", False)],
)
def test_a_call_cut_off_by_a_dying_jvm_is_reported_as_its_death(
    kind: str, *, is_death: bool
) -> None:
    """Given a JVM seen as dead a moment later / when a call's answer is cut / then reported."""
    seen = iter([None, None, -9])

    class Context:
        _gateway = SimpleNamespace(proc=SimpleNamespace(poll=lambda: next(seen)))

    failed = type(kind, (Exception,), {})
    with pytest.raises(SparkUnavailable if is_death else failed), report_death(Context()):
        raise failed("while calling o35.sc")


def test_a_missing_executor_is_not_reported_as_a_dead_jvm() -> None:
    with pytest.raises(SparkUnavailable, match="executors"), report_death(context_of(-9)):
        raise SparkUnavailable("no executors")


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(driver_death, "_silence_py4j", lambda: None)
    module: Any = SimpleNamespace(launch_gateway=None)
    monkeypatch.setitem(sys.modules, "no_pyspark", module)
    return SimpleNamespace(_gateway=None, __module__="no_pyspark")


@pytest.mark.parametrize("home", [None, "", "here"])
def test_without_java_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_jvm: Any, home: str | None
) -> None:
    """Given no java on PATH or in JAVA_HOME / when started / then the error lists the places."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home and str(tmp_path))
    start = Mock()
    with pytest.raises(SparkUnavailable, match=str(tmp_path) if home else "PATH"):
        begun(start, no_jvm)
    assert not start.called


REFUSED = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Application one failed 2 times
\tat org.apache.spark.scheduler.cluster.YarnClientSchedulerBackend.start(Some.scala:67)
"""


def test_a_jvm_that_fails_to_start_is_reported_but_not_a_refused_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_jvm: Any
) -> None:
    """Given a java / when no JVM started / then reported; where one did, Spark's own message."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    start = Mock()
    start.side_effect = ValueError("no such setting")
    with pytest.raises(SparkUnavailable, match="while it started"):
        begun(start, no_jvm)

    def came_up() -> None:
        no_jvm._gateway = SimpleNamespace(proc=SimpleNamespace(poll=lambda: None))
        raise ValueError("no such setting")

    start.side_effect = came_up
    with pytest.raises(ValueError, match="no such setting"):
        begun(start, no_jvm)

    def refused() -> None:
        error = RuntimeError(REFUSED)
        error.java_exception = object()  # type: ignore[attr-defined]  # as py4j sets it
        raise error

    start.side_effect = refused
    with pytest.raises(SparkUnavailable, match=r"not start: org.*Application one failed") as told:
        begun(start, no_jvm)
    assert "\n" not in str(told.value)


def test_traces_of_py4j_are_kept_from_stderr_and_others_are_not() -> None:
    """Given a program with no log handlers / when py4j logs a trace / then stderr has none."""
    code = (
        "import logging\n"
        "from heliostat.ops.driver_death import _not_py4j, _silence_py4j\n"
        "_silence_py4j(); _silence_py4j()\n"
        "exec(compile('logging.error(1)', '/x/py4j/java_gateway.py', 'exec'))\n"
        "assert logging.getLogger().filters == [_not_py4j]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    record = logging.LogRecord("root", logging.ERROR, "/y/ours.py", 1, "m", None, None)
    assert driver_death._not_py4j(record)
