"""A process that is paused while it computes its deadline gains no time by it (I10)."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from support.one_partition import lane_spec

from heliostat.access import ClusterAccess
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.network import Leaders

NOW_MS = 1_800_000_000_000
ROUND_S = 5.0
EXPIRES_AT_MS = NOW_MS + 5_000
FROZEN_S = 60.0


class FrozenClock:
    """Time that leaps between two of its readings; time is looked at by both clocks alike."""

    def __init__(self, freeze_after: int) -> None:
        self._left = freeze_after
        self._now_s = 0.0

    def _passed_s(self) -> float:
        now_s = self._now_s
        self._left -= 1
        if self._left == 0:
            self._now_s += FROZEN_S
        return now_s

    def monotonic_s(self) -> float:
        return 1000.0 + self._passed_s()

    def wall_ms(self) -> int:
        return NOW_MS + round(self._passed_s() * 1000)

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


@pytest.mark.parametrize("freeze_after", range(1, 6))
def test_no_turn_is_taken_after_the_deadline(
    freeze_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a process that sleeps after any reading of a clock / then it does nothing late."""
    clock = FrozenClock(freeze_after)
    network = Mock()
    network.leaders.return_value = Leaders({}, {}, {})
    access = ClusterAccess(("127.0.0.1:1",))
    lane = replace(lane_spec(access, access), round_s=ROUND_S, expires_at_ms=EXPIRES_AT_MS)
    copier = Copier(lane, network, clock)
    late: list[float] = []

    def turn(now_s: float) -> None:
        late.extend([now_s] if now_s > 1000.0 + ROUND_S else [])
        clock.sleep(0.5)

    monkeypatch.setattr(copier, "turn", turn)
    hooks = Mock()
    hooks.switch_at_ms.return_value = None
    hooks.is_superseded.return_value = False
    hooks.is_report_due.return_value = False
    assert copier.run(hooks).ended_by == "deadline"
    assert late == []
