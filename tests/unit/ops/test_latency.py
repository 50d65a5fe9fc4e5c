"""Latency histograms: percentiles within a bucket's width, whatever they were merged from."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.ops.latency import (
    BUCKETS_PER_DOUBLING,
    LIVE_WITHIN_MS,
    LatencyHistogram,
    LiveLatency,
)

NOW_MS = 1_700_000_000_000


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_percentile_is_the_true_one_within_a_bucket(values: list[float], part: float) -> None:
    """Given any latencies / when asked for a percentile / then at most one bucket above it."""
    one, other = LatencyHistogram(), LatencyHistogram()
    for index, value in enumerate(values):
        (one if index % 2 else other).add(value, 1)
    merged = LatencyHistogram(one.compact())
    merged.merge(other.compact())
    true = sorted(values)[math.ceil(part * len(values)) - 1]
    found = merged.percentile_ms(part)
    assert found is not None
    ratio = 2 ** (1 / BUCKETS_PER_DOUBLING)
    assert (1 + true) / 1.000001 <= 1 + found <= (1 + true) * ratio * 1.000001


def test_nothing_copied_has_no_percentile_and_clock_skew_counts_as_zero() -> None:
    """Given nothing, then a negative latency / when asked / then None, then the first bucket."""
    histogram = LatencyHistogram()
    assert histogram.percentile_ms(0.5) is None
    histogram.add(-50, 3)
    assert histogram.compact() == [3]


@pytest.mark.parametrize(
    ("written_ms", "level_ms", "counted"),
    [
        (NOW_MS - 500, NOW_MS - 1_000, 1),
        (NOW_MS - 60_000, NOW_MS - 61_000, 1),  # it waited in the link
        (NOW_MS - LIVE_WITHIN_MS - 1_000, NOW_MS - 1_000, 1),  # a producer held it back
        (NOW_MS - LIVE_WITHIN_MS - 1_001, NOW_MS - 1_000, 0),
        (NOW_MS - 1_800_000_000, NOW_MS, 0),  # records of days ago
        (NOW_MS - 500, -1, 0),  # its round has not been level yet: it may have stood there before
    ],
)
def test_a_backlog_is_no_latency(written_ms: int, level_ms: int, counted: int) -> None:
    latency = LiveLatency()
    latency.landed(7, written_ms, 1, level_ms, NOW_MS)
    assert sum(latency.counts) == counted
    assert sum(latency.by_partition.get(7, {}).values()) == counted
