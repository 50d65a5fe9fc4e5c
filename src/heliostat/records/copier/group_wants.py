"""What the fetches of groups ask for: most partitions of a group ask for the same as the last time.

Asking each partition anew for every fetch took a third of a lane's processor time with 1,200 busy
partitions. What is remembered here may be out of date for `ANEW_EVERY_S`, which costs a look and no
more: an answer to it is told by its attempt and offset, and dropped (`Copier`).
"""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.records.copier.network import Want
from heliostat.records.copier.partition_copy import PartitionCopy

ANEW_EVERY_S = 0.1
"""All partitions are asked anew: for what changes by itself, such as a pause that is over."""


class GroupWants:
    """Wants by partition, until something is heard of it."""

    def __init__(self) -> None:
        self._wants: dict[int, Want] = {}
        self._anew_at_s = 0.0

    def of(self, items: Sequence[PartitionCopy], now_s: float) -> list[Want]:
        """What to ask for a group, a want each; nothing where no partition of it wants anything."""
        if now_s >= self._anew_at_s:
            self._anew_at_s = now_s + ANEW_EVERY_S
            self._wants.clear()
        known = self._wants
        found = [known.get(item.index) for item in items]
        for place, item in enumerate(items):
            if found[place] is None and (want := item.want(now_s)) is not None:
                found[place] = known[item.index] = want
        if not any(found):
            return []
        return [want or item.want_nothing() for want, item in zip(found, items, strict=True)]

    def answered(self, index: int) -> None:
        """Something came of a partition: it may want something else."""
        self._wants.pop(index, None)

    def forget(self) -> None:
        """All may want something else, as after trouble."""
        self._wants.clear()
