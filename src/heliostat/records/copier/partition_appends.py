"""The append side of one partition: what waits, what is in flight, and what may still land.

I4  An append that was sent and not answered may land at any time. The target's broker refuses it if
    it remembers the producer; for old records it may not, so these wait.
I10 Old records also wait while earlier rounds may still send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from heliostat.records.batches.batch import first_timestamp
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.cells import IN_FLIGHT, MISSING, QUEUED_BYTES, Cell, Cells

LANDS_WITHIN_S = 3.0
"""How long after a connection was lost the broker may still append what it received over it: its
`Selector` processes what closing channels have received. Old records have no request before them on
their connection, so the broker does not wait for replicas first. Seen after 1 s, on two cores with
six brokers (2026-11-24)."""
BATCH_BYTES = 640
"""Memory of the objects for one batch: 560 measured, and those for sending."""


class PartitionAppends:
    """Batches of one partition until they are acknowledged.

    Parameters
    ----------
    producer_expiration_s
        `producer.id.expiration.ms` of the target.
    cells
        The partition's numbers.
    holds_old
        Whether earlier rounds may still append.
    """

    queued_bytes = Cell(QUEUED_BYTES)
    """Size of batches in the queue and in flight."""
    in_flight = Cell(IN_FLIGHT)
    missing_ms = Cell(MISSING)
    """See `PartitionProgress`."""

    def __init__(
        self, producer_expiration_s: float, cells: Cells | None = None, *, holds_old: bool
    ) -> None:
        self.cells = cells or Cells()
        self._old_after_ms = producer_expiration_s * 500
        self.holds_old = holds_old
        """Whether records that the broker's duplicate check may not cover must wait (I10)."""
        self.looked_early = False
        """Whether the target's end was read while earlier appends, by an earlier round or by this
        one, could still land. The duplicate check catches these; without it the end is read again
        before anything is sent."""
        self.may_land_until_s = -1e9
        """Until this monotonic second unanswered appends may still land."""
        self.has_lost_old = False
        """Whether old records of this round were sent and not answered."""
        self.is_established = False
        """Whether the broker knows the producer from an append since the end was last read."""
        self.queue: deque[ConvertedBatch] = deque()
        self._own_bytes = 0
        """What these batches keep in memory themselves, see `ConvertedBatch`."""

    def is_old(self, batch: ConvertedBatch, now_ms: int) -> bool:
        """Return whether brokers may have forgotten the producer of such old records (I4)."""
        return batch.max_timestamp < now_ms - self._old_after_ms

    def is_next_old(self, now_ms: int) -> bool:
        """Return whether the next batch is old, so that it must be first on its connection.

        A broker serves a connection's requests one after the other, and each waits for replicas: if
        that connection is lost, a request after others lands that much later (I4).
        """
        return bool(self.queue) and self.is_old(self.queue[0], now_ms)

    def will_put(self, batches: Sequence[ConvertedBatch], now_ms: int) -> None:
        """Note the timestamp of the first record of batches to queue, if nothing is before it."""
        if batches and batches[0].parts and not self.in_flight and not self.queue:
            written_ms = first_timestamp(batches[0].parts[0])
            self.missing_ms = min(written_ms, now_ms) if written_ms >= 0 else self.missing_ms

    def are_awaited(self, now_s: float) -> bool:
        """Return whether appends are in flight, or may still land."""
        may_land = self.has_lost_old and now_s < self.may_land_until_s
        return bool(self.in_flight or may_land)

    def have_room(self, in_flight_max: int, *, is_old: bool) -> bool:
        """Return whether one more append may be in flight; True if none is.

        The broker's sequence check keeps a pipeline in order only while it remembers the producer:
        not before the first append, and not for records with old timestamps (I4).
        """
        if not self.is_established or is_old:
            return self.in_flight == 0
        return self.in_flight < in_flight_max

    @property
    def kept_bytes(self) -> int:
        """Memory of batches in the queue and in flight, without the answers they refer to."""
        return self._own_bytes + BATCH_BYTES * (len(self.queue) + self.in_flight)

    def copy_out(self, batch: ConvertedBatch) -> None:
        """Copy a batch in the queue out of its answer, to free that."""
        self._own_bytes += batch.copy_out()

    def put(self, batch: ConvertedBatch) -> None:
        """Queue a batch."""
        self.cells.leave_plain()  # what follows must not overtake it
        self.queue.append(batch)
        self.queued_bytes += batch.size
        self._own_bytes += batch.own_bytes

    def answered(self, batch: ConvertedBatch) -> None:
        """Note that a batch is no longer in flight."""
        self.in_flight -= 1
        self._take_off(batch)

    def _take_off(self, batch: ConvertedBatch) -> None:
        self.queued_bytes -= batch.size
        self._own_bytes -= batch.own_bytes

    def drop_queue(self) -> None:
        """Drop the batches that were not sent: the target's end is read next, or nothing is."""
        self.cells.leave_plain()
        self.is_established = False
        for batch in self.queue:
            self._take_off(batch)
        self.queue.clear()

    def lost(self, batch: ConvertedBatch, now_s: float, now_ms: int) -> None:
        """A batch will not be answered."""
        self.may_land(now_s)
        self.has_lost_old |= self.is_old(batch, now_ms)

    def may_land(self, now_s: float) -> None:
        """Note that the target's broker may still process requests of ours."""
        self.may_land_until_s = max(self.may_land_until_s, now_s + LANDS_WITHIN_S)
