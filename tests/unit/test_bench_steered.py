"""`bench/compare steered`: its ratios and floors, from made-up windows."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from support.tools import ROOT

P99_MS = {"alone": 20.0, "limited": 22.0, "pausing": 24.0}


@pytest.fixture
def steered(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("steered")


@pytest.fixture
def served(steered: Any) -> Any:
    return importlib.import_module("served")


def windows(took_s: list[float], p99_ms: dict[str, float]) -> list[dict[str, Any]]:
    """Three windows of each case; those of one case differ, and their median counts."""
    return [
        {
            "case": case,
            "p50_ms": 2.0,
            "p99_ms": p99_ms[case] * factor,
            "cpu_cores": 0.5,
            **({"took_s": took_s} if case == "pausing" else {}),
        }
        for factor in (1, 3, 0.5)
        for case in ("alone", "limited", "pausing")
    ]


def test_steered_windows_are_told_by_those_without_a_wish(steered: Any, served: Any) -> None:
    ratios = steered.ratios(windows([0.3] * 40 + [1.9], P99_MS))
    assert (ratios["p99_limited"], ratios["p99_pausing"], ratios["cpu_limited"]) == (1.1, 1.2, 1.0)
    assert (ratios["wishes"], ratios["wish_p50_s"], ratios["wish_p99_s"]) == (123, 0.3, 1.9)
    assert served.missed(ratios, steered.FLOORS) == []


def test_each_floor_that_is_missed_is_named(steered: Any, served: Any) -> None:
    ratios = steered.ratios(windows([2.5], {**P99_MS, "pausing": 30.0}))
    assert served.missed(ratios, steered.FLOORS) == ["p99_pausing", "wish_p99_s"]
