"""One direction of a merged partition: which record of its source is which one at its target.

A record that crossed has three places: its source offset, its number among those that the link has
appended, and its target offset. The link's offset map leads from the first to the second; it is
durable before the records are sent. The third is looked up in the target's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from heliostat.names import Offset
from heliostat.offsets.offset_map import OffsetMap

START = Offset(0)


class Landed(Protocol):
    """Where a link's own records are at its target, see `LandedLog`."""

    @property
    def count(self) -> int:
        """How many have landed."""

    def before(self, offset: Offset) -> int:
        """Return how many landed before an offset; where a cleaner was, at most."""

    def surely_before(self, offset: Offset) -> int:
        """Return how many landed before an offset; where a cleaner was, at least."""

    def is_certain(self, offset: Offset) -> bool:
        """Whether both are equal."""

    def place_of(self, number: int) -> Offset:
        """Return where a record is, or the first that is left behind it; else the log's end."""

    def behind_run(self, offset: Offset) -> Offset:
        """Return the offset behind the run of own records in which an offset lies, or itself."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """What a link has carried of one partition.

    Parameters
    ----------
    sent
        Source offsets by number.
    landed
        Where they are.
    passed
        Source offset below which all that is the source's own has landed, as far as known.
    """

    sent: OffsetMap
    landed: Landed
    passed: Offset = START

    def at_target(self, source: int) -> Offset:
        """Return the target offset of the first own record not before a source offset.

        Of one that has not landed, the first at which it may land.
        """
        return self.landed.place_of(self.sent.target_of(source))

    def at_source(self, target: Offset) -> Offset:
        """Return the source offset of the first record that is not at the target before an offset.

        Behind the last one, the first at which the next may be.
        """
        passed = self.passed if self.landed.is_certain(target) else START
        known_from = min(self.sent.known_from, self.landed.before(target))
        number = max(self.landed.surely_before(target), known_from)
        if number < self.landed.count:
            return self._source_of(number)
        if 0 < number <= self.sent.known_from:  # all that has landed is gone, and its map
            return max(self.sent.source_of(number), passed)
        behind = self._source_of(number - 1, 1) if number else START
        return max(behind, passed)

    def _source_of(self, number: int, behind: int = 0) -> Offset:
        """Return the source offset of a record, or so many behind it.

        Where the source has lost it, the first that the source has instead: by then its map goes
        back (`Cause.SOURCE_TRUNCATED`).
        """
        found = self.sent.source_of(number) + behind
        following = next(self.sent.breaks(after=number), None)
        return Offset(found if following is None else min(found, following.source))

    def between(self, start: Offset, end: Offset) -> int:
        """Return how many own records landed at target offsets `[start, end)`, at least."""
        number = self.landed.surely_before(end) - self.landed.before(start)
        return max(0, number) if end > start else 0

    def before(self, source: int) -> int:
        """Return how many landed records are from before a source offset."""
        return min(self.sent.target_of(source), self.landed.count)
