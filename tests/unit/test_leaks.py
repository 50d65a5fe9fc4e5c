"""The guard against leaked processes reports one, and nothing when there is none."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest
from support.clusters import until
from support.costs import TESTS
from support.leaks import CLIENT_THREADS, clients_left, describe, left_behind, living_children

pytestmark = pytest.mark.thorough

GUARDED = """
import os, signal, subprocess
from support.links import _guard
link = subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL, start_new_session=True)
_guard(link.pid)
print(link.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def known() -> frozenset[int]:
    return frozenset(child.pid for child in living_children(os.getpid()))


@pytest.fixture
def sleeper(known: frozenset[int]) -> Iterator[subprocess.Popen[bytes]]:
    del known  # taken before the sleeper starts
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_child_left_behind_is_named(
    known: frozenset[int], sleeper: subprocess.Popen[bytes]
) -> None:
    left = left_behind(os.getpid(), known, leaving_s=0.2)
    assert [process.pid for process in left] == [sleeper.pid]
    assert "sys.stdin.read()" in describe(left[0])


def test_child_known_before_is_not_named(sleeper: subprocess.Popen[bytes]) -> None:
    before = frozenset(child.pid for child in living_children(os.getpid()))
    assert sleeper.pid in before
    assert left_behind(os.getpid(), before, leaving_s=0.2) == []


def test_child_that_leaves_in_time_is_waited_for(
    known: frozenset[int], sleeper: subprocess.Popen[bytes]
) -> None:
    assert sleeper.stdin is not None
    sleeper.stdin.close()
    assert left_behind(os.getpid(), known, leaving_s=20) == []


def test_zombie_is_no_leak(known: frozenset[int], sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert living_children(os.getpid(), known) == []


def test_a_link_ends_with_the_tests_that_started_it() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], env=environment, capture_output=True, check=False
    )
    link = int(done.stdout)
    until(lambda: not psutil.pid_exists(link), "the end of what was guarded")


def test_a_client_left_open_is_named_until_it_is_closed() -> None:
    known, closed = frozenset(threading.enumerate()), threading.Event()
    thread = threading.Thread(target=closed.wait, name=f"{CLIENT_THREADS}somebody", daemon=True)
    thread.start()
    assert [each.split("\n")[0] for each in clients_left(known, closing_s=0.1)] == [thread.name]
    assert clients_left(known | {thread}, closing_s=0.1) == []
    closed.set()
    assert clients_left(known) == []
