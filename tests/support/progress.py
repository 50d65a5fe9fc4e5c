"""The line that shows what runs and the time left; at the end where the time went, and costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import costs
from support.costs import (
    CORE,
    LONG,
    SIMULATION,
    Cost,
    Costs,
    file_of,
    overspent,
    read_budget,
    read_costs,
    recorded,
    seconds_of,
    write_costs,
)

SLOWEST = 10
TIER = "tier"
"""Property of a test's reports."""
UNLISTED_MAX_S = 0.5
"""Seconds that a test without a row in `costs.tsv` may take, on the machine of those that have."""
CI_MARGIN = 2.0
"""CI's machine has other loads than those that slow this run's tests: so much more time there."""
MEASURED_AGAIN = 20
"""So many tests at most are measured again: some compiled code, or met a cold broker first."""
AGAIN_WITHIN_S = 300.0
"""A limit for all of them."""
NOT_AGAIN_S = AGAIN_WITHIN_S / MEASURED_AGAIN
"""A test that took longer is slow, warm or not."""
DURATION = re.compile(r"^\s*([\d.]+)s call\s+(\S.*)$", re.MULTILINE)
BREACHES = "breaches of the budget"
TELL_EVERY_S = 15.0
TELL_EVERY_S_ON_TERMINALS = 0.2
LINE_COLUMNS = 100


def tell_breaches(config: pytest.Config, breaches: Sequence[str]) -> None:
    """Make the run fail for these, whichever process it is that has seen them."""
    if hasattr(config, "workeroutput"):
        config.workeroutput[BREACHES] = list(breaches)
    else:
        progress = config.pluginmanager.get_plugin("progress")
        assert isinstance(progress, Progress)
        progress.breaches.update(dict.fromkeys(breaches))


@dataclass
class Progress:
    """Shows what runs and the time left; afterwards where the time went.

    Lives in the process that a person sees; those that run the tests report to it.
    """

    config: pytest.Config
    rows: Costs = field(default_factory=lambda: read_costs(costs.COSTS))
    """What tests cost when they were recorded."""
    took: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    """Seconds of tests without their fixtures."""
    tiers: dict[str, str] = field(default_factory=dict)
    breaches: dict[str, None] = field(default_factory=dict)
    """What the run fails for, besides tests."""
    running: dict[str, None] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)
    failed: int = 0
    total: int = 0
    began_s: float = field(default_factory=time.monotonic)
    told_s: float = 0.0

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter

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
        self.tiers[name] = str(dict(report.user_properties).get(TIER, CORE))
        if report.when == "call":
            self.calls[name] = report.duration
        self.failed += report.failed
        if report.failed:
            self._clear()
            self._terminal.write_line(f"FAILED {name} ({report.when})", red=True)
        if report.when == "teardown":
            self.running.pop(name, None)
            self.left.pop(name, None)
            self.tell()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the breaches that a process has seen."""
        output = getattr(node, "workeroutput", {})  # a process that was killed has none
        self.breaches.update(dict.fromkeys(output.get(BREACHES, ())))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail where costs, budget and tests disagree; a run that records mends it."""
        if self.config.getoption("run") is None:
            return
        if self.config.getoption("record"):
            self.breaches.clear()
            self.rows = self.measured()
            write_costs(self.rows, costs.COSTS)
        else:
            limit_s = unlisted_max_s(self.took, self.rows, on_ci=bool(os.environ.get("CI")))
            suspects = {name: self.calls[name] for name in self.suspects(limit_s)}
            slow = unlisted(suspects, self.config.rootpath, limit_s)
            self.breaches.update(dict.fromkeys(slow))
        over = overspent(self.rows.values(), read_budget(costs.BUDGET))
        self.breaches.update(dict.fromkeys(over))
        if self.breaches and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def measured(self) -> Costs:
        """Return all rows after this run."""
        took = {name: Cost(seconds, self.tiers[name]) for name, seconds in self.took.items()}
        return recorded(took, self.rows)

    def suspects(self, limit_s: float) -> list[str]:
        """Return tests without a row that took longer than such may, the slowest first."""
        many_seeds = self.config.getoption("run") == LONG
        slow = {
            name: seconds
            for name, seconds in self.calls.items()
            if seconds > limit_s
            and name not in self.rows
            and not (many_seeds and name.startswith(SIMULATION))
        }
        return sorted(slow, key=lambda name: -slow[name])[:MEASURED_AGAIN]

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
        left = sum(seconds_of(self.rows, name) for name in self.left)
        done = sum(seconds_of(self.rows, name) for name in self.took if name not in self.left)
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
        for breach in self.breaches:
            terminal.write_line(f"BUDGET {breach}", red=True)
        if self.config.getoption("record"):
            terminal.write_line(f"recorded in {costs.COSTS.name}")


def folder_of(name: str) -> str:
    """Return the first two folders of a test's id."""
    return "/".join(Path(file_of(name)).parts[:2])


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


def unlisted_max_s(took: Mapping[str, float], rows: Costs, *, on_ci: bool) -> float:
    """Return the seconds that a test without a row may take in a run that took so long.

    A slow day does not count against a test: the tests that have rows say how slow the day is.
    """
    listed = [name for name in took if name in rows]
    recorded_s = sum(rows[name].seconds for name in listed)
    slowness = sum(took[name] for name in listed) / recorded_s if recorded_s else 1.0
    return UNLISTED_MAX_S * max(1.0, slowness) * (CI_MARGIN if on_ci else 1.0)


def unlisted(suspects: Mapping[str, float], root: Path, limit_s: float) -> list[str]:
    """Measure tests again, alone and warm; return a line for each that is slow, without a row.

    Parameters
    ----------
    suspects
        Seconds that each took; one that took very long is not measured again.
    """
    warm_s = {name: seconds for name, seconds in suspects.items() if seconds > NOT_AGAIN_S}
    again = [name for name in suspects if name not in warm_s]
    if again:
        options = ("-n", "0", "-vv", "--durations=0", "--twice", "-p", "no:cacheprovider")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *again],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=AGAIN_WITHIN_S,
            check=False,
        )
        for seconds, name in DURATION.findall(done.stdout):
            warm_s[name] = min(float(seconds), warm_s.get(name, float(seconds)))
    return [
        f"{name} takes {seconds:.2f} s and has no row in tests/costs.tsv: "
        f"make it faster, or scripts/test --record {file_of(name)}"
        for name, seconds in warm_s.items()
        if seconds > limit_s
    ]
