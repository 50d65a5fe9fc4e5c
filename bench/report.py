"""From measured parts to the report: ratios, the JSON file, the table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reach import Far
from rich.console import Console
from rich.table import Table

PARTS = (
    *("mm2_default", "mm2_tuned", "ours", "append_limit"),
    *("ours_1_worker", "ours_2_workers", "ours_merged"),
)
RATIOS = {
    # name: (part to divide ours by, figure, which of several codecs is the worse one)
    "throughput_vs_tuned": ("mm2_tuned", "records_per_s", min),
    "cpu_vs_tuned": ("mm2_tuned", "cpu_s_per_million_records", max),
    "of_append_limit": ("append_limit", "records_per_s", min),
}
OF_OURS = {
    # name: (another part of ours, figure, worse); divided by `ours`
    "throughput_1_worker_vs_local": ("ours_1_worker", "records_per_s", min),
    "throughput_2_workers_vs_local": ("ours_2_workers", "records_per_s", min),
    "cpu_1_worker_vs_local": ("ours_1_worker", "cpu_s_per_million_records", max),
    "cpu_2_workers_vs_local": ("ours_2_workers", "cpu_s_per_million_records", max),
    "throughput_merged_vs_plain": ("ours_merged", "records_per_s", min),
    "cpu_merged_vs_plain": ("ours_merged", "cpu_s_per_million_records", max),
}
"""Only in the report if such a part ran."""
WORSE = {"records_per_s": min, "mb_per_s": min, "cpu_s_per_million_records": max}
"""A part's own figure over several codecs: the worse one."""
DIGITS = 3
HEADINGS = (
    "records/s",
    "MB/s",
    "CPU s/M",
    "CPU s all",
    "memory MB",
    "seconds",
    "first s",
    "broker CPU s",
)

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Measured blocks by part and codec."""


def ratios(results: Results, codecs: tuple[str, ...]) -> dict[str, Any]:
    """Return ours divided by theirs by codec, and the worst of the codecs on top.

    A ratio is null unless both parts finished, and null on top unless it is known for every codec.
    """
    wanted = {name: ("ours", *rest) for name, rest in RATIOS.items()}
    for name, (part, figure, worse) in OF_OURS.items():
        if part in results:
            wanted[name] = (part, "ours", figure, worse)
    by_codec: dict[str, dict[str, float | None]] = {}
    for codec in codecs:
        by_codec[codec] = {
            name: _quotient(
                results.get(part, {}).get(codec, {}), results.get(other, {}).get(codec, {}), figure
            )
            for name, (part, other, figure, _) in wanted.items()
        }
    top: dict[str, Any] = {}
    for name, (_, _, _, worse) in wanted.items():
        values = [by_codec[codec][name] for codec in codecs]
        known = [value for value in values if value is not None]
        top[name] = worse(known) if len(known) == len(codecs) else None
    return {**top, "by_codec": by_codec}


def _quotient(mine: Mapping[str, Any], other: Mapping[str, Any], figure: str) -> float | None:
    if not mine.get("finished") or not other.get("finished") or not other.get(figure):
        return None
    return round(float(mine[figure]) / float(other[figure]), DIGITS)


def summary(by_codec: Mapping[str, Mapping[str, Any]], codecs: tuple[str, ...]) -> dict[str, Any]:
    """Return one part's block: `finished` and the worse figures on top, all under `by_codec`."""
    finished = all(by_codec.get(codec, {}).get("finished") for codec in codecs)
    block: dict[str, Any] = {"finished": finished}
    for figure, worse in WORSE.items():
        block[figure] = worse(by_codec[codec][figure] for codec in codecs) if finished else None
    return {**block, "by_codec": dict(by_codec)}


def document(
    scenario: Mapping[str, Any],
    machine: Mapping[str, Any],
    results: Results,
    codecs: tuple[str, ...],
) -> dict[str, Any]:
    """Return the whole report; a part that was not requested is null."""
    parts = {name: summary(results[name], codecs) if name in results else None for name in PARTS}
    return {
        "scenario": scenario["name"],
        "shape": dict(scenario),
        "machine": dict(machine),
        "ours": parts["ours"],
        "mm2_default": parts["mm2_default"],
        "mm2_tuned": parts["mm2_tuned"],
        "append_limit": parts["append_limit"],
        **{name: parts[name] for name in PARTS if name.startswith("ours_") and parts[name]},
        "ratios": ratios(results, codecs),
    }


def earlier(file: Path, scenario: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Read the parts of an existing report of the same shape, so that parts can run one by one."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    if found.get("shape") != json.loads(json.dumps(dict(scenario))):
        raise SystemExit(f"{file} holds another scenario or size: give another file")
    return {name: found[name]["by_codec"] for name in PARTS if found.get(name)}


def write(file: Path, report: Mapping[str, Any]) -> None:
    """Write the report atomically."""
    beside = file.with_name(file.name + ".part")
    beside.write_text(json.dumps(report, indent=2) + "\n")
    beside.replace(file)


def show(report: Mapping[str, Any], codecs: tuple[str, ...]) -> None:
    """Print the table and the ratios."""
    console = Console(width=None if Console().is_terminal else 120)
    table = Table(title=f"{report['scenario']}: {_words(report['shape'])}")
    table.add_column("codec")
    table.add_column("part")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for codec, name, block in _blocks(report, codecs):
        table.add_row(codec, _title(name, block), *_cells(block))
    console.print(table)
    for codec, name, block in _blocks(report, codecs):
        if not block["finished"]:
            console.print(f"{codec} {name} did not finish: {block['reason']}")
        elif "settings" in block:
            console.print(f"{codec} {name}: {block['settings']}")
    for name in report["ratios"]["by_codec"][codecs[0]]:
        parts = [
            f"{codec} {_number(values[name])}"
            for codec, values in report["ratios"]["by_codec"].items()
        ]
        console.print(f"{name}: {_number(report['ratios'][name])} ({', '.join(parts)})")


def _blocks(
    report: Mapping[str, Any], codecs: tuple[str, ...]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for codec in codecs:
        for name in PARTS:
            block = (report.get(name) or {}).get("by_codec", {}).get(codec)
            if block is not None:
                yield codec, name, block


def _title(name: str, block: Mapping[str, Any]) -> str:
    shape = block.get("shape")
    return f"{name} ({shape})" if shape else name


def _cells(block: Mapping[str, Any]) -> list[str]:
    if not block["finished"]:
        return ["did not finish"]
    broker = block["broker_cpu_s"]
    return [
        f"{block['records_per_s']:,}",
        f"{block['mb_per_s']:,}",
        f"{block['cpu_s_per_million_records']}",
        f"{block['cpu_s_with_start']}",
        f"{block.get('memory_mb', '')}",
        f"{block['seconds']}",
        f"{block['start_to_first_s']}",
        f"{broker['source']} + {broker['target']}",
    ]


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def _words(shape: Mapping[str, Any]) -> str:
    said = (
        f"{shape['records']:,} records of {shape['record_bytes']} bytes, "
        f"{shape['batch_records']} a batch, {shape['partitions']} partitions"
    )
    said += Far(**shape["far"]).words()
    return said + ", SASL_SSL with SCRAM-SHA-512" if shape["secure"] else said
