"""A limit in bytes a second: exact over time, with a debt of one answer at most."""

from __future__ import annotations

import random

import pytest

from heliostat.records.copier.token_bucket import BURST_S, TokenBucket


def copied(bucket: TokenBucket, sizes: list[int], seconds: float, now_s: float) -> int:
    """Bytes that are taken in so many seconds, whenever it is free, in answers of these sizes."""
    taken, at_s, rng = 0, now_s, random.Random(1)
    while (at_s := max(at_s, bucket.free_at_s())) < now_s + seconds:
        size = rng.choice(sizes)
        bucket.take(size, at_s)
        taken += size
    return taken


@pytest.mark.parametrize("sizes", [[1], [10], [1, 10, 200], [1_000]])
def test_it_keeps_the_limit(sizes: list[int]) -> None:
    rate = 1_000 * max(sizes) // 100 if max(sizes) >= 1_000 else 2_000
    taken = copied(TokenBucket(rate, 5.0), sizes, 10.0, 5.0)
    assert taken == pytest.approx(10 * rate, rel=0.05, abs=max(sizes))


def test_a_debt_is_paid_before_more_is_taken() -> None:
    bucket = TokenBucket(100, 0.0)
    assert bucket.free_at_s() <= 0.0
    bucket.take(1_025, 0.0)
    assert bucket.free_at_s() == pytest.approx(10.0)
    assert bucket.free_at_s(debt_s=1.0) == pytest.approx(9.0)
    bucket.take(0, 4.0)
    assert bucket.throttled_s == pytest.approx(4.0)
    bucket.take(0, 50.0)
    assert bucket.throttled_s == pytest.approx(10.0)


def test_what_is_not_used_is_kept_for_a_moment_only() -> None:
    bucket = TokenBucket(100, 0.0)
    bucket.take(0, 1_000.0)
    bucket.take(100, 1_000.0)
    assert bucket.free_at_s() == pytest.approx(1_000.0 + 1.0 - BURST_S)


def test_another_limit_counts_from_now_on() -> None:
    bucket = TokenBucket(100, 0.0)
    bucket.take(1_025, 0.0)
    bucket.become(1_000, 5.0)
    assert bucket.free_at_s() == pytest.approx(5.5)
    bucket.become(10, 5.5)
    bucket.take(10, 6.0)
    assert bucket.free_at_s() == pytest.approx(6.75), "a quarter of a second was kept"
    assert bucket.used == 1_035
