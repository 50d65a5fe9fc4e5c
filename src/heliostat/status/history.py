"""Figures of a link over time: at 5 s for a quarter of an hour, at a minute for a day; pure."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from heliostat.status.catch_up import CatchUp
from heliostat.status.values import LinkStatus

FINE_S, FINE_COUNT = 5, 180
COARSE_S, COARSE_COUNT = 60, 1_440
STEPS = {FINE_S: FINE_COUNT, COARSE_S: COARSE_COUNT}
"""How many points are kept of each step (s)."""
LOOK_BACK = 7
"""Points by which it is told how long a link needs until it is level."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of a link at one moment, or over the time since the one before."""

    at_ms: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_s: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    state: str


def point_of(status: LinkStatus) -> Point:
    """Return the figures of a status."""
    return Point(
        status.at_ms,
        round(status.records_per_s, 1),
        round(status.bytes_per_s, 1),
        status.lag_records,
        status.lag_s,
        status.latency_p50_ms,
        status.latency_p99_ms,
        status.state,
    )


class History:
    """Points of one link, in two steps. Not thread-safe."""

    def __init__(self) -> None:
        self._points = {step_s: deque[Point](maxlen=count) for step_s, count in STEPS.items()}
        self._minute: list[Point] = []

    def add(self, point: Point) -> None:
        """Add a point, five seconds after the last."""
        self._points[FINE_S].append(point)
        is_next = bool(self._minute) and point.at_ms // 60_000 != self._minute[0].at_ms // 60_000
        if is_next:
            self._points[COARSE_S].append(merged(self._minute))
            self._minute = []
        self._minute.append(point)

    def remember(self, fine: Iterable[Point], whole: Iterable[Point]) -> None:
        """Put points that were noted elsewhere before those added here."""
        own = self._points[FINE_S][0].at_ms if self._points[FINE_S] else sys.maxsize
        for step_s, points in ((FINE_S, fine), (COARSE_S, whole)):
            # A minute that was begun elsewhere is there in part already.
            before_ms = own if step_s == FINE_S else own - own % 60_000
            earlier = [point for point in points if point.at_ms < before_ms]
            self._points[step_s] = deque([*earlier, *self._points[step_s]], STEPS[step_s])

    def columns(self, step_s: int) -> dict[str, list[Any]]:
        """Return the points of a step as columns of the same length, the oldest first."""
        points = list(self._points[step_s])
        if step_s == COARSE_S and self._minute:
            points.append(merged(self._minute))
        return columns_of(points)


def columns_of(points: Iterable[Point]) -> dict[str, list[Any]]:
    """Return points as columns of the same length."""
    names = [field.name for field in fields(Point)]
    rows = [astuple(point) for point in points]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def level_in_s(columns: Mapping[str, Sequence[Any]]) -> float | None:
    """Return the seconds until a link is level, by its lag of half a minute; None: not known."""
    pace = CatchUp()
    for at_ms, lag in list(zip(columns["at_ms"], columns["lag_records"], strict=True))[-LOOK_BACK:]:
        pace.observe(at_ms / 1000, lag)
    return pace.level_in_s()


def merged(points: Sequence[Point]) -> Point:
    """Return one point for several: mean rates, the worst lag and latency, the last state.

    A lag that was not known at one of these moments is not known.
    """
    count = len(points)
    lags = [point.lag_records for point in points]
    ages = [point.lag_s for point in points]
    worst = [point.state for point in points if point.state != "running"]
    return Point(
        points[-1].at_ms,
        round(sum(point.records_per_s for point in points) / count, 1),
        round(sum(point.bytes_per_s for point in points) / count, 1),
        None if None in lags else _most(lags),
        None if None in ages else _most(ages),
        _most(point.latency_p50_ms for point in points),
        _most(point.latency_p99_ms for point in points),
        worst[-1] if worst else points[-1].state,
    )


def _most(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
