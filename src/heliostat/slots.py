"""Which partitions of a target topic are one link's, where several links fill the topic together.

Each source has partitions of its own there: of `of` links, the one with slot `number` keeps the
source's partition p in the target's partition p x of + number. So each target partition still has
one writer (I10) and the offsets of one source (I2), a partition says which source a record is
from, and each source may grow without getting into another's way.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.names import PartitionId


@dataclass(frozen=True, slots=True)
class Slot:
    """One link's share of a target topic's partitions; by default all of them.

    Parameters
    ----------
    number
        Which one, from 0.
    of
        How many share the topic.
    """

    number: int = 0
    of: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether other links write into the topic."""
        return self.of > 1

    @property
    def leads(self) -> bool:
        """Whether the topic's settings follow this link's source: of one link's only."""
        return self.number == 0

    def target_partition(self, source: PartitionId) -> PartitionId:
        """Where a partition of the source is kept."""
        return PartitionId(source * self.of + self.number)

    def source_partition(self, target: PartitionId) -> PartitionId | None:
        """Which partition of the source is kept there; None where it is another link's."""
        number, slot = divmod(target, self.of)
        return PartitionId(number) if slot == self.number else None

    def target_partitions(self, source: int) -> int:
        """How many partitions the target topic needs for so many of the source."""
        return source * self.of

    def is_beside(self, other: Slot) -> bool:
        """Whether both can be links of one topic: no partition is of both."""
        return self.of == other.of and self.number != other.number


WHOLE_TOPIC = Slot()
