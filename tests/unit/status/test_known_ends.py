"""A view knows the lags that reports don't tell, and never waits for them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.errors import ConnectionLost
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.status.known_ends import LOOK_S, NEEDED_S, OLD_S, READ_EVERY_S, KnownEnds
from heliostat.status.lag import BothEnds, Ends

P = TopicPartition(TopicName("t"), PartitionId(0))
REPORTS: Any = ["a report"]
ENDS = {P: BothEnds(90, 70)}


class View:
    """A view that is drawn when a test says so; brokers answer once `answering` is set."""

    def __init__(self) -> None:
        self.now_s, self.reads = 100.0, 0
        self.answering, self.read = threading.Event(), threading.Event()
        self.refuses = False
        self.needed: Sequence[Any] = REPORTS
        clock: Any = SimpleNamespace(monotonic_s=lambda: self.now_s)
        self.known = KnownEnds(self._read, clock)

    def _read(self, reports: Sequence[Any]) -> Ends:
        self.reads += 1
        assert self.answering.wait(5)
        if self.refuses:
            raise ConnectionLost("gone")
        return dict(ENDS)

    def draw(self, after_s: float) -> Ends:
        self.now_s += after_s
        return self.known.newest(lambda: self.needed)

    def take(self) -> Ends:
        pending = self.known._pending
        assert pending is not None
        pending._thread.join(5)
        return self.draw(0.0)


@pytest.fixture
def view() -> View:
    return View()


def test_ends_are_read_once_they_are_needed_for_a_while_and_nobody_waits(view: View) -> None:
    assert view.draw(0) == {}
    view.draw(LOOK_S)
    assert view.reads == 0
    assert view.draw(NEEDED_S) == {}  # being read: brokers hang
    for _ in range(5):
        assert view.draw(READ_EVERY_S) == {}
    assert view.reads == 1
    view.answering.set()
    assert view.take() == ENDS
    view.draw(READ_EVERY_S)
    assert view.reads == 2


def test_what_lanes_report_needs_no_reading(view: View) -> None:
    view.needed = []
    for _ in range(20):
        assert view.draw(LOOK_S) == {}
    assert view.reads == 0


def test_old_ends_are_not_known(view: View) -> None:
    view.answering.set()
    view.draw(0)
    view.draw(NEEDED_S)
    assert view.take() == ENDS
    view.needed = []
    assert view.draw(OLD_S) == {}


def test_a_cluster_that_does_not_answer_leaves_the_lag_unknown(view: View) -> None:
    view.refuses = True
    view.answering.set()
    view.draw(0)
    view.draw(NEEDED_S)
    assert view.take() == {}
