"""Offsets from which a round watches partitions that were quiet while it was prepared.

Reading thousands of log ends at the target takes most of a second, during which none of them would
be copied. So a round that is being prepared reads those of partitions with little traffic, and
watches these from there as soon as it begins.

I2  What the previous round may have copied since is not sent: if an answer holds a record from
    before the round's begin, the partition's end is read again.
I1  A record with a later timestamp is appended at the known end. If that is not the end any more,
    the target's sequence check refuses it, like late appends at any change of rounds.
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
"""Fewest partitions of a lane for this; the ends of fewer are read within milliseconds."""
ASK_S_PER_PARTITION = 0.4e-3
"""Twice what reading the ends took on a fully loaded machine."""


class ProvisionalPlaces:
    """The positions of a lane's quiet partitions shortly before its round began.

    Parameters
    ----------
    items
        Partitions of the lane.
    begin_at_ms
        When the round begins (wall clock): from then on no other round copies.
    """

    def __init__(self, items: Sequence[PartitionCopy], begin_at_ms: int) -> None:
        self._items = items
        self._begin_at_ms = begin_at_ms
        self._open: set[int] = set()
        self._was_asked = len(items) < PARTITIONS_MIN

    def is_due(self, to_wait_s: float) -> bool:
        """Return whether to ask now, with `to_wait_s` left; what moves meanwhile is read again."""
        return not self._was_asked and to_wait_s <= ASK_S_PER_PARTITION * len(self._items)

    def ask(self, network: Network, plans: Mapping[int, FetchPlan], now_ms: int) -> None:
        """Begin all quiet partitions whose position follows from the target's end alone."""
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
        """Return whether an answer shows that a provisional position may be outdated.

        The position is provisional until the first answer with news.
        """
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
    """Return whose ends a round reads first: the busy ones, if any; the others follow."""
    return [i for i in seekers if i in plans and plans[i].is_busy(i)] or seekers


def _is_plain(item: PartitionCopy) -> bool:
    spec = item.spec
    return spec.jump is None and not spec.truncated and not spec.fills
