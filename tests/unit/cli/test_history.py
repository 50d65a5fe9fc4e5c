"""`heliostat history` for eyes: bars, a table, and times of which nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from heliostat.cli.history import bars, history_command, history_lines
from heliostat.operate.history import Past
from heliostat.status.history import Point
from heliostat.status.history_records import PastEvent
from heliostat.status.past import with_breaks

POINT = Point(1_700_000_000_000, 1_234.5, 99_000.0, 3, 0.5, 2.0, 9.0, "running")


def test_bars_are_as_high_as_their_share_and_blank_where_nothing_is_known() -> None:
    assert bars([0, 4, 8, None]) == "▁▅█ "
    assert bars([0, 0]) == "▁▁"
    assert bars([None]) == " "


def test_a_time_in_which_nobody_drove_the_link_is_told() -> None:
    later = replace(POINT, at_ms=POINT.at_ms + 3_600_000)
    past = Past("l", None, 60, with_breaks([POINT, later], 60), [PastEvent(1, "WARN", "it")], ["x"])
    lines = list(history_lines(past))
    assert sum("nobody drove it" in line for line in lines) == 2
    assert any("1,234.5" in line for line in lines)
    assert lines[-2:] == ["1970-01-01 00:00:00Z WARN it", "note: x"]
    assert list(history_lines(replace(past, points=[], events=[], notes=[]))) == [
        "Nothing is kept of l in that time."
    ]


@pytest.mark.parametrize("since", ["", "6", "h", "0h", "2d", "-1h", "6 hours"])
def test_a_time_that_is_none_is_refused(since: str) -> None:
    answer = CliRunner().invoke(history_command, ["l", "--since", since])
    assert answer.exit_code == 2
    assert "as 15m or 6h" in answer.output
