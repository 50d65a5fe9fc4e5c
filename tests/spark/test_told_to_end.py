"""A driver that is told to end, as systemd does it: each of its processes gets SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.clusters import until
from support.links import LinkProcess, write_config
from support.notify_socket import NotifySocket

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

NOWHERE = ("127.0.0.1:1", "127.0.0.1:2")
ENDS_WITHIN_S, STOPS_WITHIN_S = 30.0, 60.0
"""On a machine with other work beside."""


def _catches(link: LinkProcess) -> bool:
    """Whether its signal handler is there: before, Python itself has just begun."""
    status = Path(f"/proc/{link.process.pid}/status").read_text(encoding="ascii")
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))


def _has(name: str) -> Callable[[LinkProcess], bool]:
    def looks(link: LinkProcess) -> bool:
        with contextlib.suppress(psutil.Error):
            return any(each.name() == name for each in link.tree()[1:])
        return False

    return looks


def _is_retried(link: LinkProcess) -> bool:
    return "tried again" in link.text()


@pytest.mark.parametrize(
    ("when", "by"),
    [
        pytest.param(_catches, signal.SIGTERM, id="at once"),
        pytest.param(_has("bash"), signal.SIGTERM, id="before the JVM"),
        pytest.param(_has("java"), signal.SIGTERM, id="while the JVM starts"),
        pytest.param(_is_retried, signal.SIGTERM, id="while the clusters are dead"),
        pytest.param(_is_retried, signal.SIGINT, id="Ctrl-C while the clusters are dead"),
    ],
)
def test_a_driver_that_is_told_to_end_ends_well(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: Callable[[LinkProcess], bool],
    by: signal.Signals,
) -> None:
    """Given dead clusters / when all processes get SIGTERM / then it ends with 0, and says no more.

    Spark's own greetings are not in its log either, and systemd is told in time.
    """
    manager = NotifySocket(f"{tmp_path}/notify")
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    with LinkProcess(write_config(tmp_path, *NOWHERE)) as link:
        until(lambda: link.has_ended or when(link), "the moment", 60.0)
        tree = link.tree()
        began_s = time.monotonic()
        assert link.stop(by, STOPS_WITHIN_S) == 0, link.text()
        assert time.monotonic() - began_s < ENDS_WITHIN_S
        _, alive = psutil.wait_procs(tree[1:], timeout=20)
        assert not alive
        said = link.text()
        for word in ("halted", "SPARK_UNAVAILABLE", "Traceback", "incubator", "log level", "Spark"):
            assert word not in said, said
        received = manager.messages()
        manager.close()
        if when is _is_retried:
            assert received[0] == "READY=1"
            assert received[1].startswith("STATUS=")
            assert "WATCHDOG=1" in received[1]
            assert received[-1] == "STOPPING=1"
        else:
            assert received[-1:] in ([], ["STOPPING=1"])
