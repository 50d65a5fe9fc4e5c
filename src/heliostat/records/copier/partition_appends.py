"""The append side of one partition: what waits, what is under way, and what may still land.

I4  What was sent and not answered may land at any time. The target's broker refuses it where it
    remembers the producer; not for old records, so these wait.
I10 So do they while rounds before this one may still send.
"""

from __future__ import annotations

from collections import deque

from heliostat.records.batches.converted import ConvertedBatch

LANDS_WITHIN_S = 3.0
"""What a broker has received of a connection that was lost it still appends, once it gets to it: it
reads on what was sent before the end (`Selector` serves what is received of closing channels). Of
old records nothing else is ahead on the connection, so that it does not wait for replicas first.
Seen after 1 s, on two cores with six brokers (2026-11-24)."""
BATCH_BYTES = 640
"""In memory, of what stands for one batch: 560 measured, and what is sent of it."""


class PartitionAppends:
    """Batches of one partition until they are acknowledged.

    Parameters
    ----------
    producer_expiration_s
        `producer.id.expiration.ms` of the target.
    holds_old
        Rounds before this one may still append.
    """

    def __init__(self, producer_expiration_s: float, *, holds_old: bool) -> None:
        self._old_after_ms = producer_expiration_s * 500
        self.holds_old = holds_old
        """Records for which the broker's duplicate check may not hold must wait (I10)."""
        self.looked_early = False
        """The target's end was read while what was sent before could still land, by rounds before
        or by this one. The check tells, or else the end is read again first."""
        self.may_land_until_s = -1e9
        """Until this monotonic second what was sent and not answered may still be appended."""
        self.has_lost_old = False
        """Old records of this round were sent and not answered."""
        self.is_established = False
        """The broker remembers the producer by an append since the end was read last."""
        self.queue: deque[ConvertedBatch] = deque()
        self.queued_bytes = 0
        """Of batches in the queue and in flight."""
        self._own_bytes = 0
        """What these keep in memory, see `ConvertedBatch`."""
        self.in_flight = 0

    def is_old(self, batch: ConvertedBatch, now_ms: int) -> bool:
        """Whether the target's brokers may have forgotten the producer of such records (I4)."""
        return batch.max_timestamp < now_ms - self._old_after_ms

    def is_next_old(self, now_ms: int) -> bool:
        """Whether what is to be appended next must not wait for others on its connection.

        A broker serves a connection's requests one after the other, and each waits for replicas:
        where that connection is lost, what is behind others lands so much later (I4).
        """
        return bool(self.queue) and self.is_old(self.queue[0], now_ms)

    def are_awaited(self, now_s: float) -> bool:
        """Whether what was sent may be answered yet, or land."""
        may_land = self.has_lost_old and now_s < self.may_land_until_s
        return bool(self.in_flight or may_land)

    def have_room(self, in_flight_max: int, *, is_old: bool) -> bool:
        """Whether one more may be in flight; always where none is.

        The broker's sequence check keeps a pipeline in order only while it remembers the producer:
        not before the first append, and not for records whose timestamps let it forget (I4).
        """
        if not self.is_established or is_old:
            return self.in_flight == 0
        return self.in_flight < in_flight_max

    @property
    def kept_bytes(self) -> int:
        """What is in memory of batches in the queue and in flight, beside the answers."""
        return self._own_bytes + BATCH_BYTES * (len(self.queue) + self.in_flight)

    def copy_out(self, batch: ConvertedBatch) -> None:
        """Let go of the answer that a batch in the queue came in."""
        self._own_bytes += batch.copy_out()

    def put(self, batch: ConvertedBatch) -> None:
        """Queue a batch."""
        self.queue.append(batch)
        self.queued_bytes += batch.size
        self._own_bytes += batch.own_bytes

    def answered(self, batch: ConvertedBatch) -> None:
        """A batch is not in flight any more."""
        self.in_flight -= 1
        self._take_off(batch)

    def _take_off(self, batch: ConvertedBatch) -> None:
        self.queued_bytes -= batch.size
        self._own_bytes -= batch.own_bytes

    def drop_queue(self) -> None:
        """Forget what was not sent."""
        for batch in self.queue:
            self._take_off(batch)
        self.queue.clear()

    def lost(self, batch: ConvertedBatch, now_s: float, now_ms: int) -> None:
        """A batch will not be answered."""
        self.may_land(now_s)
        self.has_lost_old |= self.is_old(batch, now_ms)

    def may_land(self, now_s: float) -> None:
        """The target's broker may have requests of ours that it has not got to yet."""
        self.may_land_until_s = max(self.may_land_until_s, now_s + LANDS_WITHIN_S)
