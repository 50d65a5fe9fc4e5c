"""No process of ours outlives the tests: brokers, Spark's JVM and Python workers end with them.

`tests/conftest.py` imports the fixture; a child that is still there when the session ends fails
the last test, by name, and is then stopped by its own pid.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

import psutil
import pytest
from kafka.net import selector

LEAVING_S = 15.0  # a JVM that was asked to stop writes its logs first
POLL_S = 0.05
SHUTDOWN_HOOKED = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Helper processes of Python itself, which end with their process."""


def living_children(parent_pid: int, known: frozenset[int] = frozenset()) -> list[psutil.Process]:
    """Return running descendants of a process, without zombies and those `known` before."""
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
    """Return children that still run after they had time to end."""
    deadline_s = time.monotonic() + leaving_s
    left = living_children(parent_pid, known)
    while left and time.monotonic() < deadline_s:
        psutil.wait_procs(left, timeout=POLL_S)
        left = living_children(parent_pid, known)
    return left


def describe(process: psutil.Process) -> str:
    """Return pid and command line."""
    try:
        return f"{process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return f"{process.pid}: gone meanwhile"


def end_spark_gateway() -> None:
    """End the JVM that PySpark keeps as long as its process, also after `stop`."""
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

    It is set up before any other session fixture that starts something, and so checks last.
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


CLIENT_THREADS = "kafka-io-"
"""Prefix of kafka-python's client threads."""
CLOSING_S = 45.0  # observing a hung cluster continues for so long, on a separate thread
_BEGUN_AT: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
"""The source lines that created clients' threads."""


def _remembering(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def begin(thread: threading.Thread) -> None:
        if thread.name.startswith(CLIENT_THREADS):
            _BEGUN_AT[thread] = "".join(traceback.format_stack(limit=25)[:-2])
        start(thread)

    return begin


class _Thread(threading.Thread):
    start = _remembering(threading.Thread.start)


class _Threading:
    """kafka-python's view of `threading`."""

    Thread = _Thread

    def __getattr__(self, name: str) -> object:
        return getattr(threading, name)


selector.threading = _Threading()


def clients_left(known: frozenset[threading.Thread], closing_s: float = CLOSING_S) -> list[str]:
    """Return where clients were created that are still open after they had time to close."""
    deadline_s = time.monotonic() + closing_s
    while True:  # ends at the deadline
        left = [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith(CLIENT_THREADS) and thread not in known
        ]
        if not left or time.monotonic() >= deadline_s:
            return [f"{thread.name}\n{_BEGUN_AT.get(thread, '')}" for thread in left]
        time.sleep(POLL_S)


@pytest.fixture(scope="module", autouse=True)
def no_client_left_open() -> Iterator[None]:
    """Fail a file's end for each client that it left open.

    A client of a stopped cluster retries for ever and draws random pauses, which Hypothesis
    attributes to whatever test runs then.
    """
    known = frozenset(threading.enumerate())
    yield
    left = clients_left(known)
    assert not left, "clients left open, made at:\n" + "\n".join(left)
