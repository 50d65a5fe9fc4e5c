"""Links of one process are isolated: each is retried, or halts, alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

from heliostat.clock import SystemClock
from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError, ProtocolError
from heliostat.link.kept_link import KeptLink
from heliostat.link.running import Running
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.status.board import StatusBoard

WITHIN_S = 20.0


class Service:
    """A link whose beginnings end as they are told to."""

    def __init__(self, ends: list[Exception | None]) -> None:
        self.failure: BaseException | None = None
        self.waits = threading.Event()
        self.runs = False
        self._ends = ends
        self.stops = 0

    def start(self) -> bool:
        error = self._ends.pop(0) if self._ends else None
        if error is not None:
            raise error
        self.runs = True
        return True

    def stop(self) -> None:
        self.stops += 1
        self.runs = False


class Kept:
    """A kept link over such services."""

    def __init__(self, *ends: Exception | None) -> None:
        self.made: list[Service] = []
        self.events = Events(lambda: 0, None)
        self._ends = list(ends)
        settings = {"name": "l", "source": "a", "target": "b"}
        self.link = KeptLink(
            LinkConfig.model_validate(settings),
            self._make,
            StatusBoard(LinkName("l")),
            clock=SystemClock(),
            events=self.events,
        )
        self.link.start()

    def _make(self) -> Any:
        self.made.append(Service(self._ends))
        return self.made[-1]

    def said(self) -> str:
        return "\n".join(self.events.recent(100))


def eventually(holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # between two looks at a condition with a deadline


def test_a_passing_failure_is_retried_and_reported() -> None:
    """Given a target away twice / when it is back / then the link runs, no client is left open."""
    kept = Kept(ConnectionLost("west is away"), ConnectionLost("west is away"))
    eventually(lambda: kept.made and kept.made[-1].runs)
    assert kept.link.failure is None
    assert [service.stops > 0 for service in kept.made] == [True, True, False]
    assert "link l is tried again: [CONNECTION_LOST] west is away" in kept.said()
    kept.link.stop()
    assert all(service.stops for service in kept.made)


def test_a_lasting_failure_halts_that_link() -> None:
    """Given a running link / when its service fails for good / then halted, not retried."""
    kept = Kept()
    eventually(lambda: kept.made and kept.made[-1].runs)
    kept.made[-1].failure = ProtocolError("a record that is not ours")
    eventually(lambda: kept.link.failure is not None)
    assert "link l has halted: [PROTOCOL] a record that is not ours" in kept.said()
    assert len(kept.made) == 1
    assert kept.made[0].stops
    kept.link.stop()


def test_a_bug_halts_its_link_only_and_is_named() -> None:
    kept = Kept(ValueError("what"))
    eventually(lambda: kept.link.failure is not None)
    assert "link l has halted: ValueError: what" in kept.said()


def test_a_link_that_is_stopped_before_it_begins_does_not_begin() -> None:
    kept = Kept(*[ConnectionLost("away")] * 50)
    eventually(lambda: kept.link.is_settled)
    kept.link.stop()
    assert not any(service.runs for service in kept.made)


def running(*failures: HeliostatError | None) -> Running:
    config = Mock()
    found = Running(config, (), Events(lambda: 0, None))
    for number, failure in enumerate(failures):
        kept = Mock(failure=failure)
        kept.link.name = f"l{number}"
        found.kept.append(kept)
    return found


def test_a_process_runs_while_one_of_its_links_does() -> None:
    """Given links of which some have halted / when waited / then it ends with the last one."""
    bad = ProtocolError("bad")
    assert running(None, None).wait(0.0) is None
    some = running(bad, None)
    assert some.wait(0.0) is None
    assert some.failures == {"l0": bad}
    assert running(bad, ProtocolError("worse")).wait(0.0) is bad
