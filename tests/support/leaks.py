"""Nothing of ours outlives the tests: brokers, Spark's JVM and Python workers end with them.

`tests/conftest.py` imports the fixture; a child that is still there when the session ends fails
the last test, by name, and is then stopped by its own pid.
"""

import os
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

LEAVING_S = 15.0  # a JVM that was told to stop writes its logs first
POLL_S = 0.05
SHUTDOWN_HOOKED = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Helpers of Python itself, which end with the process that they help."""


def living_children(parent_pid: int, known: frozenset[int] = frozenset()) -> list[psutil.Process]:
    """Descendants of a process that still run, without zombies and those `known` before."""
    living = []
    for child in psutil.Process(parent_pid).children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            is_zombie = child.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            continue
        helps = any(name in command for name in SHUTDOWN_HOOKED)
        if child.pid not in known and not is_zombie and not helps:
            living.append(child)
    return living


def left_behind(
    parent_pid: int, known: frozenset[int], leaving_s: float = LEAVING_S
) -> list[psutil.Process]:
    """Children that are still there after they had time to leave."""
    deadline_s = time.monotonic() + leaving_s
    left = living_children(parent_pid, known)
    while left and time.monotonic() < deadline_s:
        psutil.wait_procs(left, timeout=POLL_S)
        left = living_children(parent_pid, known)
    return left


def describe(process: psutil.Process) -> str:
    """The pid and how it was started."""
    try:
        return f"{process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return f"{process.pid}: gone meanwhile"


def end_spark_gateway() -> None:
    """End the JVM that PySpark keeps for the life of its process, also after `stop`."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # PySpark's JVM ends when this does
    gateway.proc.wait(LEAVING_S)


@pytest.fixture(scope="session", autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Fail the session's end, by name, for each child process that a test left behind.

    It is set up before any other session fixture that starts something, and so looks last.
    """
    known = frozenset(child.pid for child in living_children(os.getpid()))
    yield
    end_spark_gateway()
    left = left_behind(os.getpid(), known)
    said = [describe(process) for process in left]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=LEAVING_S)
    assert not said, "processes left behind:\n" + "\n".join(said)
