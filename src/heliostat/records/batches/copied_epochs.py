"""From which of the source's leader epochs batches were copied; they reveal a truncation.

A batch's header holds the epoch of the leader that appended it (`partitionLeaderEpoch`, KIP-101).
Only the last batch of an answer is read: the newest epoch tells most.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.records.batches.batch import MAGIC, MAGIC_AT, read_header


class CopiedTo(NamedTuple):
    """The batch that ends before source offset `offset` has leader epoch `epoch`."""

    offset: int
    epoch: int


NO_EPOCH = CopiedTo(-1, -1)


def last_epoch(buffer: bytearray | memoryview, position: int, end: int) -> CopiedTo:
    """Return the epoch of the last whole batch, at `position`, before `convert` patches headers."""
    if position < 0 or end - position <= MAGIC_AT or buffer[position + MAGIC_AT] != MAGIC:
        return NO_EPOCH  # formats before v2 have no epoch
    try:
        header = read_header(buffer, position, end)
    except BatchError:
        return NO_EPOCH  # `convert` reports what is wrong with it
    return NO_EPOCH if header is None else CopiedTo(header.next_offset, header.leader_epoch)


class CopiedEpochs:
    """Epochs of one partition within one round: fetched, then copied.

    Parameters
    ----------
    copied_to
        Epoch that earlier rounds copied from.
    """

    def __init__(self, copied_to: CopiedTo = NO_EPOCH) -> None:
        self._fetched: deque[CopiedTo] = deque()
        self._copied = copied_to
        self._distrusted = NO_EPOCH

    def fetched(self, epoch: CopiedTo, next_offset: int) -> None:
        """Note that an answer, whose `last_epoch` is `epoch`, was converted up to `next_offset`."""
        if epoch.epoch >= 0 and epoch.offset == next_offset:
            self._fetched.append(epoch)

    def ran_to(self, offset: int) -> None:
        """Note that all batches up to the one that ends before `offset` had the newest epoch."""
        newest = self._newest()
        if newest.epoch >= 0 and offset > newest.offset:
            self._fetched.append(CopiedTo(offset, newest.epoch))

    def before(self, fetch_offset: int) -> int:
        """Return the epoch to name in a fetch from `fetch_offset`; -1 if it is not known.

        A newer epoch than that of the batch before it may be named, too, where what was read is
        read again: the leader answers by where that epoch ended, and it must still have it.
        """
        newest = self._newest()
        is_usable = fetch_offset > 0 and newest != self._distrusted
        return newest.epoch if is_usable else NO_EPOCH.epoch

    def has_diverged(self, epoch: int, end: int, *, is_compacted: bool) -> bool:
        """Return whether the source lost records that we read: its log up to `epoch` ends at `end`.

        If not, the named epoch merely ended before the requested offset: another leader may have
        appended what we have read since. No epoch is named until the next batch shows one.

        A compacted log may hold no batch of the named epoch any more. A replica that was away
        meanwhile never had one, and answers an older epoch: that alone proves nothing.
        """
        newest = self._newest()
        if end < newest.offset or (epoch < newest.epoch and not is_compacted):
            return True
        self.distrust()
        return False

    @property
    def named(self) -> int:
        """The newest known epoch, whether or not fetches name it."""
        return self._newest().epoch

    def learn(self, copied: CopiedTo) -> None:
        """Start again from what is now known to be at the target; nothing is in flight."""
        self._fetched.clear()
        self._copied = copied

    def distrust(self) -> None:
        """Name no epoch until the next batch shows one."""
        self._distrusted = self._newest()

    def _newest(self) -> CopiedTo:
        return self._fetched[-1] if self._fetched else self._copied

    def copied(self, position: int) -> CopiedTo:
        """Return the newest epoch below `position`, up to which all is at the target."""
        while self._fetched and self._fetched[0].offset <= position:
            self._copied = self._fetched.popleft()
        return self._copied

    def drop(self, position: int) -> None:
        """Forget what was fetched from `position` on: it is fetched again.

        If no epoch is known below, the first one fetched stays: an append may have landed.
        """
        if self.copied(position).epoch < 0 and self._fetched:
            self._copied = CopiedTo(max(0, position), self._fetched[0].epoch)
        self._fetched.clear()
