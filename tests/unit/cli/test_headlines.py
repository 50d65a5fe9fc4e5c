"""The log is quiet while all is well: a link in sync is told rarely."""

from __future__ import annotations

from unit.status.test_truth import DRIVER, Case, told

from heliostat.cli.run import WELL_EVERY_S, Headlines
from heliostat.ops.events import Events
from heliostat.status.values import LinkStatus


class HandClock:
    """Time passes when a test says so."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_link_is_told_while_it_is_not_in_sync_and_else_rarely() -> None:
    clock = HandClock()
    events = Events(clock.wall_ms, None)
    headlines = Headlines(events, clock)
    level: LinkStatus = told(Case(driver=DRIVER))[0]
    silent: LinkStatus = told(Case(driver=DRIVER))[0]
    silent.state = "silent"
    assert level.is_in_sync()
    assert not silent.is_in_sync()

    def lines(*statuses: LinkStatus) -> int:
        before = len(events.recent(1000))
        for status in statuses:
            headlines.write([status])
            clock.now_s += 10
        return len(events.recent(1000)) - before

    assert lines(silent, silent) == 2
    assert lines(level, level, level) == 1
    assert lines(silent, level, level) == 2
    clock.now_s += WELL_EVERY_S
    assert lines(level, level) == 1
