"""The live scenarios of the benchmark: their arithmetic, and short runs."""

from __future__ import annotations

import importlib
import json
import socket
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
DEADLINE_S = 420
STOP_S = 60

pytestmark = [pytest.mark.peer, pytest.mark.long]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))

    def module(name: str) -> ModuleType:
        return importlib.import_module(name)

    return module


def rows(*each: tuple[int, int, int, int]) -> Any:
    return np.array([[a * 1_000_000, b * 1_000_000, i, n] for a, b, i, n in each], dtype=np.int64)


def test_a_window_selects_samples_by_the_time_sent(bench: Any) -> None:
    # Sent at 9, 10, 11, 19 and 20 ms; the third is in a partition that nobody watches.
    sent = rows((9, 10, 0, 1), (10, 12, 0, 2), (11, 13, 7, 3), (19, 20, 1, 4), (20, 21, 1, 5))
    window = bench("delays").Window(sent, 10_000_000, 20_000_000, {0, 1})
    # In the order of arrival; record 4 a second time, later, and 1 and 5 from outside.
    seen = rows((11, 9, 0, 1), (15, 10, 0, 2), (49, 19, 1, 4), (60, 19, 1, 4), (70, 20, 1, 5))

    found = window.figures(seen)

    assert window.missing(seen) == 0
    assert window.missing(seen[:2]) == 1
    assert found["records"] == 2
    assert found["seen_twice"] == 1
    assert found["max_ms"] == 30.0
    assert found["p50_ms"] == 17.5  # between 5 and 30
    assert found["after_ack"]["max_ms"] == 29.0
    assert found["append"]["max_ms"] == 2.0


def test_stamps_are_found_in_whole_batches_that_others_can_read(bench: Any) -> None:
    stamped = bench("stamped")
    first = stamped.batch([stamped.value(5, 1, b"x" * 100), stamped.value(5, 2, b"")], 1_700)
    second = stamped.batch([stamped.value(6, 3, b"y" * 300)], 1_701)
    second = (2).to_bytes(8, "big") + second[8:]  # as a broker would have stored it
    read = MemoryRecords(first + second)
    records = []
    while (batch := read.next_batch()) is not None:
        assert batch.validate_crc()
        records += list(batch)

    assert [record.offset for record in records] == [0, 1, 2]
    assert [len(record.value) for record in records] == [124, 24, 324]
    cut_short = first + second[:-1]
    size, following = stamped.whole(cut_short)
    assert (size, following) == (len(first), 2)
    assert list(stamped.found_in(cut_short[:size])) == [(5, 1), (5, 2)]
    assert stamped.whole(first + second) == (len(first + second), 3)


def test_the_load_of_a_pipeline_has_the_header_that_it_drops(bench: Any) -> None:
    stamped, piped = bench("stamped"), bench("piped")
    made = stamped.batch([stamped.value(5, 1, b"x"), b"y"], 1_700, piped.DROPPED)
    found = MemoryRecords(made).next_batch()

    assert found is not None
    assert found.validate_crc()
    assert [list(record.headers) for record in found] == [[("secret", b"0123456789")]] * 2
    assert [number for _, number in stamped.found_in(made)] == [1]


def test_catalogue_and_sample_have_the_documented_size(bench: Any) -> None:
    scenarios = bench("live_scenarios")
    streams = scenarios.LIVE["efd"].streams()
    partitions = [each.partitions for each in streams]

    assert (partitions.count(1), partitions.count(26), len(partitions)) == (3_000, 71, 3_071)
    assert sum(each.share for each in streams) == pytest.approx(1)
    chosen = scenarios.sample(streams, 100)
    rates = [each.share / each.partitions for each in streams for _ in range(each.partitions)]
    assert len(set(chosen)) == 100
    mean = sum(rates[index] for index in chosen) / 100
    assert mean == pytest.approx(sum(rates) / len(rates), rel=0.1)


def block(p50_ms: float, p99_ms: float, **more: Any) -> dict[str, Any]:
    cores = {"source": 0.1, "target": 0.3}
    figures = {"p50_ms": p50_ms, "p99_ms": p99_ms, "cpu_cores": 0.5, "broker_cpu_cores": cores}
    return {"finished": True, **figures, **more}


def test_ratios_are_ours_by_theirs_with_the_rate(bench: Any) -> None:
    late = {"finished": False, "reason": "2 records were never readable"}
    results = {
        "ours": {"300": block(10, 100), "2200": block(20, 200)},
        "ours_merged": {"300": block(12, 100), "2200": late},
        "mm2_default": {"300": block(40, 200), "2200": late},
    }

    found = bench("live_report").ratios(results)

    assert found["p50_vs_default_300"] == 0.25
    assert found["p99_vs_default_300"] == 0.5
    assert found["broker_cpu_vs_default_300"] == 1.0
    assert found["p50_vs_default_2200"] is None
    assert "p50_vs_tuned_300" not in found
    assert (found["p50_merged_vs_plain_300"], found["cpu_merged_vs_plain_300"]) == (1.2, 1.0)
    assert found["p50_merged_vs_plain_2200"] is None


def test_catching_up_is_also_compared_with_our_run_without_a_backlog(bench: Any) -> None:
    results = {
        "ours": {
            "with_backlog": block(2, 30, backlog_records_per_s=600),
            "without_backlog": block(1, 10),
        },
        "mm2_default": {"with_backlog": block(20, 300, backlog_records_per_s=100)},
    }

    found = bench("live_report").ratios(results)

    assert found["p99_vs_no_backlog"] == 3.0
    assert found["p99_vs_default"] == 0.1
    assert found["backlog_vs_default"] == 6.0
    assert not any("without" in name for name in found)


def test_each_latency_is_compared_with_the_base_line_of_its_rate(bench: Any) -> None:
    late = {"finished": False, "reason": "2 records were never readable"}
    report = bench("live_report")
    results = {
        "ours": {"300": block(10, 100, p999_ms=150.5), "2200": block(20, 200, p999_ms=300)},
        "mm2_default": {"300": late, "2200": block(30, 300, p999_ms=400)},
    }
    assert report.above_base_line(results) == {}
    results["base_line"] = {"300": block(1.5, 2.25, p999_ms=3.125)}

    found = report.document({"name": "efd"}, {}, results)["above_base_line"]

    unknown = dict.fromkeys(("p50_ms", "p99_ms", "p999_ms"))
    assert found == {
        "ours": {
            "300": {"p50_ms": 8.5, "p99_ms": 97.75, "p999_ms": 147.375},
            "2200": unknown,
        },
        "mm2_default": {"300": unknown, "2200": unknown},
    }


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
    ("scenario", "more", "cases"),
    [
        # How a peer is started and read is catchup's, with topics as latency has them; here it is
        # the rates, as latency's, and the catalogue.
        ("efd", ["--rate", "300"], {"ours": {"300"}, "base_line": {"300"}}),
        ("latency_sql", ["--rate", "500"], {"ours": {"500"}, "mm2_default": {"500"}}),
        (
            "catchup",
            [],
            {"ours": {"with_backlog", "without_backlog"}, "mm2_default": {"with_backlog"}},
        ),
    ],
)
def test_small_live_comparison_reports_every_case_and_ratio(
    scenario: str, more: list[str], cases: dict[str, set[str]], tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), scenario, "--small", *more, "--part", *cases]
    returncode, output = run([*command, "--json", str(file)], tmp_path / "output.log")

    assert returncode == 0, output
    found = json.loads(file.read_text())
    assert found["scenario"] == scenario
    assert found["machine"]["cores"] >= 1
    for part, names in cases.items():
        assert set(found[part]["cases"]) == names
        for measured in found[part]["cases"].values():
            assert measured["finished"], measured
            assert measured["records"] > 0
            assert measured["seen_twice"] == 0
            assert 0 < measured["p50_ms"] <= measured["p99_ms"] <= measured["max_ms"]
            if part == "base_line":
                assert measured["broker_cpu_cores"].keys() == {"source"}
                assert not any("memory" in name or name == "cpu_cores" for name in measured)
            else:
                assert measured["memory_mb"] > measured["memory_pss_mb"] > 0
    if "base_line" in cases:
        above = found["above_base_line"]["ours"]["300"]
        own, base = (found[part]["cases"]["300"] for part in ("ours", "base_line"))
        assert above["p50_ms"] == pytest.approx(own["p50_ms"] - base["p50_ms"])
        assert "above the base line" in output
    rate = "_500" if scenario == "latency_sql" else ""
    for name in ("p50", "p99", "p999") if "mm2_default" in cases else ():
        assert found["ratios"][f"{name}_vs_default{rate}"] > 0
        assert f"{name}_vs_default{rate}" in output


def test_a_small_steady_run_reports_what_is_held_and_what_grew(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), "steady", "--small", "--minutes", "0.1"]
    returncode, output = run([*command, "--json", str(file)], tmp_path / "output.log")

    assert returncode == 0, output  # so short a run is not judged
    found = json.loads(file.read_text())
    assert found["ours"]["finished"]
    assert 0 < found["ours"]["p50_ms"] <= found["ours"]["p999_ms"]
    assert [each["records"] for each in found["ours"]["slices"]] == [found["ours"]["records"]]
    assert found["samples"]
    for each in found["samples"]:
        assert each["driver"]["processes"] == each["jvm"]["processes"] == 1
        assert each["daemon"]["processes"] == 1
        assert each["worker"]["processes"] >= 1
        assert each["other"]["processes"] == 0
        total = each["total"]
        assert total["rss_mb"] > total["pss_mb"] > each["jvm"]["pss_mb"] > 0
        assert total["files"] > total["sockets"] > 0
        assert total["threads"] > total["processes"]
    assert found["growth"]["judged"] is False
    assert {"memory (PSS)", "sockets", "threads"} <= found["growth"]["series"].keys()
    assert "too short to judge" in output


def test_a_small_watched_run_reports_what_clients_cost(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), "watched", "--small", "--json", str(file)]
    returncode, output = run(command, tmp_path / "output.log")

    assert returncode == 0, output  # so small a run is not judged
    report = json.loads(file.read_text())
    assert [turn["case"] for turn in report["turns"]] == ["alone", "asked"] * 3
    for turn in report["turns"]:
        assert 0 < turn["p50_ms"] <= turn["p99_ms"]
        assert 0 < turn["serve_cores"] < turn["cpu_cores"]
    for turn in report["turns"][1::2]:
        assert turn["answers"] > 100
        assert turn["answer_p99_ms"] > 0
        assert turn["failed"] == 0
    assert {"cpu", "p99", "answer_p99_ms"} <= report["ratios"].keys()


@pytest.mark.long
def test_a_small_failover_reports_what_a_moved_group_reads(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [str(BENCH / "compare"), "failover", "--small", "--part", "ours"]
    returncode, output = run([*command, "--json", str(file)], tmp_path / "output.log")

    assert returncode == 0, output
    cases = json.loads(file.read_text())["ours"]["cases"]
    block, planned = cases["failover"], cases["planned"]
    assert (planned["skipped"], planned["read_again"]) == (0, 0)
    assert 0 < planned["accepted_s"] <= planned["first_new_s"]
    assert block["skipped"] == 0
    assert 0 < block["read_at_source"] <= block["landed"] + block["read_again"]
    assert block["read_again"] <= block["said_at_most"]
    assert 0 < block["accepted_s"] <= block["first_new_s"]


def test_a_stopped_load_ends_without_sending(bench: Any, tmp_path: Path) -> None:
    stamped, live = bench("stamped"), bench("live")
    stamped.write_streams(tmp_path / "streams.json", [stamped.Stream("t", 1, 1.0, 100)])
    with socket.create_server(("127.0.0.1", 0)) as broker:  # takes connections, never answers
        words = ["--bootstrap", f"127.0.0.1:{broker.getsockname()[1]}", "--rate", "10"]
        words += ["--streams", str(tmp_path / "streams.json"), "--seconds", "600"]
        words += ["--rows", str(tmp_path / "rows")]

        with live.helper(live.LOAD, words, tmp_path) as process:
            assert process.poll() is None
        assert process.returncode == 0
        assert not (tmp_path / "rows").exists()
