"""What tests cost, which tier each is in, and how much a tier may cost: `costs.tsv`, `budget.toml`.

Costs are seconds of one process that runs tests, set-up and tear-down of fixtures included, beside
the others that `scripts/test` runs on a machine of 2 cores. Tests that take less than
`LISTED_FROM_S` are added up by file and tier. `scripts/test --record` writes what it has run.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
COSTS = TESTS / "costs.tsv"
BUDGET = TESTS / "budget.toml"
LISTED_FROM_S = 0.3
"""Tests that take longer have a row of their own; from half a second on they must have one."""
CHEAP_S = 0.02
"""Assumed seconds of a test that has no row."""
CORE, THOROUGH, LONG = TIERS = ("core", "thorough", "long")
SIMULATION = "tests/sim/"
"""How many tests it has goes by the seeds of a run; `long` runs many."""
OTHERS = "other {tier} tests"
"""Stands in place of a test's name, for those of a file and tier that have no row."""


class Cost(NamedTuple):
    """Seconds of a test, and its tier."""

    seconds: float
    tier: str


Costs = Mapping[str, Cost]
"""By a test's id."""


def file_of(name: str) -> str:
    """Return the file of a test's id."""
    return name.partition("::")[0]


def read_costs(path: Path) -> dict[str, Cost]:
    """Return the rows of a file that `write_costs` wrote; none if there is no such file."""
    if not path.is_file():
        return {}
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {name: Cost(float(seconds), tier) for seconds, tier, name in rows}


def seconds_of(costs: Costs, name: str) -> float:
    """Return what a test costs, or about that if it has no row."""
    return costs[name].seconds if name in costs else CHEAP_S


def write_costs(costs: Costs, path: Path) -> None:
    """Write the rows, by name."""
    lines = [f"{cost.seconds:.1f}\t{cost.tier}\t{name}\n" for name, cost in sorted(costs.items())]
    path.write_text("".join(lines), encoding="utf-8")


def recorded(measured: Costs, before: Costs) -> dict[str, Cost]:
    """Return the rows after a run: it replaces all rows of the files and tiers that it ran."""
    ran = {(file_of(name), cost.tier) for name, cost in measured.items()}
    rows = {name: cost for name, cost in before.items() if (file_of(name), cost.tier) not in ran}
    others = defaultdict[tuple[str, str], float](float)
    for name, cost in measured.items():
        if cost.seconds >= LISTED_FROM_S:
            rows[name] = cost
        else:
            others[file_of(name), cost.tier] += cost.seconds
    for (file, tier), seconds in others.items():
        if seconds >= LISTED_FROM_S:
            rows[f"{file}::{OTHERS.format(tier=tier)}"] = Cost(seconds, tier)
    return rows


def read_budget(path: Path) -> dict[str, float]:
    """Return the seconds that each tier may cost."""
    seconds = tomllib.loads(path.read_text(encoding="utf-8"))["seconds"]
    return {tier: float(seconds[tier]) for tier in TIERS}


def overspent(costs: Iterable[Cost], budget: Mapping[str, float]) -> list[str]:
    """Return a line for each tier whose tests cost more than they may."""
    spent = dict.fromkeys(TIERS, 0.0)
    for cost in costs:
        spent[cost.tier] += cost.seconds
    return [
        f"{tier} tests cost {spent[tier]:.0f} s, {spent[tier] - budget[tier]:.0f} s more than "
        f"tests/budget.toml allows: make room (tests/README.md says how)"
        for tier in TIERS
        if spent[tier] > budget[tier]
    ]


def stale(costs: Costs, tiers: Mapping[str, str], files: Collection[str]) -> list[str]:
    """Return a line for each row of these files whose test is gone, or is in another tier.

    `tiers` has the tier of each test that these files have.
    """
    placed = {(file_of(name), tier) for name, tier in tiers.items()}
    return [
        f"{name} is not a {cost.tier} test any more: record {file_of(name)} again"
        for name, cost in costs.items()
        if file_of(name) in files
        and (
            (file_of(name), cost.tier) not in placed
            if name.endswith(OTHERS.format(tier=cost.tier))
            else tiers.get(name) != cost.tier
        )
    ]
