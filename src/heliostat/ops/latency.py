"""Latency as counts in buckets that grow by a fixed ratio: small, mergeable, accurate to 9 %.

A bucket index is `floor(8 * log2(1 + latency_ms))`, so neighbouring bounds differ by 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BUCKETS = 256
"""Reaches 2^32 ms, 49 days; longer ones count in the last bucket."""
BUCKETS_PER_DOUBLING = 8
LIVE_WITHIN_MS = 10_000
"""How long a producer may hold a record back, or how far its clock may differ."""


class LatencyHistogram:
    """Records counted by latency.

    Parameters
    ----------
    counts
        Counts by bucket of an earlier histogram, to continue from.
    """

    __slots__ = ("counts",)

    def __init__(self, counts: Sequence[int] = ()) -> None:
        self.counts = [*counts, *([0] * (BUCKETS - len(counts)))]

    def add(self, latency_ms: float, records: int) -> None:
        """Count `records` that took `latency_ms`; a negative one (clocks differ) counts as 0."""
        index = int(BUCKETS_PER_DOUBLING * math.log2(1 + max(0.0, latency_ms)))
        self.counts[min(index, BUCKETS - 1)] += records

    def merge(self, counts: Sequence[int]) -> None:
        """Add the counts of another histogram."""
        for index, count in enumerate(counts):
            self.counts[index] += count

    def compact(self) -> list[int]:
        """Return the counts without the empty buckets at the end, for a report."""
        last = max((index for index, count in enumerate(self.counts) if count), default=-1)
        return self.counts[: last + 1]

    def percentile_ms(self, fraction: float) -> float | None:
        """Return the upper bound of the bucket with the record at `fraction` (0..1)."""
        total = sum(self.counts)
        if total == 0:
            return None
        wanted = fraction * total
        seen = 0
        for index, count in enumerate(self.counts):
            seen += count
            if seen >= wanted and count:
                return float(2 ** ((index + 1) / BUCKETS_PER_DOUBLING) - 1)
        return None


class LiveLatency(LatencyHistogram):
    """Latency of records written while their partition was copied: a backlog's age is lag."""

    __slots__ = ()

    def landed(self, written_ms: int, records: int, level_ms: int, now_ms: int) -> None:
        """Count `records` with timestamp `written_ms`, unless they waited for the link to start.

        Those are older than `level_ms`, when the partition had no lag; -1: it has always had some
        in this round. Or their producer set an old timestamp.
        """
        if 0 <= level_ms <= written_ms + LIVE_WITHIN_MS:
            self.add(now_ms - written_ms, records)
