"""Arithmetic of the sizing card and of pauses in a rolling upgrade."""

from __future__ import annotations

import math

import numpy as np
import pytest
from delays import Rows
from rolling import judged, longest_pause_s
from sizing import Row, Spent, card, catch_up_h, lanes_for

pytestmark = pytest.mark.thorough

SECOND = 1_000_000_000


def rows(*arrivals: tuple[float, int, int]) -> Rows:
    """Return rows of seconds, partition and number."""
    made = [(round(s * SECOND), 0, partition, number) for s, partition, number in arrivals]
    return np.array(made, dtype=np.int64)


def test_a_pause_is_a_partitions_and_may_begin_before_and_end_after() -> None:
    arrivals = rows((1, 0, 1), (4, 0, 2), (5, 0, 3), (12, 0, 4), (1, 1, 5), (6, 1, 6), (11, 1, 7))

    assert longest_pause_s(arrivals, 2 * SECOND, 5 * SECOND) == 5.0
    assert longest_pause_s(arrivals, 0, SECOND) == 0.0
    assert longest_pause_s(arrivals, 5 * SECOND, 10 * SECOND) == 7.0


def test_records_that_are_missing_or_twice_are_counted() -> None:
    sent = rows((0, 0, 1), (0, 0, 2), (0, 0, 3))

    assert judged(sent, rows((1, 0, 1), (2, 0, 3), (3, 0, 3), (4, 0, 3))) == (1, 2)
    assert judged(sent, sent) == (0, 0)


def test_hours_to_catch_up_are_beside_live_traffic() -> None:
    live_mb_per_s = 200_000 / 86_400

    assert catch_up_h(live_mb_per_s + 600_000 / 3_600) == pytest.approx(1.0)
    assert catch_up_h(live_mb_per_s / 2) == math.inf
    assert [lanes_for(cores) for cores in (0.1, 0.7, 0.71)] == [1, 1, 2]


def test_the_card_has_a_row_for_each_size() -> None:
    backlog = Spent(
        records=1_000_000, took_s=2.0, lane_cpu_s=1.0, broker_cpu_s=2.0, memory_mb=300.0
    )
    many = Spent(records=6_000, took_s=12.0, lane_cpu_s=1.2, broker_cpu_s=6.0, memory_mb=200.0)

    _, _, line = card([Row(500, backlog, many)])

    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[:4] == ["500", "250 MB/s, 500 k records/s", "0.20; 0.40", "1"]
    assert cells[4:] == ["0.10; 0.50", "0.14", "300; 200 MB", "0.7 h"]
