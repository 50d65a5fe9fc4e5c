"""From which of the source's leader epochs batches were copied; by them a truncation is found.

A batch's header holds the epoch of the leader that took it (`partitionLeaderEpoch`, KIP-101). Only
the last batch of an answer is looked at: of all that was copied the newest tells most.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.records.batches.batch import MAGIC, MAGIC_AT, read_header


class CopiedTo(NamedTuple):
    """The batch that ends before source offset `offset` is of leader epoch `epoch`."""

    offset: int
    epoch: int


NO_EPOCH = CopiedTo(-1, -1)


def last_epoch(buffer: bytearray | memoryview, at: int, end: int) -> CopiedTo:
    """Of the last whole batch of an answer, at `at`; ask before headers are patched (`carry`)."""
    if at < 0 or end - at <= MAGIC_AT or buffer[at + MAGIC_AT] != MAGIC:
        return NO_EPOCH  # formats before v2 have no epoch
    try:
        header = read_header(buffer, at, end)
    except BatchError:
        return NO_EPOCH  # `carry` says what is wrong with it
    return NO_EPOCH if header is None else CopiedTo(header.next_offset, header.leader_epoch)


class CopiedEpochs:
    """Epochs of one partition within one round: fetched, then copied.

    Parameters
    ----------
    known
        What is known from rounds before.
    """

    def __init__(self, known: CopiedTo = NO_EPOCH) -> None:
        self._fetched: deque[CopiedTo] = deque()
        self._copied = known
        self._distrusted = NO_EPOCH

    def fetched(self, seen: CopiedTo, next_offset: int) -> None:
        """An answer, of which `last_epoch` said `seen`, is carried up to source `next_offset`."""
        if seen.epoch >= 0 and seen.offset == next_offset:
            self._fetched.append(seen)

    def before(self, fetch_offset: int) -> int:
        """Epoch to name in a fetch from `fetch_offset`; -1 where it is not known."""
        newest = self._newest()
        is_usable = newest.offset <= fetch_offset and newest != self._distrusted
        return newest.epoch if is_usable else NO_EPOCH.epoch

    def has_diverged(self, epoch: int, end: int) -> bool:
        """Whether the source has lost what was read of it: its log ends at `end` up to `epoch`.

        Else only the epoch that was named has ended before the asked offset: another leader may
        have taken what we have read since. Nothing is named until the next batch tells its epoch.
        """
        newest = self._newest()
        if epoch < newest.epoch or end < newest.offset:
            return True
        self.distrust()
        return False

    @property
    def named(self) -> int:
        """The newest epoch that is known, whether it is named in fetches or not."""
        return self._newest().epoch

    def learn(self, copied: CopiedTo) -> None:
        """What is at the target is known anew; nothing is on its way to it."""
        self._fetched.clear()
        self._copied = copied

    def distrust(self) -> None:
        """Name no epoch until the next batch tells one."""
        self._distrusted = self._newest()

    def _newest(self) -> CopiedTo:
        return self._fetched[-1] if self._fetched else self._copied

    def copied(self, position: int) -> CopiedTo:
        """What is known of all below `position`, which is at the target."""
        while self._fetched and self._fetched[0].offset <= position:
            self._copied = self._fetched.popleft()
        return self._copied

    def drop(self, position: int) -> None:
        """What was fetched from `position` on is fetched anew."""
        self.copied(position)
        self._fetched.clear()
