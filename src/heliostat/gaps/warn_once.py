"""Logs a warning once, not in each reconciliation for as long as its reason holds."""

from __future__ import annotations

from heliostat.ops.events import Events


class WarnOnce:
    """Logs a warning when its reason is new.

    Parameters
    ----------
    events
        Where warnings are logged.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._reasons: dict[str, str] = {}

    def warn(self, what: str, why: str) -> None:
        """Log what is wrong with something, unless that was its last warning."""
        if self._reasons.get(what) != why:
            self._reasons[what] = why
            self._events.warn(f"{what}: {why}")
