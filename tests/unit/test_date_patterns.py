"""Patterns of times; what Java makes of them is compared in tests/peer."""

from __future__ import annotations

import pytest

from heliostat.date_patterns import DatePattern

TIME_MS = 1_767_323_045_006


@pytest.mark.parametrize(
    ("pattern", "text", "time_ms"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2026-01-02T03:04:05.006Z", TIME_MS),
        ("yyyyMMddHHmmssSSS", "20260102030405006", TIME_MS),
        ("EEE, d MMM yyyy h 'o''clock' a Z", "Fri, 2 Jan 2026 3 o'clock AM +0000", 1767322800000),
        ("EEEE d MMMM yyyy", "Friday 2 January 2026", 1767312000000),
        ("yyyy", "1969", -31_536_000_000),
        ("h a", "12 PM", 43_200_000),
    ],
)
def test_a_time_is_written_and_read(pattern: str, text: str, time_ms: int) -> None:
    assert DatePattern(pattern).written(time_ms) == text
    assert DatePattern(pattern).read(text) == time_ms


@pytest.mark.parametrize("pattern", ["yy", "G", "XXXX", "'open", "yyyy-'T", "zzz", "DDD"])
def test_what_depends_on_place_or_day_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"letters|quote"):
        DatePattern(pattern)


@pytest.mark.parametrize("text", ["", "x", "2026-13-01 00", "2026-02-30 00", "0000-01-01 00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|month|day|year"):
        DatePattern("yyyy-MM-dd HH").read(text)
