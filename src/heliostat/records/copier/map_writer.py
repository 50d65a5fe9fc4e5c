"""Makes new breaks of a lane's offset maps durable, for all partitions together (I3).

I4  A row that was sent and is not known to be durable may become so at any time, and would replace
    rows read since. It is written again, and its mirror's end is not read before that is done.
I10 While earlier rounds may still send, nothing is written for their partitions: what one of them
    appends last may differ from what this one has read, if the source was compacted in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from heliostat.records.copier.network import MapLost, MapWrite, MapWritten, Network
from heliostat.records.copier.partition_copy import PartitionCopy


class MapWriter:
    """Writes the map rows of one lane.

    Parameters
    ----------
    partitions
        Partitions of the lane, by index.
    network
        Connections to both clusters.
    """

    def __init__(self, partitions: Sequence[PartitionCopy], network: Network) -> None:
        self._partitions = partitions
        self._network = network
        self._waiting: dict[int, PartitionCopy] = {}
        self._unanswered: dict[int, MapWrite] = {}
        """Rows that were sent and are not known to be durable; if no request is in flight, lost."""
        self.is_under_way = False
        """Whether a request with rows is in flight: neither answered nor given up."""

    @property
    def has_any(self) -> bool:
        """Whether rows wait to be sent, or to be sent again."""
        return bool(self._waiting or self._unanswered)

    def note(self, item: PartitionCopy) -> None:
        """Note a partition whose map may need a write, as after a fetch."""
        if item.map.needs_write:
            self._waiting[item.index] = item

    def write(self, may_write: Callable[[], bool]) -> None:
        """Send waiting rows, unless a request is in flight or the round has ended (I10)."""
        if not self.has_any or not self._network.can_write_map() or not may_write():
            return
        writes = list(self._unanswered.values())
        for index, item in list(self._waiting.items()):
            if index in self._unanswered or item.appends.holds_old:
                continue
            # A partition that reads its end again (its queue is empty) gets no longer row: a lost
            # one with the same stamp may land late, and would replace it.
            row = item.map.row_to_write() if item.appends.queue else None
            if row is None:
                del self._waiting[index]
            else:
                writes.append(MapWrite(index, item.attempt, row))
        if not writes:
            return
        sent = self._network.write_map(writes)
        self.is_under_way = True
        for write in sent:
            self._unanswered[write.index] = write
            self._partitions[write.index].has_row_under_way = True
        for later in writes[len(sent) :]:
            if later.index not in self._unanswered:
                self._partitions[later.index].map.not_written()

    def release(self, items: Iterable[PartitionCopy], now_ms: int) -> None:
        """Allow writing for these, as earlier rounds have ended; those that wait look again."""
        for item in items:
            if self._waiting.pop(item.index, None) is not None:
                item.look_again(now_ms)

    def take(self, event: MapWritten | MapLost, now_s: float, now_ms: int) -> list[PartitionCopy]:
        """Process an answer; return the partitions that may continue."""
        self.is_under_way = False
        found: list[PartitionCopy] = []
        for write in event.writes:
            item = self._partitions[write.index]
            if isinstance(event, MapWritten):
                self._unanswered.pop(write.index, None)
                item.has_row_under_way = False
            if write.attempt != item.attempt:
                continue
            if isinstance(event, MapLost):
                item.map_lost(event.reason, now_s, now_ms)
            else:
                item.map.written(write.row)
            found.append(item)
        return found
