"""Breaks the product in one place at a time, and checks whether the tests of that place fail.

Run it as `python tests/mutations/run.py`. The mutations are in the TOML files beside it; each names
what is changed, what a user would suffer from it, and the tests that have to catch it. All happens
in a copy of the tree, so that whatever ends a run leaves the tree itself alone.

`--share 3/10` runs every tenth, `--share auto/10` another tenth with each commit, `--only NAME` one
of them, `--list` none. Ends with 1 where one survives without an explanation, or less than 95 % of
all are caught.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

Item = TypeVar("Item")

ROOT = Path(__file__).resolve().parents[2]
LISTS = "tests/mutations"
PRODUCT = "src/heliostat"
COPIED = ("src", "tests", "pyproject.toml")
CAUGHT_MIN = 0.95
TIMEOUT_S = 120.0
"""Of one mutation's tests, which take seconds: one that hangs is caught as well."""
ALL_WITHIN_S = 1800.0
"""Of all tests without a mutation, together."""
SEEDS = {"HELIOSTAT_SIM_SEEDS": "100", "HELIOSTAT_SIM_FIRST": "0"}
"""Of each scenario of the simulation: the same in each run."""
PYTEST = ("-x", "-q", "--tb=short", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0")
PRELOADING = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""A plugin's own assertions are not rewritten where it was imported before; nobody reads them."""
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
TESTS_FAILED, TESTS_CRASHED = 1, 3
"""Exit codes of pytest; others than the first mean that it could not run the tests."""
LOOK_EVERY_S = 0.02
PRELOADED = (
    "hypothesis",
    "numba",
    "pydantic",
    "kafka",
    "aiokafka",
    "awscrt",
    "pandas",
    "pyspark.sql",
)
"""Slow imports outside of the product: each run is a fork of a process that has them."""


class StaleListError(Exception):
    """A mutation can't be made, or its tests do not pass without it."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault, planted on purpose.

    `find` stands exactly once in `file` (below the product's folder), and `replace` is put there.
    `tests` are files, folders, or `file::test`. `breaks` says what it would do to a user.
    `survives` explains why no test can catch it; empty for all but a few.
    """

    name: str
    part: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    breaks: str
    survives: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tests' result for one mutation; `by` is the first that failed, empty if none did."""

    mutation: Mutation
    by: str
    seconds: float

    @property
    def line(self) -> str:
        """For people."""
        told = f"caught by {self.by}" if self.by else "SURVIVED"
        why = self.mutation.survives
        if not self.by:
            told += f": {why}" if why else f"; {self.mutation.breaks}"
        elif why:
            told += ", though it is said to survive: strike that out"
        return f"{self.seconds:6.1f} s  {self.mutation.name}: {told}"


def read_mutations(root: Path = ROOT) -> list[Mutation]:
    """All of them, by the names of their files and then in their order."""
    found: list[Mutation] = []
    for file in sorted((root / LISTS).glob("*.toml")):
        for row in tomllib.loads(file.read_text(encoding="utf-8"))["mutation"]:
            tests = tuple(row.pop("tests"))
            found.append(Mutation(part=file.stem, tests=tests, **row))
    return found


def mutated(mutation: Mutation, root: Path = ROOT) -> str:
    """The text of its file with the fault in it.

    Raises
    ------
    StaleListError
        What is to be replaced does not stand there exactly once, or no Python would be left.
    """
    path = root / PRODUCT / mutation.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    count = text.count(mutation.find)
    if count != 1:
        raise StaleListError(f"{mutation.name}: what it replaces is {count} times in {path}")
    changed = text.replace(mutation.find, mutation.replace)
    if changed == text:
        raise StaleListError(f"{mutation.name} changes nothing")
    try:
        compile(changed, str(path), "exec")
    except SyntaxError as error:
        raise StaleListError(f"{mutation.name} leaves no Python: {error}") from error
    return changed


def missing_tests(mutation: Mutation, root: Path = ROOT) -> list[str]:
    """Tests that it names and that are not there."""
    missing: list[str] = []
    for test in mutation.tests:
        file, _, name = test.partition("::")
        path = root / file
        is_there = path.is_file() if name else path.exists()
        function = f"def {name.partition('[')[0]}("
        if not is_there or (name and function not in path.read_text(encoding="utf-8")):
            missing.append(test)
    return missing


class Tree:
    """A copy of what tests need, with at most one fault in it.

    Parameters
    ----------
    folder
        Where it is made.
    root
        What is copied. Compiled code is copied as well: it is valid while a file keeps its size and
        its time, so that only what is changed is compiled anew.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        self._made = 0
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name)
            else:
                shutil.copy2(root / name, folder / name)

    @contextlib.contextmanager
    def broken_by(self, mutation: Mutation) -> Iterator[Mapping[str, str]]:
        """Plant the fault for the time of the block; answers what to add to the environment.

        A file that was changed gets a time that no version of it had: bytecode goes by times. What
        Numba compiled goes by the file of the calling function alone, so a changed one gets a
        cache of its own, in which all of them are compiled anew.
        """
        path = self.folder / PRODUCT / mutation.file
        original, times = path.read_bytes(), path.stat()
        self._made += 1
        fresh_ns = time.time_ns() + self._made * 10**10
        cache = self.folder / f"numba-{self._made}"
        try:
            path.write_text(mutated(mutation, self.folder), encoding="utf-8")
            os.utime(path, ns=(fresh_ns, fresh_ns))
            yield {"NUMBA_CACHE_DIR": str(cache)} if b"numba" in original else {}
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            shutil.rmtree(cache, ignore_errors=True)

    def first_failure(
        self, tests: Sequence[str], extra: Mapping[str, str], within_s: float = TIMEOUT_S
    ) -> str:
        """The first of these tests that fails; empty if none does.

        Tests that can't be run are run a second time: compiling them anew has failed once, and
        what was said goes to standard error.

        Raises
        ------
        StaleListError
            They can't be run at all.
        """
        path = os.pathsep.join(str(self.folder / name) for name in ("src", "tests"))
        environment = {"PYTHONPATH": path, **SEEDS, **extra}
        output = ""
        for _ in range(2):
            code, output = self._output_of(tests, environment, within_s)
            if code is None:
                return f"the clock: it hangs, or takes more than {within_s:.0f} s"
            failed = FAILED_TEST.search(output)
            if code == 0:
                return ""
            if code == TESTS_FAILED and failed:
                return failed[1]
            print(f"can't be run (exit {code}): {' '.join(tests)}\n{output}", file=sys.stderr)
        raise StaleListError(f"the tests can't be run: {' '.join(tests)}\n{output}")

    def _output_of(
        self, tests: Sequence[str], environment: Mapping[str, str], within_s: float
    ) -> tuple[int | None, str]:
        """Exit code (None: they took too long) and output of a child that runs the tests."""
        with tempfile.TemporaryFile("w+") as output:
            child = os.fork()
            if not child:
                self._run_tests(tests, environment, output.fileno())
            code = _exit_code(child, within_s)
            output.seek(0)
            return code, output.read()

    def _run_tests(
        self, tests: Sequence[str], environment: Mapping[str, str], output: int
    ) -> NoReturn:
        """What the child does; the product is imported here for the first time."""
        code = TESTS_CRASHED
        try:
            os.setsid()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self.folder)
            os.environ.update(environment)
            sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
            if "numba" in sys.modules:  # it has read the environment already
                sys.modules["numba"].config.reload_config()
            options = [*PYTEST, *PRELOADING, *_without_xdist()]
            code = int(pytest.main([*options, *tests], plugins=[_FirstExample()]))
        except BaseException:  # noqa: BLE001  # told by the parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code)


class _FirstExample:
    """A plugin: the first example that fails is enough, none is made smaller or kept."""

    def pytest_sessionstart(self) -> None:  # after conftest.py, which has its own settings
        known = sys.modules.get("hypothesis")
        if known is not None:
            known.settings.register_profile(
                "mutations",
                phases=[known.Phase.explicit, known.Phase.generate],
                deadline=None,
                database=None,
            )
            known.settings.load_profile("mutations")


def _exit_code(child: int, within_s: float) -> int | None:
    """Wait for tests to end; None if they don't. Processes that they leave are killed, too."""
    until_s = time.monotonic() + within_s
    code: int | None = None
    try:
        while code is None and time.monotonic() < until_s:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(LOOK_EVERY_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if code is None:
            os.waitpid(child, 0)
    return code


def _without_xdist() -> tuple[str, ...]:
    """One process: `-n 0`, where there is such an option."""
    return ("-n", "0") if importlib.util.find_spec("xdist") else ()


def run(mutations: Sequence[Mutation], root: Path = ROOT) -> Iterator[Outcome]:
    """Run the tests without a fault, then with each.

    Raises
    ------
    StaleListError
        A mutation can't be made, or a test fails without one.
    """
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for mutation in mutations:
        mutated(mutation, root)
        if missing := missing_tests(mutation, root):
            raise StaleListError(f"{mutation.name}: there is no {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Tree(Path(folder).resolve(), root)
        tests = sorted({test for mutation in mutations for test in mutation.tests})
        failed = tree.first_failure(tests, {}, ALL_WITHIN_S)
        if failed:
            raise StaleListError(f"{failed} fails without any mutation")
        for mutation in mutations:
            began_s = time.monotonic()
            with tree.broken_by(mutation) as extra:
                by = tree.first_failure(mutation.tests, extra)
            yield Outcome(mutation, by, time.monotonic() - began_s)


def share_of(items: Sequence[Item], share: str, root: Path = ROOT) -> list[Item]:
    """Every n-th: `share` is which one of them, or `auto` for one that each commit moves on."""
    which, _, of = share.partition("/")
    turn = turn_of(root) if which == "auto" else int(which)
    return [each for index, each in enumerate(items) if index % int(of) == turn % int(of)]


def turn_of(root: Path = ROOT) -> int:
    """The number of commits; of a clone that lacks most of them the newest one's hash."""
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        return int(_git(root, "rev-parse", "HEAD"), 16)
    return int(_git(root, "rev-list", "--count", "HEAD"))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def is_good(outcomes: Sequence[Outcome], *, is_all: bool) -> bool:
    """Whether each survivor is explained and, of all mutations, enough are caught."""
    if any(not each.by and not each.mutation.survives for each in outcomes):
        return False
    caught = sum(bool(each.by) for each in outcomes)
    return not is_all or caught >= CAUGHT_MIN * len(outcomes)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run what was asked for; 1 where too much survives, 2 where the list is stale."""
    parser = argparse.ArgumentParser(description="Break the product, see whether tests notice.")
    parser.add_argument("--share", help="K/N: every N-th from K on; auto/N: K by the commit")
    parser.add_argument("--only", action="append", help="a mutation's name; may be given again")
    parser.add_argument("--list", action="store_true", help="name them and run nothing")
    asked = parser.parse_args(arguments)
    mutations = read_mutations(root)
    chosen = share_of(mutations, asked.share, root) if asked.share else list(mutations)
    if asked.only:
        if unknown := set(asked.only) - {each.name for each in mutations}:
            parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
        chosen = [each for each in chosen if each.name in asked.only]
    if asked.list:
        for each in chosen:
            print(f"{each.part}: {each.name}: {each.breaks}")
        return 0
    outcomes: list[Outcome] = []
    try:
        for outcome in run(chosen, root):
            outcomes.append(outcome)
            print(outcome.line, flush=True)
    except StaleListError as error:
        print(error, file=sys.stderr)
        return 2
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    caught = sum(bool(each.by) for each in outcomes)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time")
    print(f"{caught} of {len(outcomes)} caught")
    return 0 if outcomes and is_good(outcomes, is_all=len(chosen) == len(mutations)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
