"""Latencies by topic over the last minute; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from heliostat.names import TopicName
from heliostat.ops.latency import BUCKETS, UPPERS_MS, Counts

HALF_MS = 30_000
"""Counts are kept by halves of a minute: the current one, and the one before."""


class Percentiles(NamedTuple):
    """Latencies (ms) of a topic, as bounds of the buckets that they fell into."""

    p50_ms: float
    p99_ms: float
    """Of all but the slowest percent."""
    min_ms: float
    max_ms: float
    mean_ms: float


def _percentiles_of(counts: Mapping[int, int]) -> Percentiles | None:
    """Return those of counts by bucket, in one pass: thousands of topics are asked for each second.

    None: nothing was counted.
    """
    total = sum(counts.values())
    if total <= 0:
        return None
    half, most = 0.50 * total, 0.99 * total
    p50_ms: float | None = None
    p99_ms: float | None = None
    rank, sum_ms, buckets = 0, 0.0, sorted(counts)
    for bucket in buckets:
        count, latency_ms = counts[bucket], _upper_ms(bucket)
        rank += count
        sum_ms += latency_ms * count
        if p50_ms is None and rank >= half:
            p50_ms = latency_ms
        if p99_ms is None and rank >= most:
            p99_ms = latency_ms
    last_ms = _upper_ms(buckets[-1])
    bounds_ms = last_ms if p50_ms is None else p50_ms, last_ms if p99_ms is None else p99_ms
    return Percentiles(*bounds_ms, _upper_ms(buckets[0]), last_ms, sum_ms / total)


def _upper_ms(bucket: int) -> float:
    return UPPERS_MS[min(max(bucket, 0), BUCKETS - 1)]


class TopicLatencies:
    """Counts of records by topic and latency bucket. Not thread-safe."""

    def __init__(self) -> None:
        self._half = 0
        self._current: dict[TopicName, dict[int, int]] = {}
        self._before: dict[TopicName, dict[int, int]] = {}

    def take(self, reported: Iterable[tuple[TopicName, Counts]], at_ms: int) -> None:
        """Add what a report tells, written at that time."""
        self._turn(at_ms)
        for topic, counts in reported:
            own = self._current.setdefault(topic, {})
            for bucket, count in counts:
                own[bucket] = own.get(bucket, 0) + count

    def percentiles(self, now_ms: int) -> Iterator[tuple[TopicName, Percentiles]]:
        """Yield topics of which records were copied within a minute; those without are absent."""
        self._turn(now_ms)
        for topic in self._current.keys() | self._before.keys():
            counts, current = self._before.get(topic, {}), self._current.get(topic)
            if current and counts:
                counts = dict(counts)
                for bucket, count in current.items():
                    counts[bucket] = counts.get(bucket, 0) + count
            percentiles = _percentiles_of(current if current and not counts else counts)
            if percentiles is not None:
                yield topic, percentiles

    def _turn(self, at_ms: int) -> None:
        half = at_ms // HALF_MS
        if half > self._half:
            self._before = self._current if half == self._half + 1 else {}
            self._current, self._half = {}, half
