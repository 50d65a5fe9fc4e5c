"""A link of ours with `heliostat serve` beside it, measured in windows that take turns.

What `bench/compare watched` and `steered` have in common: brokers, load, link, and the report.
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import live
import live_main
import machine
import ours
import psutil
import report
from clusters import KAFKA_VERSION, Pair, create_topics, pair_of_clusters
from live_scenarios import Live
from rich.console import Console
from rich.table import Table

from heliostat_sandbox import find_java

SERVED = re.compile(r"watch it at (http\S+)")
SERVES_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """The process that serves, and where."""

    pid: int
    url: str

    def memory_mb(self) -> int:
        """Resident memory."""
        return round(psutil.Process(self.pid).memory_info().rss / 1e6)


@dataclass(frozen=True, slots=True)
class ServedLink:
    """A link under way; `seeds` records were in its topics before it began."""

    running: live.LiveRun
    seeds: int
    about: Mapping[str, Any]


@contextmanager
def served_link(
    scenario: Live, folder: Path, prepare: Callable[[Pair], None] | None = None
) -> Iterator[ServedLink]:
    """Start brokers and a link that serves; end them after the block.

    Parameters
    ----------
    prepare
        Fills the source with more topics before the link begins.
    """
    brokers: dict[str, Any] = {"storage": scenario.storage, "heap_mb": scenario.heap_mb}
    with pair_of_clusters(**brokers, small=scenario.small) as pair:
        about = machine.describe(find_java(), KAFKA_VERSION, pair.logs)
        streams = scenario.streams()
        create_topics(pair.source, {stream.topic: stream.partitions for stream in streams})
        seeds = live.seed_all(pair, streams)
        if prepare:
            prepare(pair)
        wanted = ours.config(*pair.ways(), scenario.patterns())
        wanted["service"] = {"listen": "127.0.0.1:0"}
        command = ours.command(folder, wanted, serve=True)
        part = live_main.live_part("ours", command, folder, signal.SIGTERM)
        with live.replicating(scenario, pair, part, streams, ours.PREFIX) as running:
            yield ServedLink(running, seeds, about)


def service_of(running: live.LiveRun) -> Service:
    """Wait until the link serves."""
    until_s = time.monotonic() + SERVES_WITHIN_S
    output = running.folder / "output.log"
    assert running.process
    while (address := SERVED.search(output.read_text())) is None:
        if time.monotonic() > until_s:
            raise live.Unfinished("nothing is served")
        time.sleep(live.LOOK_S)
    for child in psutil.Process(running.process.pid).children():
        if "serve" in child.cmdline():
            return Service(child.pid, address[1])
    raise live.Unfinished("the process that serves is none of the driver's")


@dataclass(frozen=True, slots=True)
class Turns:
    """What windows by turns came to.

    Parameters
    ----------
    columns
        Figures of a window for the table.
    floors
        The most that a ratio may be.
    """

    name: str
    rate: int
    turns: Sequence[Mapping[str, Any]]
    ratios: Mapping[str, float]
    columns: Sequence[str]
    floors: Mapping[str, float]

    def report(self, given: argparse.Namespace, link: ServedLink, **more: Any) -> None:
        """Write the document if a file is asked for, and print the table."""
        shape = {**link.running.live.shape(), "rate": self.rate, "turns": len(self.turns)}
        document = {
            "scenario": self.name,
            "shape": shape,
            "machine": link.about,
            **more,
            "turns": self.turns,
            "ratios": self.ratios,
        }
        if given.json:
            report.write(given.json, document)
        self.show()

    def missed(self) -> list[str]:
        """Name the floors that do not hold."""
        return missed(self.ratios, self.floors)

    def show(self) -> None:
        """Print the table and the ratios."""
        console = Console(width=None if Console().is_terminal else 140)
        table = Table(title=f"{self.name}: {self.rate:,} records/s, {len(self.turns)} windows")
        table.add_column("case")
        for name in self.columns:
            table.add_column(name, justify="right")
        for turn in self.turns:
            table.add_row(turn["case"], *(f"{turn.get(name, '')}" for name in self.columns))
        console.print(table)
        for name, ratio in self.ratios.items():
            floor = f" (at most {self.floors[name]:g})" if name in self.floors else ""
            console.print(f"{name}: {ratio:g}{floor}")


def missed(ratios: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """Name the ratios that are above what they may be."""
    return [name for name, most in floors.items() if ratios[name] > most]
