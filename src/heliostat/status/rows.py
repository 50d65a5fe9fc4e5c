"""The last report of each partition; a newer round's replaces an older one's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from heliostat.names import LaneId
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.records.transport.progress_reports import MOVED_EVERY_S

OVERRULES_FOR_S = 60.0
"""Longer than rounds overlap, and than a partition goes unreported."""
RATE_S = 30.0
"""The rate of a partition that lanes receive is an average over about this time."""
RoundId = tuple[int, int]
"""Generation and number of a round: later ones are larger, over all lanes of a link."""
STARTING_STATES = (PartitionState.STARTING, PartitionState.COPYING)
"""States of a round that may not know its position or the source's end yet."""


@dataclass(slots=True)
class PartitionRow:
    """The last report of a partition."""

    lane: LaneId
    plan: int
    """Generation of the plan under which it was last reported: later plans have larger ones, over
    all lanes of a link."""
    at_ms: int
    report: PartitionReport
    reported_in: int
    """The generation of `report`; the newer `plan` may have no figures yet."""
    left_ms: int = 0
    """Since when its lane has not had it any more (wall ms); 0: it has it."""
    starting_ms: int = 0
    """When a newer round began to determine its position (wall ms); 0: it is known."""
    counted: dict[RoundId, tuple[int, int]] = field(default_factory=dict)
    """Records and bytes reported so far of the newest two rounds."""
    rate: float = 0.0
    """Records a second, as of `rated_ms`."""
    rated_ms: int = 0
    has_stood: bool = False
    """Whether its position is the same as in the report before."""

    def replace(self, lane: LaneId, plan: int, item: PartitionReport, at_ms: int) -> None:
        """Take a newer report, but keep the figures while a new round has no position yet."""
        # Copying begins before the source's end is known, which comes with the first answer.
        is_starting = not item.is_known and item.state in STARTING_STATES
        if is_starting and self.report.position >= 0:
            self.starting_ms = self.starting_ms or item.since_ms
        else:
            self.starting_ms = 0
            self.has_stood = 0 <= self.report.position == item.position
            self.report, self.reported_in = item, plan
        self.lane, self.plan, self.at_ms = lane, plan, at_ms
        self.left_ms = 0

    def count(self, records: int, at_ms: int) -> None:
        """Add records to the rate."""
        passed_s = max(0.0, (at_ms - self.rated_ms) / 1000)
        self.rate = self.rate * math.exp(-passed_s / RATE_S) + records / RATE_S
        self.rated_ms = max(self.rated_ms, at_ms)

    def holds_until_ms(self, now_ms: int, newest_ms: int) -> int:
        """Return when the record that it reports as missing was missing last, as far as is known.

        A record is on its way whenever a report is made. It may have arrived since, unless the
        position stood still, or the lane, whose newest report is of `newest_ms`, has had the time
        to report another one.
        """
        stands = self.has_stood or newest_ms - self.at_ms >= MOVED_EVERY_S * 1000
        return now_ms if stands else self.at_ms

    def rate_now(self, now_ms: int) -> float:
        """Return records a second, assuming that nothing was copied since the last count."""
        return self.rate * math.exp(-max(0, now_ms - self.rated_ms) / 1000 / RATE_S)


def is_old(was_ms: int, now_ms: int) -> bool:
    """Whether a report is too old to outrank a later one: generations may have restarted."""
    return now_ms - was_ms > OVERRULES_FOR_S * 1000
