"""A handshake over a long line takes longer than a broker may be silent, and is no silence."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from heliostat.clusters.wire import control_connection
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings, SignsOfLife
from heliostat.errors import ConnectionLost
from heliostat.names import Endpoint
from heliostat.ops.asked import NoAnswerYet, PendingAnswer

QUIET_S = 0.2
STEP_S = 0.08
STEPS = 6
"""Of a handshake: together longer than `QUIET_S` allows without a sign."""
OVER = threading.Event()
FAR, HUNG = 1, 2
"""Ports of a broker that is far, and of one that hangs."""


class Handshake:
    """As `Connection`: each step of the far one's handshake is a sign of life."""

    def __init__(self, endpoint: Endpoint, settings: DialSettings) -> None:
        self.settings = settings
        for _ in range(STEPS):
            time.sleep(STEP_S)
            if endpoint.port == FAR:
                settings.signs.note()
        if endpoint.port == HUNG:
            OVER.wait()
            raise ConnectionLost("the test is over")

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireCluster]:
    """Give a cluster of one broker that is far and one that hangs."""
    monkeypatch.setattr(control_connection, "Connection", Handshake)
    monkeypatch.setattr(control_connection, "ask_versions", lambda *_: {3: (0, 12)})
    settings = DialSettings(connect_timeout_s=QUIET_S, request_timeout_s=QUIET_S)
    with contextlib.closing(WireCluster(f"h:{HUNG},h:{FAR}", settings)) as made:
        OVER.clear()
        yield made
        OVER.set()
        made.close()
        time.sleep(STEPS * STEP_S)  # probes end


def test_who_is_far_answers_and_who_hangs_is_silent(cluster: WireCluster) -> None:
    began_s = time.monotonic()
    assert cluster.silent(QUIET_S) == [Endpoint("h", HUNG)]
    assert time.monotonic() - began_s < STEPS * STEP_S + 3 * QUIET_S


def test_a_broker_that_is_far_is_not_told_as_silent(cluster: WireCluster) -> None:
    far, hung = (cluster.brokers._conn(Endpoint("h", port)) for port in (FAR, HUNG))
    far.begin_probe()
    hung.begin_probe()
    time.sleep(QUIET_S + STEP_S)
    assert far.silence(QUIET_S) is None
    assert isinstance(hung.silence(QUIET_S), ConnectionLost)
    assert far.is_answering(10.0)
    hung.close()


def pending(note: Callable[[], Any]) -> PendingAnswer[str]:
    def ask() -> str:
        for _ in range(STEPS):
            time.sleep(STEP_S)
            note()
        return "here"

    return PendingAnswer(ask, "far")


def test_an_answer_is_waited_for_while_there_are_signs() -> None:
    signs = SignsOfLife()
    far = pending(signs.note)
    assert far.answer_while(lambda: signs.last_s, QUIET_S, 10.0) == "here"
    with pytest.raises(NoAnswerYet):
        pending(lambda: None).answer_while(lambda: signs.last_s - 60, QUIET_S, 10.0)
    with pytest.raises(NoAnswerYet):
        pending(signs.note).answer_while(lambda: signs.last_s, QUIET_S, QUIET_S)
