"""The list of mutations is valid, and its runner reports a survivor (`scripts/test --mutations`).

That each of them is caught takes minutes and is not run here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutations import run
from support.tools import ROOT

pytestmark = pytest.mark.thorough

MUTATIONS = run.read_mutations()
PARTS = {
    *("data_path", "drill", "fencing", "gaps", "groups", "lanes", "merge", "offset_maps"),
    *("pipelines", "record_errors", "rescue", "schema_ids", "schemas", "state", "status", "topics"),
    *("verify", "wire"),
}
SURVIVED_ONCE = {
    "landed-anywhere",
    "tail-by-producer-alone",
    "old-records-in-flight-together",
    "old-records-not-held",
    "stale-epoch-is-retried",
    "unreadable-topic-is-gone",
    "limit-excludes-its-own-size",
    "break-at-the-same-place-stays",
    "report-of-the-same-moment",
    "active-up-to-the-limit",
}
"""Of the first ones, made by hand, those that no test noticed."""


def test_there_are_enough_mutations_of_each_part() -> None:
    assert len(MUTATIONS) >= 60
    assert set(Counter(each.part for each in MUTATIONS)) == PARTS
    names = [each.name for each in MUTATIONS]
    assert len(names) == len(set(names))
    assert set(names) >= SURVIVED_ONCE


def test_few_mutations_are_listed_as_survivors() -> None:
    explained = [each.name for each in MUTATIONS if each.survives]
    assert len(explained) <= (1 - run.CAUGHT_MIN) * len(MUTATIONS), explained
    assert not SURVIVED_ONCE & set(explained)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_each_mutation_can_be_applied_and_has_its_tests(mutation: run.Mutation) -> None:
    """Given the tree as it is / then each text to replace occurs once, and the tests exist.

    No test on real brokers is among them: the whole list must run in minutes.
    """
    run.mutated(mutation)
    assert run.missing_tests(mutation) == []
    assert mutation.tests
    assert all(test.startswith(("tests/unit/", "tests/sim/")) for test in mutation.tests)
    assert mutation.breaks


def test_cases_of_parametrized_tests_exist() -> None:
    """Given tests named with their case / then pytest finds each, in the run's own environment."""
    cases = sorted({test for each in MUTATIONS for test in each.tests if "[" in test})
    words = ("-m", "pytest", "--run", "any", "-n", "0", "--collect-only", "-q", *cases)
    environment = {**os.environ, **run.SEEDS}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert cases
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("of", [1, 7, 10])
def test_shares_cover_all_mutations_once(of: int) -> None:
    shares = [run.share_of(MUTATIONS, f"{number}/{of}") for number in range(of)]
    names = [each.name for share in shares for each in share]
    assert sorted(names) == sorted(each.name for each in MUTATIONS)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


LIST = """
[[mutation]]
name = "seen"
file = "places.py"
find = "return at + 1"
replace = "return at + 2"
tests = ["tests/test_places.py"]
breaks = "all"

[[mutation]]
name = "unseen"
file = "places.py"
find = "LIMIT = 5"
replace = "LIMIT = 6"
tests = ["tests/test_places.py"]
breaks = "nothing that a test looks at"
"""
TREE = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src/heliostat"]\n',
    "src/heliostat/places.py": "LIMIT = 5\n\n\ndef behind(at):\n    return at + 1\n",
    "tests/test_places.py": "import places\n\n\ndef test_it():\n    assert places.behind(1) == 2\n",
    "tests/mutations/list.toml": LIST,
}


def made(root: Path, **changed: str) -> Path:
    for path, text in TREE.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.get(file.stem, text))
    return root


def told(root: Path, *arguments: str) -> tuple[int, str]:
    """Run it in a separate process, as it forks, on a small test tree."""
    code = (
        "import sys; from pathlib import Path; from mutations import run; run.PRELOADED = ();"
        "sys.exit(run.main(sys.argv[2:], Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_survivor_is_reported_and_the_tree_is_unchanged(tmp_path: Path) -> None:
    """Given one fault that a test catches and one that none does / then the second is reported."""
    before = dict(TREE)
    code, said = told(made(tmp_path))
    assert code == 1
    assert "seen: caught by tests/test_places.py::test_it" in said
    assert "unseen: SURVIVED" in said
    assert "1 of 2 caught" in said
    assert {path: (tmp_path / path).read_text() for path in TREE} == before


def test_an_outdated_list_is_an_error(tmp_path: Path) -> None:
    code, said = told(made(tmp_path, places="LIMIT = 5\n"))
    assert code == 2
    assert "seen: what it replaces is 0 times" in said


def test_tests_that_fail_without_a_mutation_prove_nothing(tmp_path: Path) -> None:
    code, said = told(made(tmp_path, test_places="def test_it():\n    assert False\n"))
    assert code == 2
    assert "test_it fails without any mutation" in said


def test_tests_that_could_not_be_run_once_are_run_again(tmp_path: Path) -> None:
    """Given imports that fail once / then the second run counts, and both are told."""
    marker = tmp_path / "was-here"
    test = (
        f"from pathlib import Path\nmarker = Path({str(marker)!r})\n"
        "if not marker.exists():\n    marker.touch()\n    raise OSError('no room')\n"
        + TREE["tests/test_places.py"]
    )
    code, said = told(made(tmp_path, test_places=test), "--only", "seen")
    assert code == 0
    assert "no room" in said
    assert "seen: caught by tests/test_places.py::test_it" in said


def test_tests_that_can_not_be_run_at_all_are_told_with_the_reason(tmp_path: Path) -> None:
    code, said = told(made(tmp_path, test_places="import nowhere\n"))
    assert code == 2
    assert "No module named 'nowhere'" in said
