"""One direction of a merged partition: which record of its source is which one at its target.

A record that crossed has three places: its source offset, its number among those that the link has
appended, and its target offset. Two offset maps lead from one to the next. The first is durable
before the records are sent; the second is learnt when they have landed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from heliostat.merge.own_end import BatchPlace, own_batches
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap

START = Offset(0)


@dataclass(slots=True)
class Crossing:
    """What a link has carried of one partition."""

    sent: OffsetMap = field(default_factory=OffsetMap)
    """Source offsets by number."""
    landed: OffsetMap = field(default_factory=OffsetMap)
    """Target offsets by number."""
    count: int = 0
    """How many have landed, of which `landed` knows where."""
    complete_to: Offset = START
    """Target offset below which no own record is missing in `landed`."""
    passed: Offset = START
    """Source offset below which all that is the source's own has landed."""

    def learn(self, number: int, records: int, offset: int) -> None:
        """Take where a batch has landed, by an answer.

        One that is known already says nothing new; one behind others whose places are not known
        waits for a look at the log.

        Parameters
        ----------
        number, records
            The number of its first record, and how many it has.
        offset
            Target offset of its first record.
        """
        if number == self.count:
            self._take(number, records, offset)

    def _take(self, number: int, records: int, offset: int) -> None:
        if self.landed.source_of(number) != offset:
            self.landed.add(Break(number, offset))
        self.count = number + records
        self.complete_to = max(self.complete_to, Offset(offset + records))

    def learn_log(
        self, log: Iterable[BatchPlace], own: Collection[int], start: int, end: int
    ) -> None:
        """Take all own batches of a stretch of the target's log that ends at `end`.

        Parameters
        ----------
        log
            All its batches.
        own
            All producer ids of the link.
        start, end
            It begins where all own records are known (`complete_to`), or at the log's start.
        """
        for number, batch in own_batches(log, own, self.count):
            if number >= self.count:
                self._take(number, batch.next_offset - batch.offset, batch.offset)
        if start <= self.complete_to:
            self.complete_to = max(self.complete_to, Offset(end))

    def cut(self, end: int) -> None:
        """Forget what an election took from the target, from an offset on."""
        self.count = self.landed_before(end)
        self.landed.truncate(self.count)
        self.complete_to = min(self.complete_to, Offset(end))

    def at_target(self, source: int) -> Offset:
        """Return the target offset of the first own record not before a source offset.

        Of one that has not landed, the first at which it may land.
        """
        number = self.sent.target_of(source)
        return self.landed.source_of(number) if number < self.count else self.complete_to

    def at_source(self, target: int) -> Offset:
        """Return the source offset of the first record that is not at the target before an offset.

        Behind the last one, the first at which the next may be.
        """
        number = min(self.landed.target_of(target), self.count)
        if number < self.count:
            return self.sent.source_of(number)
        behind = self.sent.source_of(number - 1) + 1 if number else 0
        return max(Offset(behind), self.passed)

    def behind_run(self, target: int) -> Offset:
        """Return the target offset behind the run of own records in which an offset lies.

        The offset itself, if the record there is none of them.
        """
        number = self.landed.target_of(target)
        if number >= self.count or self.landed.source_of(number) != target:
            return Offset(target)
        following = next(self.landed.breaks(after=number), None)
        stop = self.count if following is None else min(self.count, following.target)
        return Offset(target + stop - number)

    def between(self, start: int, end: int) -> int:
        """Return how many own records have landed at target offsets `[start, end)`."""
        first, last = (min(self.landed.target_of(at), self.count) for at in (start, end))
        return max(0, last - first)

    def before(self, source: int) -> int:
        """Return how many landed records are from before a source offset."""
        return min(self.sent.target_of(source), self.count)

    def landed_before(self, target: int) -> int:
        """Return how many have landed before a target offset."""
        return min(self.landed.target_of(target), self.count)
