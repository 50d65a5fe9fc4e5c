"""The `LaneSpec` of a round: what its task must know, as of when the round is given out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from heliostat.link.lane_schedule import Lane, RoundTimes
from heliostat.offsets.offset_map import MapTail
from heliostat.records.copier.lane import LaneSpec, PartitionSpec

CopiedRows = tuple[tuple[int, int, int, int], ...]
"""See `LaneSpec.copied`."""
MapsOf = Callable[
    [Sequence[PartitionSpec], CopiedRows], tuple[tuple[tuple[int, MapTail], ...], int, str]
]
CopiedRowsOf = Callable[[Sequence[PartitionSpec]], CopiedRows]
Rates = Callable[[Sequence[PartitionSpec]], tuple[tuple[int, float], ...]]


class RoundSpecs:
    """Makes the `LaneSpec` of each round.

    Parameters
    ----------
    template
        A `LaneSpec` with all that lanes have in common.
    maps, copied, rates
        See `LaneSet`.
    """

    def __init__(
        self, template: LaneSpec, maps: MapsOf, copied: CopiedRowsOf, rates: Rates
    ) -> None:
        self._template = template
        self._maps = maps
        self._copied = copied
        self._rates = rates

    def spec(self, lane: Lane, times: RoundTimes) -> LaneSpec:
        """Return the `LaneSpec` of a lane's next round."""
        copied = self._copied(lane.partitions)
        maps, maps_from, maps_topic_id = self._maps(lane.partitions, copied)
        return replace(
            self._template,
            lane=lane.health.lane,
            generation=lane.generation,
            round_number=lane.numbers,
            partitions=lane.partitions,
            maps=maps,
            maps_from=maps_from,
            maps_topic_id=maps_topic_id,
            copied=copied,
            rates=self._rates(lane.partitions),
            round_s=times.lasts_s,
            begin_at_ms=times.begins_ms,
            expires_at_ms=times.begins_ms + int(times.lasts_s * 1000),
            waits_for=tuple(item.spec.round_id for item in times.before),
            may_land_s=times.lands_s,
        )
