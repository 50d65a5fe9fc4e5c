"""Latency as counts in buckets that grow by a fixed ratio: small, mergeable, good to 9 %.

A bucket index is `floor(8 * log2(1 + latency_ms))`, so neighbouring bounds differ by 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BUCKETS = 256
"""Reaches 2^32 ms, 49 days; what is older counts in the last bucket."""
BUCKETS_PER_DOUBLING = 8


class LatencyHistogram:
    """Records counted by latency.

    Parameters
    ----------
    counts
        Counts by bucket of an earlier histogram, to go on from.
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
        """Counts without the empty tail, for a report."""
        last = max((index for index, count in enumerate(self.counts) if count), default=-1)
        return self.counts[: last + 1]

    def percentile_ms(self, fraction: float) -> float | None:
        """Upper bound of the bucket in which the record at `fraction` (0..1) lies."""
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
