"""A lane that cannot reach its state topics: it continues for a while, then fails."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from heliostat.access import ClusterAccess
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import ConnectionLost
from heliostat.names import LaneId, LinkName, ProducerId
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.transport.control_channel import CLOSE_S, StateChannel
from heliostat.records.transport.state_connection import SILENT_S_MAX

FAILS_WITHIN_S = 20.0


class Hands:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture
def nowhere() -> Iterator[str]:
    """Return an address at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def channel_to(address: str, hands: Hands) -> StateChannel:
    access = ClusterAccess((address,))
    spec = LaneSpec(
        link=LinkName("l"),
        lane=LaneId(7),
        generation=1,
        round_number=0,
        lease_s=20,
        waits_for=(),
        source_access=access,
        target_access=access,
        producer_id=ProducerId(1),
        partitions=(),
        control_topic="control",
        progress_topic="progress",
    )
    cluster = WireCluster(access, DialSettings())
    return StateChannel(spec, cluster, hands.monotonic_s, lambda: 0)


def raised_by(call: Callable[[], object]) -> ConnectionLost | None:
    deadline_s = time.monotonic() + FAILS_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            call()
        except ConnectionLost as error:
            return error
        time.sleep(0.01)  # between two looks at a condition with a deadline
    return None


def report(ended_by: str) -> RoundReport:
    return RoundReport(LaneId(7), 1, 0, 0, 0, ended_by, [])


@pytest.mark.thorough
@pytest.mark.parametrize("told", ["heard", "written"])
def test_silence_is_tolerated_for_a_while_and_then_raised(nowhere: str, told: str) -> None:
    """Given no broker / then nothing at first, and after `SILENT_S_MAX` the reason."""
    hands = Hands()
    channel = channel_to(nowhere, hands)
    try:
        channel.publish(report(""))
        assert channel.running() is None
        assert not channel.is_superseded()
        hands.ahead_s = SILENT_S_MAX + 1
        call = channel.is_superseded if told == "heard" else lambda: channel.publish(report(""))
        error = raised_by(call)
        assert error is not None
        assert "answers" in str(error)
    finally:
        channel.close()


@pytest.mark.thorough
def test_close_gives_up_the_last_report_in_time_and_leaves_no_thread(nowhere: str) -> None:
    """Given no broker / when the round ends / then close returns and publish does not raise."""
    hands = Hands()
    channel = channel_to(nowhere, hands)
    hands.ahead_s = SILENT_S_MAX + 1
    channel.publish(report("deadline"))
    began_s = time.monotonic()
    channel.close()
    assert time.monotonic() - began_s < CLOSE_S + 2
    [thread] = [t for t in threading.enumerate() if t.name == "lane-7 state"] or [None]
    if thread is not None:
        thread.join(CLOSE_S)
        assert not thread.is_alive()
