"""Where a round watches partitions from that were quiet while it was prepared.

Asking where thousands of the target's logs end takes the better part of a second, during which none
of them would be copied. So a round asks for those in which little happens while it is prepared, and
watches them from there as soon as it begins.

I2  What the round before may have copied since is not sent: where an answer holds a record from
    before the beginning, the partition's end is read again.
I1  A record that claims to be newer is appended at the end that is known. Where that is not the
    end any more the target's sequence check refuses it, as it does what lands late at any change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.errors import BatchError
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.batch import read_header
from heliostat.records.copier.align import is_short
from heliostat.records.copier.fetch_plan import FetchPlan
from heliostat.records.copier.lane_copies import last_batches_of
from heliostat.records.copier.network import Fetched, LogRange, Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

PARTITIONS_MIN = 256
"""Of a lane; the ends of fewer are known within milliseconds."""
ASK_S_PER_PARTITION = 0.4e-3
"""Twice what asking took on a machine that was full."""


class ProvisionalPlaces:
    """The places of a lane's quiet partitions as they were shortly before its round began.

    Parameters
    ----------
    items
        The lane's partitions.
    begin_at_ms
        When the round begins (wall clock): from then on nobody else copies.
    """

    def __init__(self, items: Sequence[PartitionCopy], begin_at_ms: int) -> None:
        self._items = items
        self._begin_at_ms = begin_at_ms
        self._open: set[int] = set()
        self._was_asked = len(items) < PARTITIONS_MIN

    def is_due(self, to_wait_s: float) -> bool:
        """Whether to ask now, with so much time left: what moves meanwhile is looked at again."""
        return not self._was_asked and to_wait_s <= ASK_S_PER_PARTITION * len(self._items)

    def ask(self, network: Network, plans: Mapping[int, FetchPlan], now_ms: int) -> None:
        """Begin with all quiet partitions whose place follows from the target's end alone."""
        self._was_asked = True
        quiet = [
            item.index
            for item in self._items
            if item.index in plans and not plans[item.index].is_busy(item.index) and _is_plain(item)
        ]
        maps = network.offset_maps(quiet)
        if isinstance(maps, Exception):
            return
        exact = [index for index in quiet if maps[index].is_identity]
        ranges = network.target_ranges(exact)
        tails, unread = last_batches_of(network, ranges, self._items)
        for index, found in ranges.items():
            item = self._items[index]
            if not isinstance(found, LogRange) or index in unread:
                continue
            tail = tails.get(index)
            if not is_short(item.spec, found) and item.why_not_from(found, tail) is None:
                item.begin_at(found, tail, OffsetMap(), now_ms)
                if item.phase is Phase.COPY:
                    self._open.add(index)

    def must_look(self, event: Fetched) -> bool:
        """Whether an answer says what may not be so any more; after news its place is certain."""
        index = event.want.index
        is_news = event.end > event.start or event.error or event.diverging_epoch is not None
        if index not in self._open or not is_news:
            return False
        self._open.remove(index)
        if event.error or event.diverging_epoch is not None:
            return True
        try:
            header = read_header(event.buffer, event.start, event.end)
        except BatchError:
            return True
        return header is None or header.max_timestamp < self._begin_at_ms


def busy_first(seekers: list[int], plans: Mapping[int, FetchPlan]) -> list[int]:
    """Whose ends a round reads first: busy ones go on at once, the others right after them."""
    return [i for i in seekers if i in plans and plans[i].is_busy(i)] or seekers


def _is_plain(item: PartitionCopy) -> bool:
    spec = item.spec
    return spec.jump is None and not spec.truncated and not spec.fills
