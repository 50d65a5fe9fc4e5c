"""Makes breaks of a lane's offset maps durable, those of all partitions together (I3).

I4  A row that was sent and is not known to be durable may become so at any time, and would replace
    what was read since. It is written again, and its mirror's end is not read before that is done.
I10 While rounds before this one may still send, nothing is written: what one of them appends last
    may be other than what this one has read since, if the source was compacted in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliostat.records.copier.network import MapLost, MapWrite, MapWritten, Network
from heliostat.records.copier.partition_copy import PartitionCopy


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
        self._unanswered: dict[int, MapWrite] = {}
        """Rows that were sent and are not known to be durable; while nothing is under way, lost."""
        self.is_under_way = False
        """Whether a request with rows has neither an answer yet nor is given up."""

    def note(self, item: PartitionCopy) -> None:
        """Take note of a partition that was just fetched."""
        if item.map.needs_write:
            self._waiting[item.index] = item

    def write(self, may_write: Callable[[], bool]) -> None:
        """Send what waits, unless something is under way, or the round has ended (I10)."""
        if not (self._waiting or self._unanswered) or self._is_held:
            return
        if not self._network.can_write_map() or not may_write():
            return
        writes = list(self._unanswered.values())
        for index, item in list(self._waiting.items()):
            if index in self._unanswered:
                continue
            # Of a partition that looks anew no row gets longer: one of its stamp that was lost may
            # land late, and would replace it.
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

    def release(self, now_ms: int) -> None:
        """The rounds before have ended: look anew where they left the partitions that wait."""
        self._is_held = False
        for item in self._waiting.values():
            item.look_again(now_ms)
        self._waiting.clear()

    def take(self, event: MapWritten | MapLost, now_s: float, now_ms: int) -> list[PartitionCopy]:
        """Take an answer; the partitions that may go on."""
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
