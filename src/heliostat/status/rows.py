"""What was last reported of each partition; a newer round's word replaces an older one's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from heliostat.names import LaneId
from heliostat.records.copier.lane import PartitionReport, PartitionState

OVERRULES_FOR_S = 60.0
"""Longer than rounds overlap, and than a partition is left unnamed."""
RATE_S = 30.0
"""What lanes are told of a partition's rate is an average over about so long."""
Round = tuple[int, int]
"""Generation and number of a round: later ones are larger, over all lanes of a link."""
NO_ROUND: Round = (-1, -1)
STARTING_STATES = (PartitionState.STARTING, PartitionState.COPYING)
"""Of a round that does not know yet how far it is, or how far the source."""


@dataclass(slots=True)
class Row:
    """What was last reported of a partition."""

    lane: LaneId
    round: Round
    at_ms: int
    report: PartitionReport
    reported_in: Round
    """The round that `report` is of; `round` may have nothing to say yet."""
    starting_ms: int = 0
    """When a newer round began to look where it stands; 0: it knows."""
    counted: dict[Round, tuple[int, int]] = field(default_factory=dict)
    """Records and bytes reported so far of the newest two rounds."""
    rate: float = 0.0
    """Records a second, as of `rated_ms`."""
    rated_ms: int = 0
    has_all_to_ms: int = -1
    """What is missing is not older, as far as reports tell (-1: they don't)."""

    def __post_init__(self) -> None:
        self.has_all_to_ms = _has_all_to_ms(self.report, self.at_ms)

    def replace(self, lane: LaneId, its_round: Round, item: PartitionReport, at_ms: int) -> None:
        """Take a newer word; figures stay while a new round does not know where it stands."""
        # Copying begins before the source has said where it ends: with the first answer.
        is_starting = not item.is_known and item.state in STARTING_STATES
        if is_starting and self.report.position >= 0:
            self.starting_ms = self.starting_ms or item.since_ms
        else:
            self.starting_ms = 0
            was_ms = self.has_all_to_ms if item.position >= self.report.position else -1
            self.has_all_to_ms = max(was_ms, _has_all_to_ms(item, at_ms))
            self.report, self.reported_in = item, its_round
        self.lane, self.round, self.at_ms = lane, its_round, at_ms

    def count(self, records: int, at_ms: int) -> None:
        """Take so many more records into the rate."""
        passed_s = max(0.0, (at_ms - self.rated_ms) / 1000)
        self.rate = self.rate * math.exp(-passed_s / RATE_S) + records / RATE_S
        self.rated_ms = max(self.rated_ms, at_ms)

    def rate_now(self, now_ms: int) -> float:
        """Records a second, were nothing copied since it was last counted."""
        return self.rate * math.exp(-max(0, now_ms - self.rated_ms) / 1000 / RATE_S)


def is_old(was_ms: int, now_ms: int) -> bool:
    """Whether what was reported then is too old to overrule anything: generations began anew."""
    return now_ms - was_ms > OVERRULES_FOR_S * 1000


def missing_records(item: PartitionReport) -> int:
    """How many records are missing that could be copied; 0 while that is not known."""
    if not item.is_known:
        return 0
    return max(0, item.high_watermark - item.open_records - item.position)


def age_of_missing_s(row: Row, lag: int, now_ms: int) -> float | None:
    """Age of the oldest record that is missing, or somewhat more; None: not known.

    Where nothing is copied its time was looked up. Else it is younger than the last copied record,
    and than the moment at which nothing was missing; of a later round that has copied nothing yet
    those of earlier ones count.
    """
    item = row.report
    if lag == 0:
        return 0.0 if item.is_known else None
    seen_ms = item.missing_ms if item.missing_ms >= 0 else row.has_all_to_ms
    return max(0.0, (now_ms - seen_ms) / 1000) if seen_ms >= 0 else None


def _has_all_to_ms(item: PartitionReport, at_ms: int) -> int:
    # A producer may give records a time that is yet to come: that tells no age.
    last_ms = item.last_timestamp_ms if item.last_timestamp_ms <= at_ms else -1
    return max(last_ms, item.caught_up_ms)
