"""What is given for monitoring names only what there is; Prometheus checks the rest itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.fetched import debian_program

from heliostat.metrics.families import FAMILIES, Kind

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "monitoring"
RULES, TESTS = FOLDER / "heliostat-rules.yaml", FOLDER / "heliostat-rules.test.yaml"
NAME = re.compile(r"\bheliostat_[a-z0-9_]+")


def rules() -> list[dict[str, Any]]:
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in content["groups"] for rule in group["rules"]]


def series_names() -> set[str]:
    """Names as they are scraped: a histogram has three."""
    suffixes = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
    return {f"{f.name}{suffix}" for f in FAMILIES for suffix in suffixes.get(f.kind, ("",))}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_asks_for_metrics_that_there_are_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert set(NAME.findall(rule["expr"])) <= series_names()
    assert rule["labels"]["severity"] in ("critical", "warning")
    told = rule["annotations"]
    assert told["summary"]
    assert told["description"].endswith(".")
    assert (ROOT / told["runbook_url"]).is_file()


@pytest.mark.long
def test_prometheus_accepts_the_rules_and_they_fire_as_told() -> None:
    promtool = debian_program("prometheus", "usr/bin/promtool")
    for words in (("check", "rules", RULES), ("test", "rules", TESTS)):
        done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
