"""The benchmark itself: its arithmetic, and a short run."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from heliostat.names import PartitionId, TopicName, TopicPartition

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
PARTS = ("mm2_default", "mm2_tuned", "ours", "append_limit")
RATIOS = ("throughput_vs_tuned", "cpu_vs_tuned", "of_append_limit")
DEADLINE_S = 420
STOP_S = 60

pytestmark = [pytest.mark.peer, pytest.mark.long]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("report")


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("measure")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("groups")


def test_records_that_groups_read_again_are_counted_from_the_fill_pattern(
    groups: ModuleType,
) -> None:
    """Given markers after each 100 records / then offsets are translated without anybody's map."""
    dense, holes = (
        TopicPartition(TopicName(name), PartitionId(1))
        for name in (groups.DENSE, groups.TRANSACTIONAL)
    )
    assert groups.exact_offset(dense, 730) == 730
    assert [groups.exact_offset(holes, at) for at in (0, 99, 100, 101, 102, 202, 303)] == [
        *(0, 99, 100, 100, 101, 200, 300)
    ]
    wanted = {"one": {dense: 100, holes: 50}, "two": {dense: 7}, "three": {dense: 9}}
    found = {"one": {dense: 40, holes: 51}, "two": {dense: 7}}
    assert groups.compared(wanted, found) == {
        "synced": 3,
        "missing": 1,
        "reread_records": 60,
        "reread_records_max": 60,
        "skipped_records": 1,
    }


def block(records_per_s: float, cpu_s: float) -> dict[str, Any]:
    return {
        "finished": True,
        "records_per_s": records_per_s,
        "mb_per_s": records_per_s / 2000,
        "cpu_s_per_million_records": cpu_s,
    }


def test_ratios_are_ours_by_theirs_with_the_worse_codec_first(report: ModuleType) -> None:
    results = {
        "ours": {"none": block(600, 1.0), "lz4": block(500, 1.5)},
        "mm2_tuned": {"none": block(100, 10.0), "lz4": block(50, 20.0)},
        "append_limit": {"none": block(1200, 0.1), "lz4": block(800, 0.1)},
    }

    found = report.ratios(results, ("none", "lz4"))

    assert found["by_codec"]["none"] == {
        "throughput_vs_tuned": 6.0,
        "cpu_vs_tuned": 0.1,
        "of_append_limit": 0.5,
    }
    assert found["throughput_vs_tuned"] == 6.0  # of 6 and 10
    assert found["cpu_vs_tuned"] == 0.1  # of 0.1 and 0.075
    assert found["of_append_limit"] == 0.5  # of 0.5 and 0.625


def test_a_part_that_did_not_finish_gives_no_number(report: ModuleType) -> None:
    results = {
        "ours": {"none": block(600, 1.0)},
        "mm2_tuned": {"none": {"finished": False, "reason": "no new record for 120 s"}},
    }

    found = report.document({"name": "bulk"}, {}, results, ("none",))

    assert found["mm2_tuned"]["finished"] is False
    assert found["mm2_tuned"]["records_per_s"] is None
    assert found["append_limit"] is None
    assert [found["ratios"][name] for name in RATIOS] == [None, None, None]


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    """A parent that idles after a child of its own has burnt half a second and ended."""
    child = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    parent = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield process
    process.kill()
    process.communicate()


def test_processor_time_of_children_that_ended_is_counted_once(
    measure: ModuleType, burner: subprocess.Popen[bytes]
) -> None:
    tree = measure.Tree(burner.pid)
    assert burner.stdout is not None
    assert burner.stdout.readline() == b"done\n"

    assert 0.5 <= tree.look() < 0.95


UNREAPED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if child == 0:
    while time.process_time() < 0.6:
        pass
    print("burnt", flush=True)
time.sleep(60)
"""


def test_processor_time_of_children_that_nobody_waits_for_is_kept(measure: ModuleType) -> None:
    """Given a parent like Spark's daemon / when its child has ended / then its time stays."""
    process = subprocess.Popen([sys.executable, "-c", UNREAPED], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        tree = measure.Tree(process.pid)
        assert process.stdout.readline() == b"burnt\n"
        assert tree.look() >= 0.5
        (child,) = psutil.Process(process.pid).children()
        child.kill()
        child.wait(10)
        tree.look()
        assert tree._ended_s >= 0.5
    finally:
        tree.end()
        process.communicate()


def run(command: list[str], log: Path) -> tuple[int, str]:
    """Run to its end; one that is late is asked to stop, so that it stops what it started."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        process.wait(DEADLINE_S)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(STOP_S)
    return process.returncode, log.read_text()


@pytest.mark.parametrize(
    ("scenario", "codec", "parts", "ratios"),
    [
        # What can be appended of batches of one record; who copies is measured with bulk's.
        ("tiny", "none", PARTS[3:], ()),
        ("bulk", "lz4", (*PARTS, "ours_merged"), (*RATIOS, "cpu_merged_vs_plain")),
        ("pipeline", "none", PARTS[1:], RATIOS[:1]),
        ("pipeline_headers", "lz4", ("ours",), ()),
        ("pipeline_sql", "lz4", ("ours",), ()),
        ("pipeline_avro", "lz4", ("ours",), ()),
        ("pipeline_json", "none", ("ours",), ()),
    ],
)
def test_small_comparison_reports_every_part_and_ratio(
    scenario: str, codec: str, parts: tuple[str, ...], ratios: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), scenario, "--small", "--codec", codec, "--part", *parts]
    returncode, output = run([*command, "--json", str(file)], tmp_path / "output.log")

    assert returncode == 0, output
    found = json.loads(file.read_text())
    assert found["scenario"] == scenario
    assert found["machine"]["cores"] >= 1
    for part in parts:
        measured = found[part]["by_codec"][codec]
        assert measured["finished"], measured
        assert measured["check"]["records_equal"]
        assert measured["records_per_s"] > 0
    if "ours" in parts and not scenario.startswith("pipeline"):
        assert found["ours"]["by_codec"][codec]["check"]["ends_equal"]
        # The kernel counts in hundredths of a second: of so few records a part alone may take less.
        used_s = [found[part]["by_codec"][codec]["broker_cpu_s"]["target"] for part in parts]
        assert min(used_s) >= 0
        assert sum(used_s) > 0
    for ratio in ratios:
        assert found["ratios"][ratio] is not None
        assert ratio in output


def test_small_comparison_with_and_without_schemas(tmp_path: Path) -> None:
    """Given `schemas` without the EFD's load / then its parts are measured, with their limits."""
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), "schemas", "--small", "--codec", "lz4", "--json", str(file)]
    command += ["--part", "throughput", "mirrored"]
    returncode, output = run(command, tmp_path / "output.log")

    assert returncode == 0, output
    found = json.loads(file.read_text())
    ways = {"without", "preserve", "rewrite"}
    assert found["throughput"]["lz4"].keys() == ways
    for block in found["throughput"]["lz4"].values():
        assert block["finished"], block
    for way in ways:
        assert found["throughput"]["lz4"][way]["check"]["ends_equal"]
    assert found["mirrored"]["schemas"] == 200
    limits = ("preserve_vs_without_lz4", "mirrored_s")
    assert all(found["ratios"][each][0] > 0 for each in limits)
    assert all(each in output for each in limits)


def test_processor_time_of_one_lane_is_measured() -> None:
    """Given a steady load / when a lane copies it for two seconds / then its cost is printed."""
    words = (sys.executable, str(BENCH / "lane_cpu.py"), "--rate", "300", "--seconds", "2")
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found = re.match(r"(\d+) records in 2 s: (\d+) us of processor time a record", ran.stdout)
    assert found is not None, ran.stdout
    records, cost_us = map(int, found.groups())
    assert records > 0
    assert cost_us > 0


def test_links_of_one_process_are_measured() -> None:
    """Given two links / when they have run / then first records, threads, memory are printed."""
    words = (sys.executable, str(BENCH / "many_links.py"), "--links", "2", "--quiet-s", "1")
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 of 2 links have their first record"), ran.stdout
    found = re.search(r"threads of the driver: (\d+) at most, (\d+) when idle", ran.stdout)
    assert found is not None, ran.stdout
    assert int(found[1]) >= int(found[2]) > 2
    assert "stopped with 0" in ran.stdout
