"""Metrics as text that Prometheus reads; pure.

Written by hand: tens of thousands of lines a second cost a tenth of what a library's objects do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from heliostat.metrics.families import FAMILIES, LATENCY_BOUNDS_S, Family
from heliostat.ops.latency import BUCKETS_PER_DOUBLING

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def labels(values: Mapping[str, object]) -> str:
    """Return labels as they stand between braces."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Samples:
    """Collects samples of families, and writes them in the order of their table."""

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self._families = families
        self._lines: dict[str, list[str]] = {family.name: [] for family in families}

    def add(self, family: Family, labelled: str, value: float | None) -> None:
        """Add a sample; one that is not known (None) is absent."""
        if value is not None:
            braces = f"{{{labelled}}}" if labelled else ""
            self._lines[family.name].append(f"{family.name}{braces} {value}\n")

    def add_latency(self, family: Family, labelled: str, counts: list[int]) -> None:
        """Add a histogram of latencies, counted as in `heliostat.ops.latency`.

        A bucket that reaches beyond a bound counts as above it, so that no latency looks shorter.
        """
        running = list(accumulate(counts))
        lines, start = self._lines[family.name], f"{family.name}_bucket{{{labelled},le="
        uppers = [(2 ** ((i + 1) / BUCKETS_PER_DOUBLING) - 1) / 1000 for i in range(len(counts))]
        for bound in LATENCY_BOUNDS_S:
            below = sum(upper <= bound for upper in uppers)
            lines.append(f'{start}"{bound}"}} {running[below - 1] if below else 0}\n')
        total = running[-1] if running else 0
        lines.append(f'{start}"+Inf"}} {total}\n')
        seconds = sum(upper * count for upper, count in zip(uppers, counts, strict=True))
        lines.append(f"{family.name}_sum{{{labelled}}} {seconds:.6g}\n")
        lines.append(f"{family.name}_count{{{labelled}}} {total}\n")

    def add_histogram(
        self,
        family: Family,
        labelled: str,
        bounds: Sequence[float],
        counts: Sequence[int],
        total: float,
    ) -> None:
        """Add a histogram whose counts are by these bounds; the last one is of all beyond."""
        lines, start = self._lines[family.name], f"{family.name}_bucket{{{labelled},le="
        running = list(accumulate(counts))
        for bound, count in zip((*bounds, "+Inf"), running, strict=True):
            lines.append(f'{start}"{bound}"}} {count}\n')
        lines.append(f"{family.name}_sum{{{labelled}}} {total:.6g}\n")
        lines.append(f"{family.name}_count{{{labelled}}} {running[-1]}\n")

    def text(self) -> str:
        """Return all samples with the meaning and type of each family."""
        parts: list[str] = []
        for family in self._families:
            lines = self._lines[family.name]
            if lines:
                parts.append(f"# HELP {family.name} {_help(family.meaning)}\n")
                parts.append(f"# TYPE {family.name} {family.kind.value}\n")
                parts += lines
        return "".join(parts)


def _help(meaning: str) -> str:
    return meaning.replace("\\", r"\\").replace("\n", " ")
