"""What rounds were told last of each partition, and since which plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliostat.names import LaneId, TopicPartition
from heliostat.records.copier.lane import PartitionSpec

NOTHING: tuple[PartitionSpec | None, int] = None, 0
Wanted = Mapping[TopicPartition, PartitionSpec]
"""By source partition."""


class ToldSpecs:
    """The last specification of each partition that some round was told. Not thread-safe."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, tuple[PartitionSpec, int]] = {}

    def tell(self, specs: Iterable[PartitionSpec], generation: int) -> None:
        """Note that rounds are told these with the plan of that generation."""
        for spec in specs:
            if self._told.get(spec.source, NOTHING)[0] != spec:
                self._told[spec.source] = spec, generation

    def known_since(self, wanted: Wanted) -> dict[TopicPartition, int]:
        """Return since which generation rounds know what is wanted, for those that were told."""
        return {
            source: self._told[source][1]
            for source, spec in wanted.items()
            if self._told.get(source, NOTHING)[0] == spec
        }

    def lanes_since(self, lanes: Mapping[LaneId, Wanted]) -> dict[LaneId, int]:
        """Return since which generation each lane knows all that is wanted of it, if it does."""
        found: dict[LaneId, int] = {}
        for number, wanted in lanes.items():
            known = self.known_since(wanted)
            if wanted and len(known) == len(wanted):
                found[number] = max(known.values())
        return found
