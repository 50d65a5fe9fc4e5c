"""The benchmark itself, on a size that shows that it works and measures nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("mm2_default", "mm2_tuned", "ours", "append_limit")
RATIOS = ("throughput_vs_tuned", "cpu_vs_tuned", "of_append_limit")
DEADLINE_S = 240


@pytest.mark.peer
@pytest.mark.parametrize(("scenario", "codecs"), [("tiny", ("none",)), ("bulk", ("lz4",))])
def test_small_comparison_reports_every_part_and_ratio(
    scenario: str, codecs: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    command = [str(ROOT / "bench" / "compare"), scenario, "--small", "--json", str(file)]
    for codec in codecs:
        command += ["--codec", codec]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["scenario"] == scenario
    assert report["machine"]["cores"] >= 1
    for part in PARTS:
        for codec in codecs:
            block = report[part]["by_codec"][codec]
            assert block["finished"], block
            assert block["check"]["records_equal"]
            assert block["records_per_s"] > 0
            assert block["cpu_s_per_million_records"] > 0
    assert report["ours"]["by_codec"][codecs[0]]["check"]["ends_equal"]
    for ratio in RATIOS:
        assert report["ratios"][ratio] > 0
        assert ratio in done.stdout
