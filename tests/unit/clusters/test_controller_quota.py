"""A controller's quota is waited for, within limits, and told by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.clusters.admin.caller import error_of
from heliostat.clusters.admin.controller_quota import PATIENCE_S, sent_patiently
from heliostat.clusters.kafka_codes import THROTTLING_QUOTA_EXCEEDED
from heliostat.errors import KAFKA_ERRORS, Verdict, kafka_error
from heliostat.explaining.codes import known_code
from heliostat.kafka_error_names import KAFKA_ERROR_NAMES


class Controller:
    """Takes so many rows of a request, and refuses the others for a time."""

    def __init__(self, takes: int, throttle_ms: int, other: dict[str, int] | None = None) -> None:
        self.takes, self.throttle_ms, self.other = takes, throttle_ms, other or {}
        self.asked: list[list[str]] = []
        self.slept: list[float] = []

    def send(self, rows: Any) -> Any:
        names = [row.name for row in rows]
        self.asked.append(names)
        codes = [
            self.other.get(name, 0) if place < self.takes else THROTTLING_QUOTA_EXCEEDED
            for place, name in enumerate(names)
        ]
        answers = [SimpleNamespace(name=n, error_code=c) for n, c in zip(names, codes, strict=True)]
        return SimpleNamespace(topics=answers, throttle_time_ms=self.throttle_ms)

    def codes(self, *names: str) -> dict[str, int]:
        rows = [SimpleNamespace(name=name) for name in names]
        answers = sent_patiently(rows, self.send, lambda r: r.topics, self.slept.append)
        return {row.name: row.error_code for row in answers}


def test_what_a_quota_refuses_is_sent_again_when_it_passes() -> None:
    controller = Controller(2, 9000, {"b": 36})
    assert controller.codes("a", "b", "c", "d", "e") == {"a": 0, "b": 36, "c": 0, "d": 0, "e": 0}
    assert controller.asked == [["a", "b", "c", "d", "e"], ["c", "d", "e"], ["e"]]
    assert controller.slept == [9, 9]


def test_nobody_waits_longer_than_patience_lasts() -> None:
    controller = Controller(1, 12_000)
    refused = controller.codes("a", "b", "c", "d", "e")
    assert list(refused.values()) == [0, 0, 0, 89, 89]
    assert sum(controller.slept) <= PATIENCE_S


def test_a_long_quota_is_not_waited_for_at_all() -> None:
    controller = Controller(1, 600_000)
    assert controller.codes("a", "b") == {"a": 0, "b": 89}
    assert controller.slept == []


def test_a_refusal_without_a_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliostat.clusters.admin.controller_quota.PATIENCE_S", 1.0)
    controller = Controller(0, 0)
    assert controller.codes("a") == {"a": 89}
    assert 5 < len(controller.slept) < 12


def test_every_code_of_a_broker_has_its_name() -> None:
    """Given a code that means nothing to us / then it is told by Kafka's name, and retried."""
    error = error_of(42, "create topic t")
    assert error is not None
    assert (error.text, error.kafka_name) == ("create topic t: INVALID_REQUEST", "INVALID_REQUEST")
    assert kafka_error(42).verdict is Verdict.RETRY
    assert kafka_error(999).name == "UNKNOWN_SERVER_ERROR"
    assert {code: row.name for code, row in KAFKA_ERRORS.items()}.items() <= (
        KAFKA_ERROR_NAMES.items()
    )
    assert sorted(KAFKA_ERROR_NAMES) == list(range(-1, 134))
    assert known_code("INVALID_REQUEST").meaning == "a cluster answered INVALID_REQUEST"
    quota = error_of(89, "create topic t")
    assert quota is not None
    assert "THROTTLING_QUOTA_EXCEEDED(89)" in str(quota)
    assert "controller_mutation_rate" in quota.hint
