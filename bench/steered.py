"""`bench/compare steered`: what it costs the others that one topic is steered.

Ours alone, under the EFD's load, with `heliostat serve` beside it. Windows take turns: one in which
nobody wishes anything, one with a limit far above the load, one in which two quiet topics are
paused and resumed in turn: a plain one, and one whose mirror has a map. What is measured is
everybody else: latency and processor time of all other topics, and how long a wish takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.error import HTTPError

import holes
import live
import live_main
import machine
import ours
import report
from clusters import KAFKA_VERSION, Pair, create_topics, pair_of_clusters
from live_scenarios import LIVE, SMALL, Live
from rich.console import Console
from rich.table import Table
from stamped import Stream
from watched import Service, service_of

from heliostat_sandbox import find_java

NAME = "steered"
RATE = 300
TURNS = 3
ALONE, LIMITED, PAUSING = CASES = ("alone", "limited", "pausing")
LIMIT = "1GB/s"
"""Some ten thousand times the load."""
EVERY_S = 2.0
"""Between two wishes."""
PLAIN, MAPPED = "lsst.rests.plain", "lsst.rests.mapped"
RECORDS = 1_000
FLOORS = {"p99_limited": 1.25, "cpu_limited": 1.1, "p99_pausing": 1.25, "wish_p99_s": 2.0}
"""Latency and processor time by those of windows without a wish; windows of the same kind differ by
as much. And how long a wish takes."""
WISH_WITHIN_S = 15.0
EXIT_FAILED = 1


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure in turns, report, and fail if a floor does not hold."""
    scenario = scenario_of(small=bool(given.small))
    brokers: dict[str, Any] = {"storage": scenario.storage, "heap_mb": scenario.heap_mb}
    with pair_of_clusters(**brokers, small=scenario.small) as pair:
        about = machine.describe(find_java(), KAFKA_VERSION, pair.logs)
        streams = scenario.streams()
        create_topics(pair.source, {stream.topic: stream.partitions for stream in streams})
        seeds = live.seed_all(pair, streams)
        fill_resting(pair)
        wanted = ours.config(*pair.ways(), scenario.patterns())
        wanted["service"] = {"listen": "127.0.0.1:0"}
        command = ours.command(folder, wanted, serve=True)
        part = live_main.live_part("ours", command, folder, signal.SIGTERM)
        with live.replicating(scenario, pair, part, streams, ours.PREFIX) as running:
            turns = list(windows(running, seeds))
            maps = len(ours.map_rows(pair.target))
    by_figure = ratios(turns)
    document = {
        "scenario": NAME,
        "shape": {**scenario.shape(), "rate": RATE, "turns": TURNS},
        "machine": about,
        "map_rows": maps,
        "turns": turns,
        "ratios": by_figure,
    }
    if given.json:
        report.write(given.json, document)
    show(document)
    if not maps:
        raise live.Unfinished(f"the mirror of {MAPPED} has no map")
    return EXIT_FAILED if not scenario.small and missed(by_figure) else 0


def scenario_of(*, small: bool) -> Live:
    """Return the EFD's load, in shorter windows: there are nine of them."""
    scenario = dataclasses.replace((SMALL if small else LIVE)["efd"], rates=(RATE,))
    return scenario if small else dataclasses.replace(scenario, warm_s=10, window_s=45)


def fill_resting(pair: Pair) -> None:
    """Write the topics that rest: one of transactions, whose mirror has a map."""
    create_topics(pair.source, {PLAIN: 1, MAPPED: 1})
    live.seed_all(pair, [Stream(PLAIN, 1, 1.0, 200)])
    holes.fill_transactions(
        pair.source, MAPPED, partitions=1, records=RECORDS, record_bytes=200, each=10
    )


def windows(running: live.LiveRun, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each window, by turns."""
    running.wait_started(seeds)
    service = service_of(running)
    sent = seeds
    with live.watching(running) as watch:
        for number in range(len(CASES) * TURNS):
            case = CASES[number % len(CASES)]
            took_s: list[float] = []
            if case == LIMITED:
                wish(service, "limit", limit=LIMIT)
            each_second = pausing(service, took_s) if case == PAUSING else None
            window, counted = live.at_rate(running, RATE, number * live.NUMBERS_APART, each_second)
            if case == LIMITED:
                wish(service, "limit", limit="none")
            sent += len(window.sent)
            seen = running.wait_seen(window, watch)
            running.wait_landed(sent)
            block = {"case": case, **window.figures(seen), **live.used(*counted)}
            if took_s:
                block |= {"wishes": len(took_s), "wish_max_s": max(took_s), "took_s": took_s}
            live_main.note(f"{case}: {block}")
            yield block


def pausing(service: Service, took_s: list[float]) -> Callable[[], None]:
    """Return what pauses or resumes one of the topics whenever it is time, and notes how long."""
    steps = count()
    verbs = [(verb, topic) for topic in (PLAIN, MAPPED) for verb in ("pause", "resume")]
    due_s = [time.monotonic()]

    def step() -> None:
        if time.monotonic() < due_s[0]:
            return
        due_s[0] = time.monotonic() + EVERY_S
        verb, topic = verbs[next(steps) % len(verbs)]
        took_s.append(wish(service, f"topics/{topic}/{verb}"))

    return step


def wish(service: Service, path: str, **body: str) -> float:
    """Wish something by the API; return the seconds until its owner has carried it out."""
    url = f"{service.url.rstrip('/')}/api/v1/links/{ours.LINK}/{path}?wait_s={WISH_WITHIN_S:g}"
    request = urllib.request.Request(  # noqa: S310 - the service's own address
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    began_s = time.monotonic()
    try:
        answer = urllib.request.urlopen(request, timeout=WISH_WITHIN_S + 5)  # noqa: S310 - the same
        with answer:
            is_done = answer.status == 200
    except HTTPError as error:
        raise live.Unfinished(f"{path}: {error.code}: {error.read()[:500]!r}") from error
    if not is_done:
        raise live.Unfinished(f"{path} was not carried out within {WISH_WITHIN_S:g} s")
    took_s = time.monotonic() - began_s
    return round(took_s, 3)


def ratios(turns: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return medians of steered windows by those of the others, and the time of wishes."""

    def by_alone(case: str, figure: str) -> float:
        middle = {
            kind: median(turn[figure] for turn in turns if turn["case"] == kind)
            for kind in (case, ALONE)
        }
        return round(float(middle[case] / middle[ALONE]), 3)

    took_s = sorted(each for turn in turns for each in turn.get("took_s", ()))
    return {
        "p50_limited": by_alone(LIMITED, "p50_ms"),
        "p99_limited": by_alone(LIMITED, "p99_ms"),
        "cpu_limited": by_alone(LIMITED, "cpu_cores"),
        "p50_pausing": by_alone(PAUSING, "p50_ms"),
        "p99_pausing": by_alone(PAUSING, "p99_ms"),
        "cpu_pausing": by_alone(PAUSING, "cpu_cores"),
        "wishes": len(took_s),
        "wish_p50_s": took_s[len(took_s) // 2],
        "wish_p99_s": took_s[-1 - len(took_s) // 100],
    }


def missed(figures: dict[str, float]) -> list[str]:
    """Name the floors that do not hold."""
    return [name for name, most in FLOORS.items() if figures[name] > most]


def show(document: dict[str, Any]) -> None:
    """Print the table and the ratios."""
    console = Console(width=None if Console().is_terminal else 140)
    table = Table(title=f"{NAME}: {RATE:,} records/s, {TURNS} turns")
    names = ("p50_ms", "p99_ms", "max_ms", "cpu_cores", "wishes", "wish_max_s")
    table.add_column("case")
    for name in names:
        table.add_column(name, justify="right")
    for turn in document["turns"]:
        table.add_row(turn["case"], *(f"{turn.get(name, '')}" for name in names))
    console.print(table)
    for name, figure in document["ratios"].items():
        floor = f" (at most {FLOORS[name]:g})" if name in FLOORS else ""
        console.print(f"{name}: {figure:g}{floor}")
