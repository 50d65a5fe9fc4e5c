"""What group fetches ask for: most partitions of a group want the same as the last time.

Asking each partition again for every fetch took a third of a lane's processor time with 1,200 busy
partitions. What is remembered here may be out of date for `ANEW_EVERY_S`, which costs one useless
fetch: `Copier` recognises the answer by its attempt and offset, and drops it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heliostat.records.copier.network import ChannelKey, Want
from heliostat.records.copier.partition_copy import PartitionCopy

ANEW_EVERY_S = 1.0
"""Pause after which all partitions are asked again. Those that wanted nothing, as one whose retry
is due later, are asked each time in any case."""


class GroupWants:
    """The last want of each partition, until an answer for it."""

    def __init__(self) -> None:
        self._wants: dict[int, Want] = {}
        self._settled: dict[ChannelKey, Sequence[PartitionCopy]] = {}
        self._items: dict[ChannelKey, Sequence[PartitionCopy]] = {}
        self._groups_of: dict[int, dict[ChannelKey, None]] = {}
        """Groups that each partition was in lately: it leaves one while another has it already."""
        self._anew_at_s = 0.0

    def is_settled(self, key: ChannelKey, items: Sequence[PartitionCopy], now_s: float) -> bool:
        """Return whether a group wants what it has asked for last, or what follows that."""
        return self._settled.get(key) is items and now_s < self._anew_at_s

    def settle(
        self, key: ChannelKey, items: Sequence[PartitionCopy], wants: Sequence[Want]
    ) -> None:
        """Note that a group asks for this, and what follows it, until something else happens."""
        if wants and all(want.bytes_max for want in wants):
            self._settled[key] = items
            if self._items.get(key) is not items:
                self._items[key] = items
                for item in items:
                    self._groups_of.setdefault(item.index, {})[key] = None

    def of(self, items: Sequence[PartitionCopy], now_s: float) -> list[Want]:
        """Return a want for each partition of a group; nothing if none of them wants anything."""
        if now_s >= self._anew_at_s:
            self._anew_at_s = now_s + ANEW_EVERY_S
            self.forget()
        known = self._wants
        found = [known.get(item.index) for item in items]
        for place, item in enumerate(items):
            if found[place] is None and (want := item.want(now_s)) is not None:
                found[place] = known[item.index] = want
        if not any(found):
            return []
        return [want or item.want_nothing() for want, item in zip(found, items, strict=True)]

    def answered(self, index: int) -> None:
        """Forget what a partition wants, because an answer for it may have changed that."""
        self._wants.pop(index, None)
        for key in self._groups_of.get(index, ()):
            self._settled.pop(key, None)

    def taken(self, indexes: Iterable[int]) -> None:
        """Note that partitions want what follows, see `PlainWay`."""
        for index in indexes:
            self._wants.pop(index, None)

    def forget(self) -> None:
        """Forget what all partitions want, as after a failure."""
        self._wants.clear()
        self._settled.clear()
