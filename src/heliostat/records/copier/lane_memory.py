"""Counts what a lane keeps in memory of records in transit, and keeps it below a limit.

Fetch answers are counted whole, as long as anything refers to them (`HeldBytes`); batches are
counted by what they keep themselves, re-encoded or copied. A batch is a view of the answer it came
in: a waiting batch of 171 bytes kept 8 MiB, and hundreds of them exhausted a lane's memory.

So when the limit is reached, waiting batches are copied out of answers of which they are the
smaller part. Not earlier: bytes that are sent at once, as most are, are never copied.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.clusters.wire.buffers import KEPT_BYTES_MAX, size_of_buffer
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy

PROCESS_BYTES = 240 * 1024 * 1024
"""Memory of a lane's process without records: 189 MiB measured, and room for the state of thousands
of partitions."""
COPY_OUT_EVERY_S = 0.1
"""Shortest pause between two copies while the limit is reached: each scans all waiting batches,
0.5 us for each."""


def process_bytes_max(settings: CopySettings) -> int:
    """Return what a lane's process needs at most (docs/spark.md): the limit, and what it excludes.

    One more answer is received while there is any room at all; unused buffers are kept.
    """
    return (
        PROCESS_BYTES
        + settings.lane_queued_bytes_max
        + size_of_buffer(settings.fetch_bytes_max + 1)  # and what precedes the records
        + KEPT_BYTES_MAX
    )


class LaneMemory:
    """Counts what a lane keeps, and how much more it may receive.

    Parameters
    ----------
    network
        Network of the lane, which holds the fetch answers.
    bytes_max
        Memory limit of the lane.
    """

    def __init__(self, network: Network, bytes_max: int) -> None:
        self._network = network
        self._bytes_max = bytes_max
        self._waiting: dict[int, PartitionCopy] = {}
        self._copy_out_at_s = -1e9

    def note(self, item: PartitionCopy) -> None:
        """Note that batches of this partition wait to be sent or acknowledged."""
        self._waiting[item.index] = item

    def room_bytes(self, now_s: float) -> int:
        """Return how much may be received; zero or negative if the limit is reached."""
        room = self._bytes_max - self._kept_bytes()
        if room > 0 or now_s < self._copy_out_at_s:
            return room
        self._copy_out_at_s = now_s + COPY_OUT_EVERY_S
        copy_out(self._waiting.values())
        self._network.copy_unsent()
        return self._bytes_max - self._kept_bytes()

    def _kept_bytes(self) -> int:
        if not self._waiting:
            return self._network.held_bytes()
        kept = {index: item.appends.kept_bytes for index, item in self._waiting.items()}
        for index in [index for index, size in kept.items() if not size]:
            del self._waiting[index]
        return self._network.held_bytes() + sum(kept.values())


def copy_out(items: Iterable[PartitionCopy]) -> None:
    """Copy waiting batches out of answers of which they are less than half, to free these."""
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
    """Return the identity of the answer that a batch keeps in memory, and its size in bytes."""
    (part,) = batch.parts
    assert isinstance(part, memoryview)
    whole = memoryview(part.obj)
    return id(part.obj), whole.nbytes
