"""A warning is told once, not in each turn for as long as its reason holds."""

from __future__ import annotations

from heliostat.ops.events import Events


class WarnOnce:
    """Tells a warning when its reason is new.

    Parameters
    ----------
    events
        Where warnings are told.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._reasons: dict[str, str] = {}

    def warn(self, what: str, why: str) -> None:
        """Say why something is not as it should be, unless that was said last of it."""
        if self._reasons.get(what) != why:
            self._reasons[what] = why
            self._events.warn(f"{what}: {why}")
