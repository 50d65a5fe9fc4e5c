"""Which tests run, and in which order; `tests/conftest.py` has the hooks.

There are three tiers, and each test is in exactly one. `scripts/test` runs the core ones: the unit
tests, 100 seeds of each scenario of the simulation, and with brokers one good and one bad path of
each promise. `scripts/test --all` has the thorough ones, too. The long ones run by hand and before
a release. A test below `tests/kafka`, `tests/spark` or `tests/peer` is marked with its tier, by
itself or through its module (the tidy test checks); others are core if they have no mark.

`scripts/test --quick` has the core tests that need neither brokers nor Spark.

What tests cost is in `tests/costs.tsv`, and what a tier may cost in `tests/budget.toml`: a run
fails where they disagree with each other, or with the tests. The most expensive files go first:
processes share the files, and a late one would run on alone.

`--share auto/6` takes turns: all core tests, and the thorough tests of every sixth file, with the
next commit those of others.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest
from mutations.run import share_of
from support import costs
from support.costs import (
    CORE,
    LONG,
    SIMULATION,
    THOROUGH,
    TIERS,
    Costs,
    file_of,
    read_costs,
    seconds_of,
    stale,
)
from support.progress import TIER, Progress, tell_breaches

QUICK, ALL, ANY = "quick", "all", "any"
RUNS = {
    QUICK: {CORE},
    CORE: {CORE},
    ALL: {CORE, THOROUGH},
    LONG: {LONG},
    ANY: set(TIERS),
}
"""Tiers of a run's tests."""
STARTS_SOMETHING = ("kafka", "spark", "peer")
"""Marks of tests that start brokers, Spark or MirrorMaker 2."""
QUICK_MAX_S = 0.4
"""A dearer test does not run while somebody writes; the simulation does, with few seeds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `scripts/test` uses."""
    group = parser.getgroup("heliostat")
    group.addoption("--run", choices=tuple(RUNS), help="which tests, see runs.py")
    group.addoption("--share", help="K/N or auto/N: of thorough tests, those of every N-th file")
    group.addoption("--record", action="store_true", help="write tests/costs.tsv")
    group.addoption("--twice", action="store_true", help="run each test twice, to measure it warm")


def pytest_configure(config: pytest.Config) -> None:
    """Start showing progress, in the one process that prints."""
    parts = any("::" in word for word in config.args) or config.getoption("keyword", "")
    if config.getoption("record") and (parts or config.getoption("run") is None):
        raise pytest.UsageError("--record needs whole files, as scripts/test runs them")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "progress")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select and order tests."""
    select(config, items)
    if config.getoption("twice"):
        items += [again(item) for item in items if isinstance(item, pytest.Function)]


def again(item: pytest.Function) -> pytest.Function:
    """Return an item that runs the same test once more, with fixtures of its own."""
    other = copy.copy(item)
    other._initrequest()  # pytest has no public way
    return other


def tier_of(item: pytest.Item) -> str:
    """Return a test's tier by its marks, nearest first."""
    return next((mark.name for mark in item.iter_markers() if mark.name in TIERS), CORE)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of other runs and shares; order the rest, the most expensive files first."""
    run, share = config.getoption("run") or ANY, config.getoption("share")
    rows = read_costs(costs.COSTS)
    tiers = {item.nodeid: tier_of(item) for item in items}
    for item in items:
        item.user_properties.append((TIER, tiers[item.nodeid]))
    if not any("::" in word for word in config.args):  # else files are not collected whole
        files = {file_of(name) for name in tiers if not name.startswith(SIMULATION)}
        tell_breaches(config, stale(rows, tiers, files))
    thorough = [name for name, tier in tiers.items() if tier == THOROUGH]
    left_out = _files_of_other_turns(costs_of_files(thorough, rows), share) if share else set()
    by_need = defaultdict[bool, list[pytest.Item]](list)
    for item in items:
        is_left_out = tiers[item.nodeid] == THOROUGH and file_of(item.nodeid) in left_out
        by_need[_is_in(run, item, rows) and not is_left_out].append(item)
    if by_need[False]:
        config.hook.pytest_deselected(items=by_need[False])
        items[:] = by_need[True]
    by_file = costs_of_files((item.nodeid for item in items), rows)
    items.sort(key=lambda item: -by_file[file_of(item.nodeid)])


def _is_in(run: str, item: pytest.Item, rows: Costs) -> bool:
    """Return whether a test is in a run."""
    is_simulated = item.nodeid.startswith(SIMULATION)
    if run == QUICK:
        is_slow = seconds_of(rows, item.nodeid) > QUICK_MAX_S
        starts_something = any(item.get_closest_marker(mark) for mark in STARTS_SOMETHING)
        if starts_something or (is_slow and not is_simulated):
            return False
    is_many_seeds = run == LONG and is_simulated
    return tier_of(item) in RUNS[run] or is_many_seeds


def costs_of_files(names: Iterable[str], rows: Costs) -> dict[str, float]:
    """Return the seconds that tests of these names take together, by file."""
    by_file = defaultdict[str, float](float)
    for name in names:
        by_file[file_of(name)] += seconds_of(rows, name)
    return by_file


def _files_of_other_turns(by_file: Mapping[str, float], share: str) -> set[str]:
    """Return the files that have another turn; all turns take about the same time."""
    count = int(share.partition("/")[2])
    [turn] = share_of(range(count), share)
    turns, left_out = [0.0] * count, set[str]()
    for file, seconds in sorted(by_file.items(), key=lambda row: (-row[1], row[0])):
        lightest = turns.index(min(turns))
        turns[lightest] += seconds
        if lightest != turn:
            left_out.add(file)
    return left_out
