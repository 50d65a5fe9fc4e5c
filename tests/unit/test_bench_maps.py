"""The benchmark of offset maps runs, on a small size."""

from __future__ import annotations

import importlib
import json
from argparse import Namespace
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

BENCH = Path(__file__).parents[2] / "bench"


def test_maps_are_read_copied_and_handed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    maps = importlib.import_module("maps")
    file = tmp_path / "maps.json"
    assert maps.run(Namespace(small=True, json=file)) == 0
    told = json.loads(file.read_text())
    figures = told["ours"]
    assert (told["note"], figures["finished"]) == (maps.NO_PEER, True)
    assert (figures["breaks"], figures["day_breaks"]) == (20 * 5_000, 2 * 10 * 600)
    assert 0.1 < figures["rows_mb"] < 0.4
    assert figures["positions_cpu_s"] < 1.0
    assert figures.keys() >= {"retained_early_mb", "retained_mb"}
