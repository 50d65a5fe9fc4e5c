"""A process that is paused past its deadline while it sends never sends again (I10)."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.records.copier.test_copier import Round

import heliostat
from heliostat.access import PLAINTEXT
from heliostat.clusters.wire.connection import Connection, DialSettings, Endpoint
from heliostat.errors import ConnectionLost
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.late_sends import KilledWhenLate

SOURCES = Path(heliostat.__file__).parents[1]
PROGRAM = """
import sys
from heliostat.records.copier import late_sends
late_sends.LATE_S = 0.1
{begin}
print("ready", flush=True)
sys.stdin.readline()
print("sent", flush=True)
"""
ARMED = "timer = late_sends.KilledWhenLate()\ntimer.arm(0.2)"
PARTED = f"{ARMED}\ntimer.disarm()"
CLOSED = f"{ARMED}\ntimer.close()"
LATE_ALREADY = "timer = late_sends.KilledWhenLate()\ntimer.arm(-0.05)"
TOO_LONG_S = 0.6
UNSENT = bytes(8 * 1024 * 1024)


def frozen(begin: str) -> tuple[int, str]:
    """Exit code and words of a process that is stopped for too long between two of them."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(begin=begin)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCES)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            time.sleep(TOO_LONG_S)
            process.send_signal(signal.SIGCONT)
            said, _ = process.communicate("\n", timeout=30)
        finally:
            process.kill()
    return process.returncode, said


def test_a_process_paused_past_its_deadline_is_killed() -> None:
    assert frozen(ARMED) == (-signal.SIGKILL, "")


@pytest.mark.parametrize("begin", [PARTED, CLOSED, LATE_ALREADY])
def test_a_process_that_sends_nothing_continues(begin: str) -> None:
    """Given all was sent, or the time was over before / when paused likewise / then it lives."""
    assert frozen(begin) == (0, "sent\n")


def test_it_is_killed_a_second_after_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a send / then its process may take a second more than its lease: successors wait that

    long, and a take-over should not take longer.
    """
    guard, armed = KilledWhenLate(), list[float]()
    guard.close()
    monkeypatch.setattr(guard, "_timer", SimpleNamespace(set=armed.append))
    guard.arm(5.0)
    guard.arm(0.0)
    guard.disarm()
    assert armed == [pytest.approx(6.0), 0.0]


class Watch:
    """Writes down for how long sends are let."""

    def __init__(self) -> None:
        self.left_s: float | None = None
        self.armed: list[float] = []

    def arm(self, left_s: float) -> None:
        self.left_s = left_s
        self.armed.append(left_s)

    def disarm(self) -> None:
        self.left_s = None


def test_each_send_of_a_round_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a round / then each send runs under the time left, which counts at no other time."""
    one, watch = Round(), Watch()
    sent: list[float | None] = []
    append, wait = one.network.append, one.network.wait
    monkeypatch.setattr(
        one.network, "append", lambda *given: (sent.append(watch.left_s), append(*given))
    )
    waited: list[float | None] = []
    monkeypatch.setattr(
        one.network, "wait", lambda *given: (waited.append(watch.left_s), wait(*given))[1]
    )
    until_s = one.world.clock.now_s + 4.0
    hooks = Hooks(
        lambda: one.world.clock.now_s > until_s,
        lambda: False,
        lambda _: None,
        answered=lambda: 1,
        late_sends=watch,
    )
    one.copier.run(hooks)
    assert sent
    assert all(left_s is not None and 0 < left_s <= 5.0 for left_s in sent)
    assert watch.armed == sorted(watch.armed, reverse=True)
    assert set(waited) == {None}


@pytest.mark.thorough
@pytest.mark.parametrize("is_wanted", [True, False])
def test_unsent_bytes_are_discarded_with_the_connection(*, is_wanted: bool) -> None:
    """Given more than a broker reads / when closed / then it sees a reset, and gets no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1])
        dial = DialSettings(client_id="test", security=PLAINTEXT, request_timeout_s=1.0)
        connection = Connection(endpoint, dial)
        broker, _ = server.accept()
        with broker:
            connection.discard_at_close(is_wanted=is_wanted)
            with pytest.raises(ConnectionLost, match="sending failed"):
                connection.send([UNSENT])
            connection.close()
            got = b"begun"
            try:
                while got:
                    got = broker.recv(65536)
                is_reset = False
            except ConnectionResetError:
                is_reset = True
    assert is_reset is is_wanted
