"""History: two steps, means of rates, the worst of lags; what was not known stays so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.status.history import COARSE_COUNT, FINE_COUNT, FINE_S, History, Point, merged

POINT = Point(0, 10.0, 100.0, 1, 0.5, 2.0, 9.0, "running")


def test_points_are_kept_for_a_quarter_of_an_hour_and_for_a_day() -> None:
    history = History()
    for number in range(26 * 720):
        history.add(replace(POINT, at_ms=number * FINE_S * 1000))
    fine, coarse = history.columns(5), history.columns(60)
    assert {len(column) for column in fine.values()} == {FINE_COUNT}
    assert {len(column) for column in coarse.values()} == {COARSE_COUNT + 1}
    assert fine["at_ms"][-1] == (26 * 720 - 1) * FINE_S * 1000
    assert coarse["at_ms"] == sorted(coarse["at_ms"])
    assert coarse["records_per_s"][-1] == 10.0


def test_the_minute_that_runs_is_there_already() -> None:
    history = History()
    history.add(POINT)
    assert history.columns(60)["at_ms"] == [0]


@pytest.mark.parametrize(
    ("changes", "field", "wanted"),
    [
        ({"records_per_s": 30.0}, "records_per_s", 20.0),
        ({"lag_records": 7}, "lag_records", 7),
        ({"lag_records": None}, "lag_records", None),
        ({"lag_s": None}, "lag_s", None),
        ({"latency_p99_ms": None}, "latency_p99_ms", 9.0),
        ({"latency_p99_ms": 99.0}, "latency_p99_ms", 99.0),
        ({"state": "silent"}, "state", "silent"),
    ],
)
def test_one_point_for_several(changes: dict[str, object], field: str, wanted: object) -> None:
    other = replace(POINT, **changes)  # type: ignore[arg-type]  # by name
    for points in ([POINT, other], [other, POINT]):
        assert getattr(merged(points), field) == wanted
