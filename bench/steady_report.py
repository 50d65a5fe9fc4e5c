"""The tables of `bench/compare steady`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from footprint import FIGURES, TOTAL
from rich.console import Console
from rich.table import Table

LATENCIES = {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "p999_ms": "p99.9 ms", "max_ms": "max ms"}
ENDS = 4
"""Samples at each end of the printed table; the file has all of them."""


def show(report: Mapping[str, Any]) -> None:
    """Print latencies, what is held, and what grew."""
    console = Console(width=None if Console().is_terminal else 140)
    block = report["ours"]
    if block["finished"]:
        console.print(_latencies(report))
        cores = block["broker_cpu_cores"]
        console.print(
            f"cores: {block['cpu_cores']}, brokers {cores['source']} + {cores['target']}; "
            f"{block['records_per_s']} records/s; {block['seen_twice']} records were seen twice"
        )
    else:
        console.print(f"did not finish: {block['reason']}\n{block['output_tail']}", markup=False)
    console.print(_held(report["samples"]))
    console.print(_growth(report["growth"]["series"]))
    console.print(_verdict(report))


def _latencies(report: Mapping[str, Any]) -> Table:
    block = report["ours"]
    table = _table(f"latency, {report['minutes']:g} minutes", "minute", *LATENCIES.values())
    table.add_column("records", justify="right")
    rows = [("all", block), *((f"from {each['from_min']:g}", each) for each in block["slices"])]
    for name, figures in rows:
        cells = (f"{figures[latency]}" for latency in LATENCIES)
        table.add_row(name, *cells, f"{figures['records']:,}")
    return table


def _held(samples: Any) -> Table:
    table = _table("what all processes hold", "minute", *FIGURES)
    for each in _ends(samples):
        cells = (f"{each[TOTAL][figure]:,}" for figure in FIGURES)
        table.add_row(f"{each['at_s'] / 60:.1f}", *cells)
    return table


def _ends(samples: Any) -> Iterator[Mapping[str, Any]]:
    for n, each in enumerate(samples):
        if n < ENDS or n >= len(samples) - ENDS:
            yield each


def _growth(series: Mapping[str, Mapping[str, Any] | None]) -> Table:
    headings = ("first", "last", "median", "slope/h", "at least", "floor", "limit/h", "grows")
    table = _table("the last two thirds of all samples", "series", *headings)
    for name, line in series.items():
        if line is None:
            table.add_row(name, "too few samples")
            continue
        *figures, grows = line.values()
        table.add_row(name, *(f"{each:,.1f}" for each in figures), "GROWS" if grows else "no")
    return table


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _verdict(report: Mapping[str, Any]) -> str:
    found = report["growth"]
    said = f"grew: {', '.join(found['grew'])}" if found["grew"] else "nothing grew"
    return said if found["judged"] else f"{said}, but the run is too short to judge"
