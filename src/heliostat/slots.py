"""Which partitions of a target topic belong to a link, if several links fill the topic.

Each source has partitions of its own there: of `of` links, the one with slot `number` copies the
source's partition p to the target's partition p x of + number. So each target partition still has
one writer (I10) and the offsets of one source (I2), the partition number shows which source a
record is from, and a source may get more partitions without colliding with another's.
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
        Number of the slot, from 0.
    of
        How many links share the topic.
    """

    number: int = 0
    of: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether other links write into the topic."""
        return self.of > 1

    @property
    def leads(self) -> bool:
        """Whether the topic's settings follow this link's source: true for one link only."""
        return self.number == 0

    def target_partition(self, source: PartitionId) -> PartitionId:
        """Target partition to which a source partition is copied."""
        return PartitionId(source * self.of + self.number)

    def source_partition(self, target: PartitionId) -> PartitionId | None:
        """Source partition that is copied there; None if the partition is another link's."""
        number, slot = divmod(target, self.of)
        return PartitionId(number) if slot == self.number else None

    def target_partitions(self, source: int) -> int:
        """How many partitions the target topic needs for `source` partitions of the source."""
        return source * self.of

    def is_beside(self, other: Slot) -> bool:
        """Whether links with these slots can share a topic: no partition is in both slots."""
        return self.of == other.of and self.number != other.number


WHOLE_TOPIC = Slot()
