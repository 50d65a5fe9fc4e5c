"""When rows are pushed through a pipeline: at once when few come, some together when many do."""

from __future__ import annotations

import itertools

import pytest

from heliostat.records.transport.row_pipe import IDLE_S, PUSH_EVERY_S, Pushes

ROWS = 514


def pushes_of(arrivals_s: list[float], rows: int = 2, every_s: float = PUSH_EVERY_S) -> list[float]:
    """When there is a push, for chunks of so many rows that arrive at these times."""
    pushes, now_s, made = Pushes(ROWS, every_s), 0.0, []
    coming = list(arrivals_s)
    while True:
        wait_s = pushes.wait_s(now_s)
        if wait_s is not None and not (coming and coming[0] < now_s + wait_s):
            now_s += wait_s
            made.append(now_s)
            pushes.pushed(now_s)
        elif coming:
            now_s = max(now_s, coming.pop(0))
            pushes.sent(rows, now_s)
        else:
            return made


def test_a_record_alone_is_pushed_at_once() -> None:
    arrivals = [10.0, 10.5, 11.0]
    assert pushes_of(arrivals) == pytest.approx([each + IDLE_S for each in arrivals])


def test_records_one_after_the_other_are_pushed_together_and_none_waits_longer() -> None:
    arrivals = [10.0 + number * 0.005 for number in range(200)]
    found = pushes_of(arrivals)
    assert 40 <= len(found) <= 52
    assert min(after - before for before, after in itertools.pairwise(found)) >= PUSH_EVERY_S - 1e-9
    for each in arrivals:
        assert min(at - each for at in found if at > each) <= PUSH_EVERY_S + IDLE_S + 1e-9


def test_many_rows_push_each_other_and_only_the_last_ones_need_marks() -> None:
    arrivals = [10.0 + number * 0.0004 for number in range(1000)]
    first, last = pushes_of(arrivals, rows=100)
    assert first < 10.01
    assert last > arrivals[-1]


def test_in_a_careful_round_nothing_waits() -> None:
    arrivals = [10.0 + number * 0.005 for number in range(20)]
    assert len(pushes_of(arrivals, every_s=0.0)) == 20
