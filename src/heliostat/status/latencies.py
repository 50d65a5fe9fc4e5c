"""Latencies by topic over the last minute; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heliostat.names import TopicName
from heliostat.ops.latency import Counts, percentile_ms, upper_ms

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
            counts = dict(self._before.get(topic, ()))
            for bucket, count in self._current.get(topic, {}).items():
                counts[bucket] = counts.get(bucket, 0) + count
            ordered, total = sorted(counts.items()), sum(counts.values())
            p50_ms, p99_ms = (percentile_ms(ordered, total, part) for part in (0.50, 0.99))
            if p50_ms is not None and p99_ms is not None:
                least_ms, most_ms = upper_ms(ordered[0][0]), upper_ms(ordered[-1][0])
                mean_ms = sum(upper_ms(bucket) * count for bucket, count in ordered) / total
                yield topic, Percentiles(p50_ms, p99_ms, least_ms, most_ms, mean_ms)

    def _turn(self, at_ms: int) -> None:
        half = at_ms // HALF_MS
        if half > self._half:
            self._before = self._current if half == self._half + 1 else {}
            self._current, self._half = {}, half
