"""Aligns the start of an empty target partition with the offset at which its source begins."""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.names import Offset
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.batches.padding import padding_batches
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange

ALIGN_DELETE_EVERY = 50_000_000
"""Offsets filled between two deletions: at 0.9 bytes each the target holds 45 MB of fillers."""


class StartAlignment:
    """The filler batches to append to one partition, and when to delete them.

    Parameters
    ----------
    spec
        Partition to align.
    producer_id
        Producer id of the link.
    end
        Log end offset at the target.
    now_ms
        Wall clock, for the records' timestamps.
    """

    def __init__(self, spec: PartitionSpec, producer_id: int, end: int, now_ms: int) -> None:
        self._start = spec.start
        self._batches: Iterator[ConvertedBatch] = iter(())
        if spec.start > end:
            self._batches = padding_batches(
                producer_id=producer_id,
                base_offset=end,
                count=spec.start - end,
                timestamp_ms=now_ms,
                batch_bytes_max=spec.batch_bytes_max,
                null_key=not spec.is_compacted,
            )
        self.aligned_to = Offset(max(0, end - 1))
        """Target offset below which no filler is left."""

    def next_batch(self) -> ConvertedBatch | None:
        """Return the next batch to append; None after the last."""
        return next(self._batches, None)

    def delete_before(self, position: int, *, is_idle: bool) -> Offset | None:
        """Return the target offset below which to delete records now, if any."""
        if position >= self._start and is_idle:
            return self._start
        if position - self.aligned_to >= ALIGN_DELETE_EVERY:
            return Offset(position)
        return None


def is_short(spec: PartitionSpec, target: LogRange) -> bool:
    """Return whether an exact mirror's log ends before its start offset, or still holds fillers."""
    return target.end < spec.start or target.start < min(spec.start, target.end)
