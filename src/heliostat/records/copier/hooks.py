"""What a round of a lane tells its driver and asks of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.late_sends import NOT_WATCHED, LateSends


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a round tells and asks besides copying."""

    is_superseded: Callable[[], bool]
    """Whether a newer plan, or a stop, ends this round; called often, must be quick."""
    is_report_due: Callable[[], bool]
    """Whether a report is wanted now; called often, must be quick."""
    publish: Callable[[RoundReport], None]
    """Takes a report of the round so far."""
    running: Callable[[], frozenset[str] | None] = lambda: None
    """Rounds that still run, as far as is known; called often, must be quick."""
    switch_at_ms: Callable[[], int | None] = lambda: None
    """When this round must end for a newer plan (wall clock); called often, must be quick."""
    late_sends: LateSends = NOT_WATCHED
    """Ends this process where it sends past its time (I10)."""
