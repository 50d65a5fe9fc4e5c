"""An empty target partition on its way up to the offset that its source begins at."""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.names import Offset
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.batches.padding import padding_batches
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange

ALIGN_DELETE_EVERY = 50_000_000
"""Offsets filled between two deletions: at 0.9 bytes each the target holds 45 MB of throw-away."""


class StartAlignment:
    """Throw-away batches to append, and when those appended are to be deleted.

    Parameters
    ----------
    spec
        The partition.
    producer_id
        The link's.
    end
        The target's log end.
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
        """Below it nothing is left."""

    def next_batch(self) -> ConvertedBatch | None:
        """The next one to append."""
        return next(self._batches, None)

    def delete_before(self, position: int, *, is_idle: bool) -> Offset | None:
        """Target offset below which records should go now, if any."""
        if position >= self._start and is_idle:
            return self._start
        if position - self.aligned_to >= ALIGN_DELETE_EVERY:
            return Offset(position)
        return None


def is_short(spec: PartitionSpec, target: LogRange) -> bool:
    """Whether an exact mirror's log has not come up to its start yet, or still holds padding."""
    return target.end < spec.start or target.start < min(spec.start, target.end)
