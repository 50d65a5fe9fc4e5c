"""`bench/compare steady`: Heliostat alone under the EFD's load for an hour; nothing may grow.

Every 30 s the kernel is asked what driver, JVM and Python workers hold. The load and the watcher
are those of `live.py`, so latencies are measured as there, over the whole time and for every five
minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import delays
import live
import live_main
import machine
import psutil
import report
import steady_report
from clusters import KAFKA_VERSION, Pair, create_topics, pair_of_clusters
from delays import Window
from footprint import DAEMON, DRIVER, JVM, TOTAL, WORKER, Footprint, footprint
from growth import Limit, settled, trend
from live_scenarios import SMALL, STEADY, Live
from wire import Connection, WireError

from heliostat_sandbox import find_java

NAME = "steady"
RETENTION = {
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "1048576",
    "log.retention.check.interval.ms": "30000",
}
"""Brokers delete what is old, as in operation: an hour of records is more than fits in memory."""
SMALL_IDLE = {"connections.max.idle.ms": "5000"}
"""Brokers close idle connections after ten minutes: in a small run after seconds."""
SAMPLE_S = 30.0
SMALL_SAMPLE_S = 1.0
SLICE_S = 300.0
JUDGED_FROM_MIN = 10.0
"""In a shorter time the JVM and the workers still warm up: growth is reported, but no failure."""
MEMORY = Limit(share=0.05, more=10.0)
COUNT = Limit(share=0.0, more=0.0)
JUDGED: Mapping[str, tuple[Sequence[str], str, Limit]] = {
    "memory (PSS)": ((TOTAL,), "pss_mb", MEMORY),
    "memory (RSS)": ((TOTAL,), "rss_mb", MEMORY),
    "driver's memory (PSS)": ((DRIVER,), "pss_mb", MEMORY),
    "JVM's memory (PSS)": ((JVM,), "pss_mb", MEMORY),
    # Together: what a worker shares with its daemon is the daemon's alone once the worker ends.
    "daemon's and workers' memory (PSS)": ((DAEMON, WORKER), "pss_mb", MEMORY),
    "sockets": ((TOTAL,), "sockets", COUNT),
    "open files": ((TOTAL,), "files", COUNT),
    "threads": ((TOTAL,), "threads", COUNT),
    "Python workers": ((WORKER,), "processes", COUNT),
}
"""Roles and figure of what must not grow."""
EXIT_FAILED = 1


class Sampler:
    """Takes a sample whenever one is due."""

    def __init__(
        self, take: Callable[[], Footprint], every_s: float, clock: Callable[[], float]
    ) -> None:
        self.samples: list[dict[str, Any]] = []
        self._take = take
        self._every_s = every_s
        self._clock = clock
        self._began_s: float | None = None

    def look(self) -> None:
        """Take one if it is time; the first call begins the measurement."""
        now_s = self._clock()
        if self._began_s is None:
            self._began_s = now_s
        at_s = now_s - self._began_s
        if at_s >= len(self.samples) * self._every_s:
            self.samples.append({"at_s": round(at_s, 2), **self._take()})


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure, report, and fail if something grew or did not finish."""
    scenario = SMALL[NAME] if given.small else STEADY
    if given.minutes:
        scenario = dataclasses.replace(scenario, window_s=given.minutes * 60)
    with pair_of_clusters(
        storage=scenario.storage,
        heap_mb=scenario.heap_mb,
        small=scenario.small,
        settings={**RETENTION, **(SMALL_IDLE if scenario.small else {})},
    ) as pair:
        about = machine.describe(find_java(), KAFKA_VERSION, pair.logs)
        block, samples = measured(scenario, pair, folder)
    judged = growth(samples, scenario.window_s / 60)
    document = {
        "scenario": NAME,
        "shape": {**scenario.shape(), "rate": scenario.rates[0], "brokers": RETENTION},
        "machine": about,
        "minutes": scenario.window_s / 60,
        "ours": block,
        "growth": judged,
        "samples": samples,
    }
    if given.json:
        report.write(given.json, document)
    steady_report.show(document)
    return EXIT_FAILED if not block["finished"] or judged["failed"] else 0


def measured(
    scenario: Live, pair: Pair, folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run Heliostat under load; return its block and the samples, also of a run that failed."""
    streams = scenario.streams()
    create_topics(pair.source, {each.topic: each.partitions for each in streams})
    seeds = live.seed_all(pair, streams)
    folder.mkdir(parents=True, exist_ok=True)
    replicator, prefix, _ = live_main.replicator_of("ours", scenario, pair, folder)
    every_s = SMALL_SAMPLE_S if scenario.small else SAMPLE_S
    samples: list[dict[str, Any]] = []
    try:
        with live.replicating(scenario, pair, replicator, streams, prefix) as running:
            assert running.process
            root = psutil.Process(running.process.pid)
            sampler = Sampler(lambda: footprint(root), every_s, time.monotonic)
            samples = sampler.samples
            return under_load(running, seeds, sampler.look), samples
    except (live.Unfinished, WireError, OSError) as error:  # an hour's samples must not be lost
        tail = live_main.output_tail(folder)
        return {"finished": False, "reason": str(error), "output_tail": tail}, samples


def under_load(run: live.LiveRun, seeds: int, look: Callable[[], None]) -> dict[str, Any]:
    """Measure one window; return its figures, those of each five minutes too."""
    started = run.wait_started(seeds)
    with live.watching(run) as watch:
        window, counted = live.at_rate(run, run.live.rates[0], 0, look)
        seen = run.wait_seen(window, watch)
        # A connection of its own: the broker has closed the run's, which was idle in the window.
        with Connection(run.pair.target) as target:
            dataclasses.replace(run, target=target).wait_landed(seeds + len(window.sent))
    return {
        "finished": True,
        **window.figures(seen),
        "records_per_s": delays.rate_per_s(window.sent, window.begin_ns, window.end_ns),
        "slices": [
            {"from_min": round((part.begin_ns - window.begin_ns) / 60e9, 2), **part.figures(seen)}
            for part in slices(window)
        ],
        **live.used(*counted),
        **started,
    }


def slices(window: Window) -> Iterator[Window]:
    """Yield the window in five minutes each; the last one may be shorter."""
    step_ns = round(SLICE_S * 1e9)
    for begin_ns in range(window.begin_ns, window.end_ns, step_ns):
        end_ns = min(begin_ns + step_ns, window.end_ns)
        yield dataclasses.replace(window, begin_ns=begin_ns, end_ns=end_ns)


def growth(samples: Sequence[Mapping[str, Any]], minutes: float) -> dict[str, Any]:
    """Judge each series by its last two thirds; too short a run is not judged as a whole."""
    late = settled(samples)
    at_s = [each["at_s"] for each in late]
    found: dict[str, Any] = {}
    for name, (roles, figure, limit) in JUDGED.items():
        line = trend(at_s, [sum(each[role][figure] for role in roles) for each in late], limit)
        found[name] = line.told() if line else None
    grew = [name for name, line in found.items() if line and line["grows"]]
    is_judged = minutes >= JUDGED_FROM_MIN and all(found.values())
    return {"judged": is_judged, "failed": is_judged and bool(grew), "grew": grew, "series": found}
