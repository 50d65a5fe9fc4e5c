"""Where partitions begin: at the ends of the target's logs.

I2  The target's end is read before a partition's map, so that the map covers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from heliostat.records.copier.append_schedule import AppendSchedule
from heliostat.records.copier.doubts import settle_doubts
from heliostat.records.copier.lane_copies import last_batches_of, target_ranges_of
from heliostat.records.copier.lane_leaders import LaneLeaders
from heliostat.records.copier.network import LogRange, Network
from heliostat.records.copier.partition_copy import PartitionCopy


class Beginnings:
    """Asks what partitions of a lane must know before they copy.

    Parameters
    ----------
    partitions, network, leaders, appends
        Partitions, network, leaders and appends of the lane.
    report
        Reports if that is due; called between questions, each of which may take seconds.
    kept
        Columns that a pipeline of the lane changes in no record, by its name.
    """

    def __init__(  # noqa: PLR0917 - the parts of a lane
        self,
        partitions: Sequence[PartitionCopy],
        network: Network,
        leaders: LaneLeaders,
        appends: AppendSchedule,
        report: Callable[[], None],
        kept: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._partitions = partitions
        self._network = network
        self._leaders = leaders
        self._appends = appends
        self._report = report
        self._kept = kept

    def begin(self, seekers: list[int], now_s: float, now_ms: int) -> None:
        """Begin at the ends of the target's logs."""
        ranges = target_ranges_of(self._network, seekers, self._partitions)
        self._report()
        tails, unread = last_batches_of(self._network, ranges, self._partitions)
        self._report()
        maps = self._network.offset_maps(seekers)  # after the ends: they cover these (I2)
        self._report()
        unread |= settle_doubts(
            self._network, ranges, tails, maps, self._partitions, kept=self._kept
        )
        for index, target in ranges.items():
            item = self._partitions[index]
            problem = target if isinstance(target, Exception) else maps
            if isinstance(problem, Exception):
                item.find_end_failed(problem, now_s, now_ms)
                self._leaders.may_be_others()
            elif index in unread:
                item.standing.last_batch_unread(now_s, now_ms)
            elif isinstance(target, LogRange):
                item.begin(target, tails.get(index), problem[index], now_ms, now_s=now_s)
                self._appends.mark(item)
