"""Which tests run, in which order, and the progress shown: by pytest, on files of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import costs
from support.costs import Cost
from support.progress import NOT_AGAIN_S, Progress, unlisted, unlisted_max_s

pytestmark = pytest.mark.thorough

CONFTEST = "from support.runs import *\nfrom support import costs\nfrom pathlib import Path\n"
MARKS = "[pytest]\nmarkers =\n  core: first\n  thorough: later\n  long: by hand\n  kafka: brokers\n"
FILES = {
    "test_cheap.py": "import pytest\n\ndef test_here(): ...\n\n"
    "@pytest.mark.thorough\ndef test_later(): ...\n",
    "test_dear.py": "import pytest\n\npytestmark = pytest.mark.thorough\n\n"
    "@pytest.mark.core\ndef test_first(): ...\n\ndef test_long(): assert False\n\n"
    "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.core)])\n"
    "def test_case(n): ...\n",
    "test_six.py": "import pytest\n\n@pytest.mark.long\ndef test_matrix(): ...\n",
}
ROWS = {"test_dear.py::test_first": Cost(9.0, "core")}
BUDGET = "[seconds]\ncore = {core}\nthorough = 100\nlong = 100\n"


def said(
    folder: Path, *options: str, rows: costs.Costs = ROWS, core_s: float = 100.0
) -> tuple[int, str]:
    """Return pytest's output for `FILES`, with these costs and this budget."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    costs.write_costs(rows, folder / "costs.tsv")
    (folder / "budget.toml").write_text(BUDGET.format(core=core_s))
    (folder / "pytest.ini").write_text(MARKS)
    set_folder = (
        "costs.COSTS, costs.BUDGET = map(Path(__file__).with_name, ['costs.tsv', 'budget.toml'])\n"
    )
    (folder / "conftest.py").write_text(CONFTEST + set_folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(costs.TESTS), "CI": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_run_for_newcomers_leaves_thorough_tests_out(tmp_path: Path) -> None:
    """Given marks of tests, modules, cases / then the nearest counts, and none means core."""
    code, text = said(tmp_path, "--run", "core", "--collect-only", "-q")
    assert code == 0, text
    assert re.findall(r"^test_.*::.*$", text, re.MULTILINE) == [
        "test_dear.py::test_first",
        "test_dear.py::test_case[2]",
        "test_cheap.py::test_here",
    ]
    assert "4 deselected" in text


@pytest.mark.parametrize(("run", "count"), [("all", 6), ("long", 1), ("any", 7), ("quick", 2)])
def test_each_run_has_the_tests_of_its_tiers(tmp_path: Path, run: str, count: int) -> None:
    code, text = said(tmp_path, "--run", run, "--collect-only", "-q")
    assert code == 0, text
    assert len(re.findall(r"^test_.*::.*$", text, re.MULTILINE)) == count
    assert ("test_six.py::test_matrix" in text) == (run in {"long", "any"})


def test_thorough_files_take_turns_and_core_tests_always_run(tmp_path: Path) -> None:
    """Given two shares / then each thorough test is in one of them, and each core test in both."""
    shares = []
    for share in ("0/2", "1/2"):
        code, text = said(tmp_path, "--run", "all", "--share", share, "--collect-only", "-q")
        assert code == 0, text
        shares.append(set(re.findall(r"^test_.*::.*$", text, re.MULTILINE)))
    core = {"test_dear.py::test_first", "test_dear.py::test_case[2]", "test_cheap.py::test_here"}
    assert shares[0] & shares[1] == core
    assert shares[0] ^ shares[1] == {
        "test_dear.py::test_long",
        "test_dear.py::test_case[1]",
        "test_cheap.py::test_later",
    }
    assert "test_cheap.py::test_later" in shares[1], "its file is the cheaper one: the next turn's"


@pytest.mark.parametrize("processes", ["0", "2"])
def test_progress_time_spent_and_costs_are_shown(tmp_path: Path, processes: str) -> None:
    """Given a run that records / then rows of the files it ran are replaced, and others kept."""
    rows = {**ROWS, "test_six.py::test_matrix": Cost(50.0, "long")}
    options = ("-n", processes, "--dist", "loadfile", "--record", "--run", "all")
    code, text = said(tmp_path, *options, rows=rows)
    assert code == 1, text
    assert "of 6 tests, 0 failed" in text
    assert "FAILED test_dear.py::test_long (call)" in text
    assert text.index("FAILED") < text.index("slowest tests") < text.index("time by folder")
    assert re.search(r"the run itself took, 1 failed", text)
    assert "1 failed, 5 passed" in text
    assert costs.read_costs(tmp_path / "costs.tsv") == {
        "test_six.py::test_matrix": Cost(50.0, "long")
    }, "nothing that ran costs anything"


@pytest.mark.parametrize("processes", ["0", "2"])
@pytest.mark.parametrize(
    ("rows", "core_s", "breach"),
    [
        (ROWS, 8.0, "core tests cost 9 s, 1 s more than"),
        ({"test_dear.py::test_first": Cost(9.0, "long")}, 99.0, "test_first is not a long test"),
        ({"test_dear.py::test_gone": Cost(9.0, "core")}, 99.0, "test_gone is not a core test"),
    ],
)
def test_a_run_fails_where_costs_budget_and_tests_disagree(
    tmp_path: Path, processes: str, rows: costs.Costs, core_s: float, breach: str
) -> None:
    options = ("-n", processes, "--run", "core")
    code, text = said(tmp_path, *options, rows=rows, core_s=core_s)
    assert code == 1, text
    assert "3 passed" in text
    assert f"BUDGET {breach}" in text.replace("BUDGET test_dear.py::", "BUDGET "), text


def test_time_left_is_estimated_from_costs_and_local_speed(
    pytestconfig: pytest.Config,
) -> None:
    """Given costs of 10, 20 and 30 s / when the first is done after 5 s / then 25 s are left."""
    names = ["a::first", "a::second", "b::third"]
    rows = {name: Cost(s, "core") for name, s in zip(names, (10.0, 20.0, 30.0), strict=True)}
    progress = Progress(pytestconfig, rows)
    assert progress.left_s(5.0) is None
    progress.left = dict.fromkeys(names[1:])
    progress.took = {names[0]: 7.0}
    assert progress.left_s(5.0) == 25.0


def test_a_slow_test_without_a_row_is_measured_again(tmp_path: Path) -> None:
    """Given tests slow once, or in each new process, and one that always is / then that fails."""
    slow = """
import pathlib, time

warm = []

def test_once():
    done = pathlib.Path(__file__).with_name("compiled")
    time.sleep(0.0 if done.exists() else 0.7)
    done.touch()

def test_cold():
    time.sleep(0.0 if warm else 0.7)
    warm.append(True)

def test_always():
    time.sleep(0.7)
"""
    (tmp_path / "test_slow.py").write_text(slow)
    code, text = said(tmp_path, "-n", "0", "--run", "core")
    assert code == 1, text
    assert re.findall(r"BUDGET (\S+) takes", text) == ["test_slow.py::test_always"]


@pytest.mark.parametrize(
    ("took", "on_ci", "limit_s"),
    [
        ({}, False, 0.5),
        ({"a": 20.0, "other": 9.0}, False, 1.0),
        ({"a": 5.0}, False, 0.5),
        ({"a": 20.0}, True, 2.0),
    ],
)
def test_a_slow_day_does_not_count_against_a_test(
    took: dict[str, float], on_ci: bool, limit_s: float
) -> None:
    assert unlisted_max_s(took, {"a": Cost(10.0, "core")}, on_ci=on_ci) == limit_s


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = {"tests/b.py::t[a b]": Cost(2.25, "core"), "tests/a.py::t": Cost(1.0, "thorough")}
    costs.write_costs(rows, tmp_path / "costs.tsv")
    assert costs.read_costs(tmp_path / "costs.tsv") == {
        "tests/a.py::t": Cost(1.0, "thorough"),
        "tests/b.py::t[a b]": Cost(2.2, "core"),
    }


def test_cheap_tests_are_added_up_by_file_and_tier() -> None:
    measured = {f"a.py::t{number}": Cost(0.2, "core") for number in range(5)}
    rows = costs.recorded(measured, {"a.py::gone": Cost(1.0, "core"), "b.py::t": Cost(2, "long")})
    assert {name: round(cost.seconds, 3) for name, cost in rows.items()} == {
        "a.py::other core tests": 1.0,
        "b.py::t": 2,
    }
    tiers = dict.fromkeys(measured, "core")
    assert costs.stale(rows, tiers, {"a.py"}) == []
    assert len(costs.stale(rows, dict.fromkeys(measured, "long"), {"a.py"})) == 1


def test_the_tiers_of_this_project_keep_to_their_budget() -> None:
    """A missing file distorts the order: `scripts/test --all --record` writes them again."""
    rows = costs.read_costs(costs.COSTS)
    assert costs.overspent(rows.values(), costs.read_budget(costs.BUDGET)) == []
    files = {costs.file_of(name) for name in rows}
    assert [name for name in sorted(files) if not (costs.TESTS.parent / name).is_file()] == []


def test_a_test_that_took_very_long_is_told_without_a_second_run(tmp_path: Path) -> None:
    took_s = NOT_AGAIN_S + 1
    (line,) = unlisted({"tests/a.py::test_it": took_s}, tmp_path, 0.5)
    assert line.startswith(f"tests/a.py::test_it takes {took_s:.2f} s and has no row")
    assert unlisted({}, tmp_path, 0.5) == []
