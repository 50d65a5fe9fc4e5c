"""Latency as counts in buckets that grow by a fixed ratio: small, mergeable, good to 9 %.

A bucket index is `floor(8 * log2(1 + latency_ms))`, so neighbouring bounds differ by 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BUCKETS = 256
"""Reaches 2^32 ms, 49 days; what is older counts in the last bucket."""
BUCKETS_PER_DOUBLING = 8
LIVE_WITHIN_MS = 10_000
"""A producer may hold a record back so long, its clock may differ by so much."""


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


class LiveLatency(LatencyHistogram):
    """Of records that came while their partition was copied: a backlog's age is lag, not latency.

    Parameters
    ----------
    began_ms
        Wall clock when the copy began.
    """

    __slots__ = ("_began_ms",)

    def __init__(self, began_ms: int) -> None:
        super().__init__()
        self._began_ms = began_ms

    def landed(self, written_ms: int, records: int, level_ms: int, now_ms: int) -> None:
        """Count `records` of that timestamp, but those that waited for the link, not in it.

        They are older than the moment `level_ms` at which nothing of the partition was missing,
        or (-1) than the beginning of the copy; or they bear a time of their producer's making.
        """
        since_ms = level_ms if level_ms >= 0 else self._began_ms
        if written_ms >= since_ms - LIVE_WITHIN_MS:
            self.add(now_ms - written_ms, records)
