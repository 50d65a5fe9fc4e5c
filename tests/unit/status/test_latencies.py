"""Latencies of topics cover a minute; the source is asked for its retention now and then."""

from __future__ import annotations

from typing import Any, Self, cast

import pytest

from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import TopicName
from heliostat.ops.latency import bucket_of
from heliostat.status.latencies import HALF_MS, TopicLatencies
from heliostat.status.source_retention import (
    AGAIN_S,
    FAILED_AGAIN_S,
    NEW_AGAIN_S,
    SourceRetention,
    kept_s,
)

T = TopicName("t")
NOW_MS = 1_700_000_000_000 // HALF_MS * HALF_MS


def test_percentiles_of_both_halves_of_a_minute() -> None:
    latencies = TopicLatencies()
    latencies.take([(T, ((bucket_of(10), 99),))], NOW_MS)
    latencies.take([(T, ((bucket_of(10), 99), (bucket_of(900), 2)))], NOW_MS + HALF_MS)
    ((topic, found),) = latencies.percentiles(NOW_MS + HALF_MS)
    assert topic == T
    assert 10 <= found.p50_ms < 11
    assert 10 <= found.p99_ms < 11
    ((_, found),) = latencies.percentiles(NOW_MS + 2 * HALF_MS)
    assert found.p99_ms > 900, "the first half is forgotten"
    assert not dict(latencies.percentiles(NOW_MS + 3 * HALF_MS))


class Source:
    """Stands for an admin connection to the source."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.is_away = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_configs(self, topics: Any, keys: Any) -> Any:
        if self.is_away:
            raise ConnectionLost("gone")
        self.asked.append(set(topics))
        return {name: settings(retention="60000") for name in topics}


def settings(policy: str = "delete", retention: str = "60000") -> dict[str, ConfigEntry]:
    return {
        name: ConfigEntry(
            value, ConfigSource.DEFAULT, is_default=True, is_read_only=False, is_sensitive=False
        )
        for name, value in (("cleanup.policy", policy), ("retention.ms", retention))
    }


class HandClock:
    """Time passes when a test says so."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return NOW_MS

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_source_is_asked_rarely_and_soon_for_new_topics() -> None:
    source, clock = Source(), HandClock()
    retention = SourceRetention(cast("Any", lambda: source), clock)
    retention.look([])
    retention.look([T])
    retention.look([T])
    assert retention.seconds() == {T: 60.0}
    assert len(source.asked) == 1
    clock.now_s = NEW_AGAIN_S
    retention.look([T])
    assert len(source.asked) == 1
    retention.look([T, TopicName("u")])
    assert source.asked[1:] == [{"t", "u"}]
    clock.now_s += AGAIN_S
    source.is_away = True
    with pytest.raises(ConnectionLost):
        retention.look([T])
    retention.look([T])
    assert T in retention.seconds(), "what was known last"
    clock.now_s += FAILED_AGAIN_S
    source.is_away = False
    retention.look([T])
    assert len(source.asked) == 3


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (settings(), 60.0),
        (settings(retention="-1"), None),
        (settings("compact"), None),
        (settings("compact,delete"), 60.0),
        (BrokerError("no right", kafka_code=29), None),
    ],
)
def test_retention_by_settings(answer: Any, seconds: float | None) -> None:
    assert kept_s(answer) == seconds
