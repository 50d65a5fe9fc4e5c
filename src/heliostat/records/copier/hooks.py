"""What a round of a lane reports to its driver and asks of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.late_sends import NOT_WATCHED, LateSends


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of a round to its driver."""

    is_superseded: Callable[[], bool]
    """Returns whether a newer plan, or a stop, ends this round; called often, must be quick."""
    is_report_due: Callable[[], bool]
    """Returns whether a report is due now; called often, must be quick."""
    publish: Callable[[RoundReport], None]
    """Takes a report of the round so far."""
    running: Callable[[], frozenset[str] | None] = lambda: None
    """Returns the rounds that still run, None if not known; called often, must be quick."""
    switch_at_ms: Callable[[], int | None] = lambda: None
    """Returns when a newer plan ends this round (wall clock); called often, must be quick."""
    late_sends: LateSends = NOT_WATCHED
    """Kills this process if it sends after its deadline (I10)."""
