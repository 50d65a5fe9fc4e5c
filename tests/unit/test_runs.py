"""Which tests run, in which order, and the progress shown: by pytest, on files of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import runs

CONFTEST = "from support.runs import *\nfrom support import runs\nfrom pathlib import Path\n"
MARKS = "[pytest]\nmarkers =\n  core: first\n  thorough: later\n  alone: never beside others\n"
FILES = {
    "test_cheap.py": "import pytest\n\ndef test_here(): ...\n\n"
    "@pytest.mark.thorough\ndef test_later(): ...\n",
    "test_dear.py": "import pytest\n\npytestmark = pytest.mark.thorough\n\n"
    "@pytest.mark.core\ndef test_first(): ...\n\ndef test_long(): assert False\n\n"
    "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.core)])\n"
    "def test_case(n): ...\n",
    "test_six.py": "import pytest\n\n@pytest.mark.alone\ndef test_matrix(): ...\n",
}
COST = "9.0\ttest_dear.py::test_first\n"


def said(folder: Path, *options: str) -> tuple[int, str]:
    """Return pytest's output for `FILES`."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "costs.tsv").write_text(COST)
    (folder / "pytest.ini").write_text(MARKS)
    set_folder = "runs.COSTS = Path(__file__).with_name('costs.tsv')\nruns.TESTS = runs.COSTS\n"
    (folder / "conftest.py").write_text(CONFTEST + set_folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(runs.TESTS)},
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


@pytest.mark.parametrize(("run", "count"), [("all", 6), ("alone", 1), ("any", 7)])
def test_tests_that_need_the_whole_machine_have_their_own_run(
    tmp_path: Path, run: str, count: int
) -> None:
    code, text = said(tmp_path, "--run", run, "--collect-only", "-q")
    assert code == 0, text
    assert len(re.findall(r"^test_.*::.*$", text, re.MULTILINE)) == count
    assert ("test_six.py::test_matrix" in text) == (run != "all")


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
def test_progress_and_time_spent_are_shown(tmp_path: Path, processes: str) -> None:
    code, text = said(tmp_path, "-n", processes, "--dist", "loadfile", "--record", "--run", "all")
    assert code == 1, text
    assert "of 6 tests, 0 failed" in text
    assert "FAILED test_dear.py::test_long (call)" in text
    assert text.index("FAILED") < text.index("slowest tests") < text.index("time by folder")
    assert re.search(r"the run itself took, 1 failed", text)
    assert "1 failed, 5 passed" in text
    assert runs.read_costs(tmp_path / "costs.tsv") == {}, "recorded there: nothing costs anything"
    assert runs.read_costs(runs.COSTS), "and not here"


def test_time_left_is_estimated_from_costs_and_local_speed(
    pytestconfig: pytest.Config,
) -> None:
    """Given costs of 10, 20 and 30 s / when the first is done after 5 s / then 25 s are left."""
    names = ["a::first", "a::second", "b::third"]
    progress = runs.Progress(pytestconfig, dict(zip(names, (10.0, 20.0, 30.0), strict=True)))
    assert progress.left_s(5.0) is None
    progress.left = dict.fromkeys(names[1:])
    progress.took = {names[0]: 7.0}
    assert progress.left_s(5.0) == 25.0


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    costs = {"tests/b.py::t[a b]": 2.25, "tests/a.py::t": 1.0, "tests/a.py::quick": 0.01}
    runs.write_costs(costs, tmp_path / "costs.tsv")
    read = runs.read_costs(tmp_path / "costs.tsv")
    assert read == {"tests/a.py::t": 1.0, "tests/b.py::t[a b]": 2.2}


def test_all_files_with_costs_exist() -> None:
    """A missing file distorts the order: `scripts/test --all --record` writes them again."""
    files = {runs.file_of(name) for name in runs.read_costs(runs.COSTS)}
    assert files
    assert [name for name in sorted(files) if not (runs.TESTS.parent / name).is_file()] == []
