"""What a simulated link has learnt of where its own records are, from answers and from the log.

The product learns the same in `own_log` (transport), and looks the rest up (`LandedLog`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from heliostat.merge.own_end import BatchPlace, own_batches
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap

START = Offset(0)


@dataclass(slots=True)
class OwnBook:
    """Own records of one partition."""

    landed: OffsetMap = field(default_factory=OffsetMap)
    """Target offsets by number."""
    count: int = 0
    """How many have landed, of which `landed` knows where."""
    complete_to: Offset = START
    """Target offset below which no own record is missing in `landed`."""

    def learn(self, number: int, records: int, offset: int) -> None:
        """Take where a batch has landed, by an answer.

        One that is known already says nothing new; one behind others whose places are not known
        waits for a look at the log.
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
        """Take all own batches of the target's log from `start`, below which all are known."""
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

    def landed_before(self, target: int) -> int:
        """Return how many have landed before a target offset."""
        return min(self.landed.target_of(target), self.count)
