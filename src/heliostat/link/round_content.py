"""What a round is told of its partitions, as of when it begins or takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from heliostat.link.pipeline_faults import PipelineFaults
from heliostat.names import LaneId, TopicPartition
from heliostat.offsets.offset_map import MapTail
from heliostat.records.copier.blame import Blame
from heliostat.records.copier.lane import LaneSpec, PartitionSpec, TakenPartition
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits
from heliostat.records.copier.merged_lane import MergedLane

CopiedRows = tuple[tuple[int, int, int, int], ...]
"""See `LaneSpec.copied`."""
MapsOf = Callable[
    [Sequence[PartitionSpec], CopiedRows], tuple[tuple[tuple[int, MapTail], ...], int, str]
]
CopiedRowsOf = Callable[[Sequence[PartitionSpec]], CopiedRows]
Rates = Callable[[Sequence[PartitionSpec]], tuple[tuple[int, float], ...]]
MergedOf = Callable[[Sequence[PartitionSpec]], MergedLane | None]
"""Returns `LaneSpec.merged`."""


class Contents:
    """Makes the `LaneSpec` of each round, and describes what running rounds take.

    Parameters
    ----------
    template
        A `LaneSpec` with all that lanes have in common.
    maps, copied, rates, faults, merged
        See `LaneSet`.
    """

    def __init__(
        self,
        template: LaneSpec,
        maps: MapsOf,
        copied: CopiedRowsOf,
        rates: Rates,
        faults: PipelineFaults | None = None,
        *,
        merged: MergedOf = lambda _: None,
    ) -> None:
        self._template = template
        self._faults = faults or PipelineFaults({}, {})
        self._maps = maps
        self._copied = copied
        self._rates = rates
        self._merged = merged

    def round_of(
        self,
        lane: LaneId,
        generation: int,
        number: int,
        specs: tuple[PartitionSpec, ...],
        *,
        waits_for: tuple[str, ...],
        may_land_s: float,
        limits: ByteLimits = NO_LIMITS,
    ) -> LaneSpec:
        """Return the `LaneSpec` of a lane's next round."""
        copied = self._copied(specs)
        maps, maps_from, maps_topic_id = self._maps(specs, copied)
        return replace(
            self._template,
            lane=lane,
            generation=generation,
            round_number=number,
            partitions=specs,
            maps=maps,
            maps_from=maps_from,
            maps_topic_id=maps_topic_id,
            copied=copied,
            rates=self._rates(specs),
            pipeline=self._faults.lane_pipeline({each.pipeline for each in specs} - {""}),
            careful=self._faults.careful(lane),
            waits_for=waits_for,
            may_land_s=may_land_s,
            limits=limits,
            merged=self._merged(specs),
        )

    def failed(self, spec: LaneSpec, blame: Blame, error: str) -> bool:
        """See `PipelineFaults.failed`."""
        return self._faults.failed(spec, blame, error)

    def is_outdated(self, spec: LaneSpec) -> bool:
        """Whether the pipeline of a round has changed since, as more schemas are known."""
        return spec.pipeline is not None and self._faults.has_changed(spec.pipeline)

    def maps_topic_id(self) -> str:
        """Return the id of the maps' topic as the driver knows it; empty: not known."""
        return self._maps((), ())[2]

    def taken(
        self, specs: Sequence[PartitionSpec], had: Mapping[TopicPartition, PartitionSpec]
    ) -> tuple[TakenPartition, ...] | None:
        """Describe partitions that a running round takes; None if it doesn't know enough of one.

        A round has all rows of maps since it began, and those before of the mirrors that it `had`.
        What is noted of merged ones only a new round is told.
        """
        if any(spec.merged_from is not None for spec in specs):
            return None
        rows = self._copied(specs)
        maps, _, _ = self._maps(specs, rows)
        mapped = {specs[index].source for index, _ in maps}
        if not all(_knows_map(had.get(spec.source), spec, spec.source in mapped) for spec in specs):
            return None
        copied = {index: (offset, epoch, end) for index, offset, epoch, end in rows}
        rates = dict(self._rates(specs))
        return tuple(
            TakenPartition(spec, copied.get(index), rates.get(index, 0.0))
            for index, spec in enumerate(specs)
        )


def _knows_map(had: PartitionSpec | None, spec: PartitionSpec, is_mapped: bool) -> bool:
    """Return whether a round that has, or has not, a partition knows its mirror's offset map.

    One that was lost may have been rebuilt: what the round has read of it holds no more.
    """
    if had is not None and had.map_lost and not spec.map_lost:
        return False
    if not is_mapped:
        return True
    mirror = spec.target, spec.target_topic_id
    return had is not None and (had.target, had.target_topic_id) == mirror
