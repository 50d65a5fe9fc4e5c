"""Makes breaks of a lane's offset maps durable, those of all partitions together (I3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliostat.records.network import MapLost, MapWrite, MapWritten, Network
from heliostat.records.partition_copy import PartitionCopy


class MapWriter:
    """Rows that wait to be written.

    Parameters
    ----------
    partitions
        The lane's.
    network
        Both clusters.
    """

    def __init__(self, partitions: Sequence[PartitionCopy], network: Network) -> None:
        self._partitions = partitions
        self._network = network
        self._waiting: dict[int, PartitionCopy] = {}

    def note(self, item: PartitionCopy) -> None:
        """Take note of a partition that was just fetched."""
        if item.map.needs_write:
            self._waiting[item.index] = item

    def write(self, may_write: Callable[[], bool]) -> None:
        """Send what waits, unless something is under way, or the round has ended (I10)."""
        if not self._waiting or not self._network.can_write_map() or not may_write():
            return
        writes: list[MapWrite] = []
        for index, item in list(self._waiting.items()):
            row = item.map.row_to_write()
            if row is None:
                del self._waiting[index]
            else:
                writes.append(MapWrite(index, item.attempt, row))
        if writes:
            for later in writes[len(self._network.write_map(writes)) :]:
                self._partitions[later.index].map.not_written()

    def take(self, event: MapWritten | MapLost, now_s: float, now_ms: int) -> list[PartitionCopy]:
        """Take an answer; the partitions that may go on."""
        found: list[PartitionCopy] = []
        for write in event.writes:
            item = self._partitions[write.index]
            if write.attempt != item.attempt:
                continue
            if isinstance(event, MapLost):
                item.map_lost(event.reason, now_s, now_ms)
            else:
                item.map.written(write.row)
            found.append(item)
        return found
