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
import ours
from clusters import Pair, create_topics
from live_scenarios import LIVE, SMALL, Live
from served import ServedLink, Service, Turns, served_link, service_of
from stamped import Stream

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
COLUMNS = ("p50_ms", "p99_ms", "max_ms", "cpu_cores", "wishes", "wish_max_s")
WISH_WITHIN_S = 15.0
EXIT_FAILED = 1


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure in turns, report, and fail if a floor does not hold."""
    scenario = scenario_of(small=bool(given.small))
    with served_link(scenario, folder, fill_resting) as link:
        blocks = list(windows(link))
        maps = len(ours.map_rows(link.running.pair.target))
        turns = Turns(NAME, RATE, blocks, ratios(blocks), COLUMNS, FLOORS)
        turns.report(given, link, map_rows=maps)
    if not maps:
        raise live.Unfinished(f"the mirror of {MAPPED} has no map")
    return EXIT_FAILED if not scenario.small and turns.missed() else 0


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


def windows(link: ServedLink) -> Iterator[dict[str, Any]]:
    """Yield the figures of each window, by turns."""
    running, sent = link.running, link.seeds
    running.wait_started(sent)
    service = service_of(running)
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
