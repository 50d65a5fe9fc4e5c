"""Latency as counts in buckets that grow by a fixed ratio: small, mergeable, accurate to 9 %.

A bucket index is `floor(8 * log2(1 + latency_ms))`, so neighbouring bounds differ by 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

BUCKETS = 256
"""Reaches 2^32 ms, 49 days; longer ones count in the last bucket."""
BUCKETS_PER_DOUBLING = 8
Counts: TypeAlias = tuple[tuple[int, int], ...]
"""Buckets that are not empty, each with its count."""
LIVE_WITHIN_MS = 10_000
"""How long a producer may hold a record back, or how far its clock may differ."""


def bucket_of(latency_ms: float) -> int:
    """Return the bucket of a latency; a negative one (clocks differ) counts as 0."""
    index = int(BUCKETS_PER_DOUBLING * math.log2(1 + max(0.0, latency_ms)))
    return min(index, BUCKETS - 1)


def upper_ms(bucket: int) -> float:
    """Return the upper bound of a bucket."""
    return float(2 ** ((bucket + 1) / BUCKETS_PER_DOUBLING) - 1)


UPPERS_MS = tuple(upper_ms(bucket) for bucket in range(BUCKETS))
"""The same of all of them."""


def percentile_ms(counts: Iterable[tuple[int, int]], total: int, fraction: float) -> float | None:
    """Return the upper bound of the bucket with the record at `fraction` (0..1).

    Parameters
    ----------
    counts
        Buckets in their order, each with its count.
    total
        The sum of all counts.
    """
    running_total, wanted = 0, fraction * total
    for bucket, count in counts:
        running_total += count
        if running_total >= wanted and count:
            return upper_ms(bucket)
    return None


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
        self.counts[bucket_of(latency_ms)] += records

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
        return percentile_ms(enumerate(self.counts), sum(self.counts), fraction)


class LiveLatency(LatencyHistogram):
    """Latency of records written while their partition was copied: a backlog's age is lag."""

    __slots__ = ("by_partition",)

    def __init__(self) -> None:
        super().__init__()
        self.by_partition: dict[int, dict[int, int]] = {}
        """The same since it was last read, by the index of a partition and the bucket."""

    def count(self, partition: int, bucket: int, records: int) -> None:
        """Count records of a partition, whose bucket is known."""
        self.counts[bucket] += records
        own = self.by_partition.get(partition)
        if own is None:
            own = self.by_partition[partition] = {}
        own[bucket] = own.get(bucket, 0) + records

    def landed(
        self, partition: int, written_ms: int, records: int, level_ms: int, now_ms: int
    ) -> None:
        """Count `records` with timestamp `written_ms`, unless they waited for the link to start.

        Those are older than `level_ms`, when the partition had no lag; -1: it has always had some
        in this round. Or their producer set an old timestamp.
        """
        if 0 <= level_ms <= written_ms + LIVE_WITHIN_MS:
            self.count(partition, bucket_of(now_ms - written_ms), records)
