"""Round trips and bytes on the line are told by brokers' answers, not by how long they waited."""

from __future__ import annotations

import pytest

from heliostat.records.copier.lane import LineUse
from heliostat.records.transport.line_meter import WINDOW_S, LineMeter


class Line:
    """A meter, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.meter = LineMeter(lambda: self.now_s)

    def answered(
        self, took_s: float, size: int = 0, *, broker: int = 1, waited_s: float | None = 0.0
    ) -> None:
        self.now_s += took_s
        self.meter.answered(broker, size, self.now_s - took_s, waited_s=waited_s)


@pytest.fixture
def line() -> Line:
    return Line()


def test_nothing_is_told_before_the_first_answer(line: Line) -> None:
    line.now_s += 5
    assert line.meter.use() is None


def test_the_round_trip_is_the_shortest_answer_of_the_farthest_broker(line: Line) -> None:
    for took_s in (0.4, 0.15, 0.3):
        line.answered(took_s)
    line.answered(0.002, broker=2)
    use = line.meter.use()
    assert use is not None
    assert use.round_trip_ms == 150


def test_the_time_that_a_broker_waited_for_records_is_no_distance(line: Line) -> None:
    line.answered(1.15, waited_s=1.0)
    assert line.meter.use() == LineUse(150, 0)


def test_only_requests_of_which_the_time_is_known_are_counted(line: Line) -> None:
    line.answered(0.02)
    line.answered(1.15, waited_s=1.0)
    line.answered(0.7, waited_s=None)
    *counts, took_ms, throttled_ms = line.meter.requests.numbers()
    assert (sum(counts), took_ms, throttled_ms) == (2, 170, 0)


def test_a_throttled_broker_answers_without_waiting(line: Line) -> None:
    line.answered(0.15, waited_s=1.0)
    assert line.meter.use() == LineUse(150, 0)


def test_the_bytes_on_the_line_are_a_mean(line: Line) -> None:
    """Four requests of a megabyte beside each other over 200 ms, in one second."""
    for _ in range(5):
        line.now_s += 0.2
        for _ in range(4):
            line.meter.answered(1, 1_000_000, line.now_s - 0.2)
    assert line.meter.use() == LineUse(200, 4_000_000)
    line.now_s += 1
    assert line.meter.use() == LineUse(200, 0)


def test_records_that_came_while_a_broker_waited_were_on_the_line_for_a_round_trip(
    line: Line,
) -> None:
    line.answered(0.1)
    line.answered(0.9, 1_000_000, waited_s=None)
    assert line.meter.use() == LineUse(100, 100_000)


def test_a_line_that_became_longer_is_noticed_and_one_that_is_silent_stays_known(
    line: Line,
) -> None:
    line.answered(0.01)
    for _ in range(3):
        line.now_s += WINDOW_S
        assert line.meter.use() == LineUse(10, 0)
    for _ in range(2):
        line.answered(0.2)
        line.now_s += WINDOW_S
        line.meter.use()
    line.answered(0.2)
    assert line.meter.use() == LineUse(200, 0)


def test_the_nearest_broker_is_told_as_well(line: Line) -> None:
    assert line.meter.nearest_s(0.3) == 0.3
    line.answered(0.15)
    line.answered(0.002, broker=2)
    line.now_s += WINDOW_S
    line.meter.use()
    assert line.meter.nearest_s(0.3) == pytest.approx(0.002)
