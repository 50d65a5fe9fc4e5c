"""Which of two topics keeps less."""

from __future__ import annotations

import pytest

from heliostat.clusters.retention import kept_shorter

WEEK, MINUTE = "604800000", "60000"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ({"retention.ms": WEEK}, {"retention.ms": MINUTE}, "retention.ms 1 min instead of 7 d"),
        (
            {"retention.ms": "-1"},
            {"retention.ms": "7000"},
            "retention.ms 7 s instead of no limit",
        ),
        ({"retention.ms": "2"}, {"retention.ms": "1"}, "retention.ms 1 ms instead of 2 ms"),
        ({"retention.ms": WEEK}, {"retention.ms": WEEK}, None),
        ({"retention.ms": MINUTE}, {"retention.ms": WEEK}, None),
        ({"retention.ms": MINUTE}, {"retention.ms": "-1"}, None),
        ({"retention.ms": "-1"}, {"retention.ms": "-1"}, None),
        ({"retention.ms": WEEK}, {}, None),
        ({}, {"retention.ms": MINUTE}, None),
        ({"retention.ms": WEEK}, {"retention.ms": None}, None),
        ({"retention.ms": WEEK}, {"retention.ms": "soon"}, None),
        (
            {"retention.bytes": "-1"},
            {"retention.bytes": "2097152"},
            "retention.bytes 2 MiB instead of no limit",
        ),
        (
            {"retention.ms": WEEK, "retention.bytes": "2048"},
            {"retention.ms": MINUTE, "retention.bytes": "1000"},
            "retention.ms 1 min instead of 7 d, retention.bytes 1000 bytes instead of 2 KiB",
        ),
        (
            {"cleanup.policy": "compact", "retention.ms": MINUTE},
            {"cleanup.policy": "compact,delete", "retention.ms": MINUTE},
            "retention.ms 1 min instead of no limit",
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": WEEK},
            {"cleanup.policy": "compact", "retention.ms": MINUTE},
            None,
        ),
    ],
)
def test_less(
    source: dict[str, str | None], target: dict[str, str | None], expected: str | None
) -> None:
    assert kept_shorter(source, target) == expected
