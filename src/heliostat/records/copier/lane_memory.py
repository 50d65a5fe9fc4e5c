"""What a lane keeps in memory of records on their way, and the bound that it holds.

Answers to fetches are counted whole, for as long as anything refers to them (`HeldBytes`); batches
by what they keep by themselves, encoded anew or copied. A batch is a view of the answer that it
came in: one of 171 bytes that has to wait kept 8 MiB, and hundreds of those a lane's memory.

So where the bound is reached, what waits is copied out of answers of which it is the smaller part.
Not before: bytes that are sent at once, as most are, are never copied.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.clusters.wire.buffers import KEPT_BYTES_MAX, size_of_buffer
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy

PROCESS_BYTES = 240 * 1024 * 1024
"""Of a lane's process without records: 189 MiB measured, and room for what it knows of thousands of
partitions."""
COPY_OUT_EVERY_S = 0.1
"""At most, while the bound is reached: all that waits is looked through, 0.5 us for each batch."""


def process_bytes_max(settings: CopySettings) -> int:
    """What a lane's process needs at most (docs/spark.md): the bound, and what comes beside it.

    One answer is taken in while there is any room at all; buffers that nobody uses are kept.
    """
    return (
        PROCESS_BYTES
        + settings.lane_queued_bytes_max
        + size_of_buffer(settings.fetch_bytes_max + 1)  # what stands before records, too
        + KEPT_BYTES_MAX
    )


class LaneMemory:
    """Counts what a lane keeps, and tells how much more may come.

    Parameters
    ----------
    network
        Holds the answers.
    bytes_max
        The lane's bound.
    """

    def __init__(self, network: Network, bytes_max: int) -> None:
        self._network = network
        self._bytes_max = bytes_max
        self._waiting: dict[int, PartitionCopy] = {}
        self._copy_out_at_s = -1e9

    def note(self, item: PartitionCopy) -> None:
        """Something of this partition waits to be sent, or to be acknowledged."""
        self._waiting[item.index] = item

    def room_bytes(self, now_s: float) -> int:
        """How much may be taken in; none, or less, where the bound is reached."""
        room = self._bytes_max - self._kept_bytes()
        if room > 0 or now_s < self._copy_out_at_s:
            return room
        self._copy_out_at_s = now_s + COPY_OUT_EVERY_S
        copy_out(self._waiting.values())
        self._network.copy_unsent()
        return self._bytes_max - self._kept_bytes()

    def _kept_bytes(self) -> int:
        kept = {index: item.appends.kept_bytes for index, item in self._waiting.items()}
        for index in [index for index, size in kept.items() if not size]:
            del self._waiting[index]
        return self._network.held_bytes() + sum(kept.values())


def copy_out(items: Iterable[PartitionCopy]) -> None:
    """Copy what waits out of answers of which it is less than half; these are let go."""
    views = [(item, batch) for item in items for batch in item.appends.queue if batch.is_view]
    waiting_bytes: dict[int, int] = {}
    for _, batch in views:
        answer, _ = _answer_of(batch)
        waiting_bytes[answer] = waiting_bytes.get(answer, 0) + batch.size
    for item, batch in views:
        answer, size = _answer_of(batch)
        if 2 * waiting_bytes[answer] < size:
            item.appends.copy_out(batch)


def _answer_of(batch: ConvertedBatch) -> tuple[int, int]:
    """Which answer a batch keeps, as long as it does, and how large that is."""
    (part,) = batch.parts
    assert isinstance(part, memoryview)
    whole = memoryview(part.obj)
    return id(part.obj), whole.nbytes
