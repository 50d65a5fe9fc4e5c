"""Limits as a reason why a topic is late."""

from __future__ import annotations

from typing import Any

from unit.status.test_truth import Case, told

from heliostat.explaining.lateness import limit_texts

T: dict[str, Any] = {"topic": "t", "bytes_per_second": 20_000_000, "by": "ops", "at_ms": 1}


def test_limits_that_hold_a_topic_back_are_named() -> None:
    rows = [
        {**T, "why": "tests"},
        {**T, "topic": None, "bytes_per_second": 10**9, "why": ""},
        {**T, "topic": "u", "why": ""},
    ]
    held = {"used_bytes_per_second": 1, "throttled_s": 3.5}
    driver = {
        "wishes": {"limits": rows},
        "limits": [{"topic": None, **held}, {"topic": "t", **held}],
    }
    status, _ = told(Case(driver=driver))
    assert list(limit_texts(status, "t")) == [
        "t is limited to 20 MB/s: ops wishes so, tests",
        "the link is limited to 1 GB/s: ops wishes so",
    ]
    assert len(list(limit_texts(status, "u"))) == 1, "nothing of u was held back"
