"""The report of a live scenario: ratios by case, the JSON document, the table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reach import Far
from rich.console import Console
from rich.table import Table

BASE_LINE = "base_line"
"""The same load and watcher on one broker, without a replicator."""
PARTS = ("ours", "ours_merged", "mm2_default", "mm2_tuned", BASE_LINE)
OTHERS = {"default": "mm2_default", "tuned": "mm2_tuned"}
FIGURES = {
    "p50": "p50_ms",
    "p99": "p99_ms",
    "p999": "p999_ms",
    "cpu": "cpu_cores",
    "memory": "memory_mb",
    "memory_pss": "memory_pss_mb",
    "start": "start_to_first_s",
    "backlog": "backlog_records_per_s",
}
LATENCIES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}
DIGITS = 4
MS_DIGITS = 3
WITH, LIMITED, WITHOUT = "with_backlog", "limited", "without_backlog"
HEADINGS = (
    *("p50 ms", "p99 ms", "p99.9 ms", "max ms", "records"),
    *("cores", "broker cores", "MB", "PSS MB", "first s", "backlog/s"),
)

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Measured blocks by part and case; a case is a rate, or with or without backlog."""


def ratios(results: Results) -> dict[str, float | None]:
    """Return ours divided by theirs; null if one did not finish.

    Names are `<figure>_vs_<default|tuned>`, followed by the rate if a scenario has several.
    """
    found: dict[str, float | None] = {}
    mine = results.get("ours", {})
    cases = [case for part in results.values() for case in part if case != WITHOUT]
    for case in dict.fromkeys(cases):
        suffix = "" if case == WITH else f"_{case}"
        for short, part in OTHERS.items():
            if part not in results:
                continue
            theirs = results.get(part, {}).get(case, {})
            for name, figure in FIGURES.items():
                if _known(mine.get(case, {}), figure) or _known(theirs, figure):
                    found[f"{name}_vs_{short}{suffix}"] = _quotient(
                        mine.get(case, {}), theirs, figure
                    )
            sides = _broker_cores(mine.get(case, {})), _broker_cores(theirs)
            found[f"broker_cpu_vs_{short}{suffix}"] = _divided(*sides)
        for name in ("p50", "p99", "cpu") if "ours_merged" in results else ():
            merged = results["ours_merged"].get(case, {})
            quotient = _quotient(merged, mine.get(case, {}), FIGURES[name])
            found[f"{name}_merged_vs_plain{suffix}"] = quotient
    if LIMITED in cases:
        quotient = _quotient(mine.get(LIMITED, {}), mine.get(WITHOUT, {}), "p99_ms")
        found["p99_limited_vs_no_backlog"] = quotient
    if WITH in cases:
        found["p99_vs_no_backlog"] = _quotient(mine.get(WITH, {}), mine.get(WITHOUT, {}), "p99_ms")
    return found


def above_base_line(results: Results) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return each latency less the base line's in ms, by part and case; null if one is unknown.

    Empty if no base line was measured.
    """
    base = results.get(BASE_LINE, {})
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for part, cases in results.items() if base else ():
        for case, block in cases.items() if part != BASE_LINE else ():
            found.setdefault(part, {})[case] = {
                name: _less(block, base.get(case, {}), name) for name in LATENCIES
            }
    return found


def _less(block: Mapping[str, Any], base: Mapping[str, Any], figure: str) -> float | None:
    if not _known(block, figure) or not _known(base, figure):
        return None
    return round(float(block[figure] - base[figure]), MS_DIGITS)


def _known(block: Mapping[str, Any], figure: str) -> bool:
    return bool(block.get("finished")) and block.get(figure) is not None


def _quotient(mine: Mapping[str, Any], theirs: Mapping[str, Any], figure: str) -> float | None:
    if not _known(mine, figure) or not _known(theirs, figure):
        return None
    return _divided(mine[figure], theirs[figure])


def _divided(mine: float | None, theirs: float | None) -> float | None:
    return None if mine is None or not theirs else round(mine / theirs, DIGITS)


def _broker_cores(block: Mapping[str, Any]) -> float | None:
    if not _known(block, "broker_cpu_cores"):
        return None
    both = block["broker_cpu_cores"]
    return float(both["source"] + both["target"])


def document(
    shape: Mapping[str, Any], machine: Mapping[str, Any], results: Results
) -> dict[str, Any]:
    """Return the whole report; a part that was not requested is null."""
    return {
        "scenario": shape["name"],
        "shape": dict(shape),
        "machine": dict(machine),
        **{part: _part(results[part]) if part in results else None for part in PARTS},
        "ratios": ratios(results),
        "above_base_line": above_base_line(results),
    }


def _part(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    finished = all(block["finished"] for block in cases.values())
    return {"finished": finished, "cases": dict(cases)}


def earlier(file: Path, shape: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Read the cases of an existing report of the same shape, so that parts can run one by one."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    if found.get("shape") != json.loads(json.dumps(dict(shape))):
        raise SystemExit(f"{file} holds another scenario or size: give another file")
    return {part: found[part]["cases"] for part in PARTS if found.get(part)}


def show(report: Mapping[str, Any]) -> None:
    """Print the table and the ratios."""
    console = Console(width=None if Console().is_terminal else 140)
    table = Table(title=f"{report['scenario']}: {_words(report['shape'])}")
    table.add_column("case")
    table.add_column("part")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    rows = list(_blocks(report))
    for case, part, block in rows:
        table.add_row(case, part, *_cells(block))
    console.print(table)
    if report["above_base_line"]:
        console.print(_above(report["above_base_line"]))
    for case, part, block in rows:
        if not block["finished"]:
            console.print(f"{case} {part} did not finish: {block['reason']}")
        elif block.get("seen_twice"):
            console.print(f"{case} {part}: {block['seen_twice']} records were seen twice")
    for name, ratio in report["ratios"].items():
        console.print(f"{name}: {'unknown' if ratio is None else f'{ratio:g}'}")


def _above(found: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> Table:
    table = Table(title="above the base line, ms")
    for heading in ("case", "part"):
        table.add_column(heading)
    for heading in LATENCIES.values():
        table.add_column(heading, justify="right")
    for part, cases in found.items():
        for case, less in cases.items():
            cells = ("unknown" if ms is None else f"{ms:+}" for ms in less.values())
            table.add_row(case, part, *cells)
    return table


def _blocks(report: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    cases = [case for part in PARTS for case in (report[part] or {}).get("cases", {})]
    for case in dict.fromkeys(cases):
        for part in PARTS:
            block = (report[part] or {}).get("cases", {}).get(case)
            if block is not None:
                yield case, part, block


def _cells(block: Mapping[str, Any]) -> list[str]:
    if not block["finished"]:
        return ["did not finish"]
    return [
        *(f"{block[name]}" for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms", "records")),
        _cell(block, "cpu_cores"),
        " + ".join(f"{cores}" for cores in block["broker_cpu_cores"].values()),
        _cell(block, "memory_mb"),
        _cell(block, "memory_pss_mb"),
        _cell(block, "start_to_first_s"),
        _cell(block, "backlog_records_per_s"),
    ]


def _cell(block: Mapping[str, Any], figure: str) -> str:
    """Return the figure, or nothing where it means nothing (a base line has no replicator)."""
    return f"{block[figure]:,}" if figure in block else ""


def _words(shape: Mapping[str, Any]) -> str:
    said = f"{shape['window_s']:g} s after {shape['warm_s']:g} s, logs on {shape['storage']}"
    said += Far(**shape["far"]).words()
    backlog = shape["backlog_records"]
    return f"{said}, backlog {backlog:,} records" if backlog else said
