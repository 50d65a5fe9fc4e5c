"""Which tests run, in which order, and the progress shown; `tests/conftest.py` has the hooks.

There are three runs. `scripts/test` is the one for newcomers: all unit tests, the simulation, and
of the tests with brokers those marked `core`. `scripts/test --all` has those marked `thorough`,
too. `scripts/test --alone` has those marked `alone`, which need both cores. A test below
`tests/kafka`, `tests/spark` or `tests/peer` has one of these marks, by itself or through its
module (the tidy test checks); others are `core` if they have none.

Costs of tests were measured (`scripts/test --all --record`) and are in `tests/costs.tsv`. The most
expensive files go first: processes share the files, and a late one would run on alone.

`--share auto/2` takes turns: all core tests, and the thorough tests of every second file, with the
next commit those of the others. For where even the whole run's time is too long.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mutations.run import share_of

TESTS = Path(__file__).parents[1]
COSTS = TESTS / "costs.tsv"
CHEAP_S = 0.02
"""Assumed seconds of a test that is not listed."""
LISTED_FROM_S = 0.5
SLOWEST = 10
CORE, THOROUGH, ALONE = "core", "thorough", "alone"
RUNS = {
    CORE: {CORE},
    "all": {CORE, THOROUGH},
    ALONE: {ALONE},
    "any": {CORE, THOROUGH, ALONE},
}
"""Marks of the tests of a run."""
TELL_EVERY_S = 15.0
TELL_EVERY_S_ON_TERMINALS = 0.2
LINE_COLUMNS = 100


def read_costs(path: Path) -> dict[str, float]:
    """Return the seconds of each listed test, by its id."""
    if not path.is_file():
        return {}
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {name: float(seconds) for seconds, name in rows}


def write_costs(costs: Mapping[str, float], path: Path) -> None:
    """List tests that take long enough, by file and then in the order they ran."""
    lines = [f"{cost:.1f}\t{name}\n" for name, cost in costs.items() if cost >= LISTED_FROM_S]
    path.write_text("".join(sorted(lines, key=lambda line: line.split("\t")[1])), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `scripts/test` uses."""
    group = parser.getgroup("heliostat")
    group.addoption("--run", choices=tuple(RUNS), default="any", help="which tests, see runs.py")
    group.addoption("--share", help="K/N or auto/N: of thorough tests, those of every N-th file")
    group.addoption("--record", action="store_true", help="write tests/costs.tsv")


def pytest_configure(config: pytest.Config) -> None:
    """Start showing progress, in the one process that prints."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "progress")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select and order tests."""
    select(config, items)


def file_of(name: str) -> str:
    """Return the file of a test's id."""
    return name.partition("::")[0]


def run_of(marks: Iterable[str]) -> str:
    """Return the run of a test by its marks, nearest first."""
    return next((mark for mark in marks if mark in RUNS["any"]), CORE)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of other runs and shares; order the rest, the most expensive files first."""
    wanted = RUNS[config.getoption("run")]
    runs = {item.nodeid: run_of(mark.name for mark in item.iter_markers()) for item in items}
    share = config.getoption("share")
    skipped = _thorough_files_left_out(runs, share) if share else set[str]()
    by_need = defaultdict[bool, list[pytest.Item]](list)
    for item in items:
        run = runs[item.nodeid]
        is_left_out = run == THOROUGH and file_of(item.nodeid) in skipped
        by_need[run in wanted and not is_left_out].append(item)
    if by_need[False]:
        config.hook.pytest_deselected(items=by_need[False])
        items[:] = by_need[True]
    by_file = costs_of_files(item.nodeid for item in items)
    items.sort(key=lambda item: -by_file[file_of(item.nodeid)])


def costs_of_files(names: Iterable[str]) -> dict[str, float]:
    """Return the seconds that tests of these names take together, by file."""
    costs, by_file = read_costs(COSTS), defaultdict[str, float](float)
    for name in names:
        by_file[file_of(name)] += costs.get(name, CHEAP_S)
    return by_file


def _thorough_files_left_out(runs: Mapping[str, str], share: str) -> set[str]:
    """Return the files whose thorough tests have another turn: neighbours by cost take turns.

    `runs` has the run of each test.
    """
    by_file = costs_of_files(name for name, run in runs.items() if run == THOROUGH)
    files = sorted(by_file, key=lambda name: (-by_file[name], name))
    return set(files) - set(share_of(files, share))


@dataclass
class Progress:
    """Shows what runs and the time left; afterwards where the time went.

    Lives in the process that a person sees; those that run the tests report to it.
    """

    config: pytest.Config
    costs: dict[str, float] = field(default_factory=lambda: read_costs(COSTS))
    took: dict[str, float] = field(default_factory=dict)
    running: dict[str, None] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)
    failed: int = 0
    total: int = 0
    began_s: float = field(default_factory=time.monotonic)
    told_s: float = 0.0

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        found = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(found, pytest.TerminalReporter)
        return found

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the tests, if they run in this process."""
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Take the tests from a process that runs some of them."""
        self._expect(ids)

    def _expect(self, names: Iterable[str]) -> None:
        if not self.total:
            self.left = dict.fromkeys(names)
            self.total = len(self.left)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test has begun."""
        self.running[nodeid] = None
        self.tell()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no dot per test: the line shows more."""
        if self.config.getoption("verbose") > 0 or report.skipped:
            return None
        if report.failed:
            kind = "failed" if report.when == "call" else "error"
            return kind, "", kind.upper()
        return ("passed" if report.when == "call" else ""), "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the end of one of a test's three phases."""
        name = report.nodeid
        self.took[name] = self.took.get(name, 0.0) + report.duration
        self.failed += report.failed
        if report.failed:
            self._clear()
            self._terminal.write_line(f"FAILED {name} ({report.when})", red=True)
        if report.when == "teardown":
            self.running.pop(name, None)
            self.left.pop(name, None)
            self.tell()

    def line(self) -> str:
        """Return the progress of the run in one line."""
        done = self.total - len(self.left)
        passed_s = time.monotonic() - self.began_s
        text = f"{done} of {self.total} tests, {self.failed} failed, {_minutes(passed_s)}"
        left_s = self.left_s(passed_s)
        if left_s is not None:
            text += f", about {_minutes(left_s)} left"
        names = [name.removeprefix("tests/") for name in self.running]
        return f"{text}: {', '.join(names)}" if names else text

    def left_s(self, passed_s: float) -> float | None:
        """Return the estimated seconds left at the pace of this machine; None if unknown yet."""
        cost = {
            name: self.costs.get(name, CHEAP_S) for name in (*self.took, *self.left, *self.running)
        }
        left = sum(cost[name] for name in self.left)
        done = sum(cost[name] for name in self.took if name not in self.left)
        if done <= 0.0 or not self.left:
            return None
        return left * passed_s / done

    def tell(self) -> None:
        """Show the line: again and again on a terminal, now and then in a log."""
        now_s = time.monotonic()
        on_terminal = self._terminal.isatty
        every_s = TELL_EVERY_S_ON_TERMINALS if on_terminal else TELL_EVERY_S
        if now_s < self.told_s + every_s or not self.total:
            return
        self.told_s = now_s
        if on_terminal:
            columns = self._terminal._tw.fullwidth - 1  # pytest has no public way
            self._terminal.write("\r" + self.line()[:columns].ljust(columns))
        else:
            self._terminal.write_line(self.line()[:LINE_COLUMNS])
            self._terminal.flush()  # a pipe or file would show it minutes later

    def _clear(self) -> None:
        if self._terminal.isatty:
            columns = self._terminal._tw.fullwidth - 1  # as above
            self._terminal.write("\r" + " " * columns + "\r")

    def pytest_terminal_summary(self) -> None:
        """Print the slowest tests, and the time by folder."""
        self._clear()
        terminal = self._terminal
        terminal.section("slowest tests")
        slowest = sorted(self.took.items(), key=lambda row: -row[1])[:SLOWEST]
        for name, seconds in slowest:
            terminal.write_line(f"{seconds:7.1f} s  {name}")
        folders = defaultdict[str, float](float)
        for name, seconds in self.took.items():
            folders[folder_of(name)] += seconds
        terminal.section("time by folder, of all processes together")
        for folder, seconds in sorted(folders.items(), key=lambda row: -row[1]):
            terminal.write_line(f"{seconds:7.1f} s  {folder}")
        passed_s = time.monotonic() - self.began_s
        terminal.write_line(f"{passed_s:7.1f} s  the run itself took, {self.failed} failed")
        if self.config.getoption("record"):
            write_costs(self.took, COSTS)
            terminal.write_line(f"recorded in {COSTS.relative_to(TESTS.parent)}")


def folder_of(name: str) -> str:
    """Return the first two folders of a test's id."""
    return "/".join(Path(file_of(name)).parts[:2])


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"
