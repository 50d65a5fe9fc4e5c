"""`heliostat failover`: what it asks, prints and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command import heliostat
from unit.handover.test_failover import report

from heliostat.handover.failover import FailoverReport
from heliostat.operate import failover as verb

CONFIG = """
clusters: {a: {bootstrap: [a:9092]}, b: {bootstrap: [b:9092]}}
links: [{name: l, source: a, target: b}]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "heliostat.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def failover(_config: object, _link: object, _topics: object, **words: Any) -> FailoverReport:
        calls.append(words)
        is_open = words["why"] != "closed"
        return replace(report(), is_tried=words["dry_run"], is_target_open=is_open)

    monkeypatch.setattr(verb, "failover", failover)
    return calls


def test_the_name_is_typed_unless_it_is_tried_or_said(config: Path, asked: list[Any]) -> None:
    assert heliostat(config, "failover", "l", questions="m\n").returncode == 2
    assert not asked
    assert heliostat(config, "failover", "l", questions="l\n").returncode == 0
    assert heliostat(config, "failover", "l", "--yes").returncode == 0
    closed = ("failover", "l", "--yes", "--why", "closed")
    assert heliostat(config, *closed).returncode == 1, "producers are not let in"
    tried = heliostat(config, "failover", "l", "--dry-run", "--why", "closed")
    assert tried.returncode == 0
    assert "nothing was changed" in tried.stdout
    assert [words["dry_run"] for words in asked] == [False, False, False, True]
    assert heliostat(config, "failover", "none", "--yes").returncode == 2


def test_the_report_is_written_whole(config: Path, asked: list[Any], tmp_path: Path) -> None:
    for name in ("r.md", "r.json"):
        words = ("--yes", "--report", str(tmp_path / name), "--drain", "60", "--json")
        answer = heliostat(config, "failover", "l", *words)
        assert answer.json["missing"] == 10
    made = replace(report(), is_target_open=True)
    assert json.loads((tmp_path / "r.json").read_text()) == made.to_json()
    assert (tmp_path / "r.md").read_text() == made.markdown()
    assert [words["drain_s"] for words in asked] == [60.0, 60.0]
