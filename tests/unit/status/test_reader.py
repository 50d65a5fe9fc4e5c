"""A driver is alive if it reports now, whatever its clock says, and silent if it does not."""

from __future__ import annotations

from typing import Any

import pytest
from sim.sim_clock import SimClock

from heliostat.clusters.recent_records import Recent
from heliostat.names import LinkName
from heliostat.status.reader import FRESH_MS, NEXT_REPORT_S, StatusReader

NOW_MS = 1_800_000_000_000


class Progress:
    """A progress topic to which a driver writes each second, or no more."""

    def __init__(self, clock: SimClock, ahead_ms: int, *, writes: bool) -> None:
        self._clock = clock
        self._ahead_ms = ahead_ms
        self._writes = writes

    def report(self) -> Recent:
        at_ms = self._clock.wall_ms() + self._ahead_ms
        return Recent("driver", {"state": "running", "at_ms": at_ms, "instance": "a"}, at_ms, 0)

    def poll(self, timeout_s: float) -> list[Recent]:
        self._clock.sleep(timeout_s)
        return [self.report()] if self._writes else []


@pytest.mark.parametrize("ahead_ms", [-600_000, -FRESH_MS - 1, 600_000])
@pytest.mark.parametrize("writes", [True, False])
def test_whoever_reports_is_alive_whatever_the_clocks_say(ahead_ms: int, *, writes: bool) -> None:
    clock = SimClock(NOW_MS)
    progress: Any = Progress(clock, ahead_ms, writes=writes)
    reader = StatusReader(LinkName("l"), progress)
    first = progress.report()
    reader.board.consume(first.key, first.value)
    began_s = clock.monotonic_s()
    status = reader.board.status(reader.seen_at_ms(clock))
    assert status.state == ("running" if writes else "silent")
    assert clock.monotonic_s() - began_s <= NEXT_REPORT_S + 0.5


def test_a_fresh_report_is_not_waited_for() -> None:
    clock = SimClock(NOW_MS)
    progress: Any = Progress(clock, -500, writes=False)
    reader = StatusReader(LinkName("l"), progress)
    first = progress.report()
    reader.board.consume(first.key, first.value)
    assert reader.board.status(reader.seen_at_ms(clock)).state == "running"
    assert clock.wall_ms() == NOW_MS
