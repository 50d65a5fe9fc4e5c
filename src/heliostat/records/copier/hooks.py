"""What a round of a lane reports to its driver and asks of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heliostat.records.copier.lane import NO_IDS, PlanChange, RoundReport, SchemaIds
from heliostat.records.copier.lane_limits import ByteLimits
from heliostat.records.copier.late_sends import NOT_WATCHED, LateSends


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of a round to its driver."""

    is_superseded: Callable[[], bool]
    """Returns whether another round, or a stop, ends this one; called often, must be quick."""
    is_report_due: Callable[[], bool]
    """Returns whether a report is due now; called often, must be quick."""
    publish: Callable[[RoundReport], None]
    """Takes a report of the round so far."""
    running: Callable[[], frozenset[str] | None] = lambda: None
    """Returns the rounds that may still send, None if not known; called often, must be quick."""
    answered: Callable[[], int] = lambda: 0
    """Returns the number of the newest report that the driver has answered; called often."""
    changes: Callable[[], Sequence[PlanChange]] = tuple
    """Returns changes of the plan, also those taken before; called often, must be quick."""
    late_sends: LateSends = NOT_WATCHED
    """Kills this process if it sends after its lease (I10)."""
    schema_ids: Callable[[], SchemaIds] = lambda: NO_IDS
    """Returns what the driver has announced of schema ids; called often, must be quick."""
    limits: Callable[[], ByteLimits | None] = lambda: None
    """Returns the limits as announced last, the same object while they are; None: not known."""
