"""How long a link that catches up needs until it is level, by its lag a little earlier."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0
"""The pace is that of about this time."""
LEAST_S = 5.0
"""Shorter observations give no pace: reports come by the second."""


class CatchUp:
    """Observes the lag of a link in records."""

    def __init__(self) -> None:
        self._lags: deque[tuple[float, int]] = deque()

    def observe(self, now_s: float, lag_records: int | None) -> None:
        """Take the lag at `now_s`; None, for an unknown one, begins anew."""
        if lag_records is None:
            self._lags.clear()
            return
        self._lags.append((now_s, lag_records))
        while self._lags[0][0] < now_s - WINDOW_S:
            self._lags.popleft()

    def level_in_s(self) -> float | None:
        """Return the seconds until nothing lags at this pace; None: not known, or never."""
        if not self._lags:
            return None
        (first_s, first), (last_s, last) = self._lags[0], self._lags[-1]
        if last_s - first_s < LEAST_S or last >= first:
            return None
        return last * (last_s - first_s) / (first - last)
