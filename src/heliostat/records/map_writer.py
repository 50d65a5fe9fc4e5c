"""Makes breaks of a lane's offset maps durable, those of all partitions together (I3).

I10 While rounds before this one may still send, nothing is written: what one of them appends last
    may be other than what this one has read since, if the source was compacted in between.
"""

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
    is_held
        Whether rounds before this one have not ended yet.
    """

    def __init__(
        self, partitions: Sequence[PartitionCopy], network: Network, *, is_held: bool
    ) -> None:
        self._partitions = partitions
        self._network = network
        self._is_held = is_held
        self._waiting: dict[int, PartitionCopy] = {}

    def note(self, item: PartitionCopy) -> None:
        """Take note of a partition that was just fetched."""
        if item.map.needs_write:
            self._waiting[item.index] = item

    def write(self, may_write: Callable[[], bool]) -> None:
        """Send what waits, unless something is under way, or the round has ended (I10)."""
        if not self._waiting or self._is_held:
            return
        if not self._network.can_write_map() or not may_write():
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

    def release(self, now_ms: int) -> None:
        """The rounds before have ended: look anew where they left the partitions that wait."""
        self._is_held = False
        for item in self._waiting.values():
            item.look_again(now_ms)
        self._waiting.clear()

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
