"""Pauses between turns, and what Retry-After means."""

from __future__ import annotations

import pytest

from heliostat.schemas.registry.retries import Retries, retry_after_s

NOW_MS = 1_790_000_000_000  # Mon, 21 Sep 2026 14:13:20 GMT


def test_pauses_double_up_to_a_limit_and_are_spread() -> None:
    retries = Retries(pause_s=1.0, pause_max_s=5.0)
    assert [retries.pause_before(turn, None, 1.0) for turn in range(1, 6)] == [1, 2, 4, 5, 5]
    assert retries.pause_before(2, None, 0.0) == 1.0
    assert retries.pause_before(2, None, 0.5) == 1.5


def test_a_wanted_pause_is_never_cut() -> None:
    retries = Retries(pause_s=1.0, pause_max_s=5.0)
    assert retries.pause_before(1, 60.0, 0.0) == 60.0
    assert retries.pause_before(3, 1.0, 1.0) == 4.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("1.5", None),
        ("-3", None),
        ("9" * 400, 999_999_999.0),
        ("soon", None),
        ("Mon, 21 Sep 2026 14:13:50 GMT", 30.0),
        ("Mon, 21 Sep 2026 14:13:50 -0000", 30.0),
        ("Mon, 21 Sep 2026 14:00:00 GMT", 0.0),
        ("Mon, 21 Sep 99999 14:00:00 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW_MS) == seconds
