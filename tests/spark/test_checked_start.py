"""`heliostat check` starts Spark as `run` does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.spark, pytest.mark.core]


@pytest.mark.parametrize(
    ("spark", "standing", "words"),
    [
        ({"master": "local[1]"}, "fine", "local[1] started in"),
        (
            {"master": "local[1]", "conf": {"spark.driver.memory": "1k"}},
            "problem",
            "ended while it started",
        ),
    ],
    ids=["starts", "does not start"],
)
def test_spark_is_started(tmp_path: Path, spark: object, standing: str, words: str) -> None:
    clusters = {
        alias: {"bootstrap": f"127.0.0.1:{port}"} for port, alias in enumerate(("east", "west"), 1)
    }
    link = {"name": "one", "source": "east", "target": "west", "topics": {"include": "a"}}
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump({"clusters": clusters, "spark": spark, "links": [link]}))
    command = [sys.executable, "-m", "heliostat.cli.entry", "check", "--json", "-c", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    (row,) = [each for each in findings if each["subject"] == "Spark"]
    assert row["standing"] == standing
    assert words in row["text"]
