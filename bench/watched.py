"""`bench/compare watched`: what it costs to be watched, and how quick answers are meanwhile.

Ours alone, under the load of `latency`, with `heliostat serve` beside it. Windows take turns: one
in which nobody asks, one in which 200 clients ask for the link's status each second. Processor
time of copying is all of the driver's processes but the service's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import live
import live_main
import ours
from live_scenarios import LIVE, SMALL
from measure import own_cpu_s
from served import ServedLink, Service, Turns, served_link, service_of

NAME = "watched"
RATE = 5_000
TURNS = 3
CLIENTS, SMALL_CLIENTS = 200, 20
ALONE, ASKED = "alone", "asked"
COLUMNS = ("p50_ms", "p99_ms", "copying_cores", "serve_cores", "serve_mb", "answers",
           "answer_p99_ms", "failed")  # fmt: skip
FLOORS = {"cpu": 1.1, "p99": 1.5, "answer_p99_ms": 200.0}
"""Copying's processor time and latency by those without clients, and the time of an answer."""
EXIT_FAILED = 1


def run(given: argparse.Namespace, folder: Path) -> int:
    """Measure in turns, report, and fail if a floor does not hold."""
    small = bool(given.small)
    scenario = dataclasses.replace((SMALL if small else LIVE)["latency"], rates=(RATE,))
    if not small:
        scenario = dataclasses.replace(scenario, warm_s=10, window_s=60)
    with served_link(scenario, folder) as link:
        blocks = list(windows(link, SMALL_CLIENTS if small else CLIENTS))
        turns = Turns(NAME, RATE, blocks, ratios(blocks), COLUMNS, FLOORS)
        turns.report(given, link)
    failed = turns.missed() or turns.ratios["failed"]
    return EXIT_FAILED if not small and failed else 0


def windows(link: ServedLink, clients: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each window, alone and asked by turns."""
    running, sent = link.running, link.seeds
    running.wait_started(sent)
    service = service_of(running)
    with live.watching(running) as watch:
        for number in range(2 * TURNS):
            case = (ALONE, ASKED)[number % 2]
            with asking(service, clients if case == ASKED else 0, running.folder) as answers:
                served_s, began_s = own_cpu_s(service.pid), time.monotonic()
                window, counted = live.at_rate(running, RATE, number * live.NUMBERS_APART)
                served_s = own_cpu_s(service.pid) - served_s
                serve_cores = served_s / (time.monotonic() - began_s)
            sent += len(window.sent)
            seen = running.wait_seen(window, watch)
            running.wait_landed(sent)
            used = live.used(*counted)
            block = {
                "case": case,
                **window.figures(seen),
                **used,
                "copying_cores": round(used["cpu_cores"] - serve_cores, 3),
                "serve_cores": round(serve_cores, 3),
                "serve_mb": service.memory_mb(),
                **answered(answers),
            }
            live_main.note(f"{case}: {block}")
            yield block


def answered(answers: dict[str, Any]) -> dict[str, Any]:
    """Return how the clients fared; nothing where none asked."""
    if not answers:
        return {}
    took_ms = answers["took_ms"]
    return {
        "answers": len(took_ms),
        "answer_p99_ms": round(quantiles(took_ms, n=100)[-1], 1),
        "answer_bytes": answers["answer_bytes"],
        "failed": answers["failed"],
    }


@contextmanager
def asking(service: Service, clients: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Let clients ask during the block; afterwards what is yielded holds how it went."""
    answers: dict[str, Any] = {}
    if not clients:
        yield answers
        return
    place = urlsplit(service.url)
    path = f"/api/v1/links/{ours.LINK}"
    words = ("--host", place.hostname, "--port", place.port, "--path", path, "--clients", clients)
    command = [sys.executable, str(live.HERE / "askers.py"), *map(str, words)]
    with (folder / "askers.log").open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise live.Unfinished((folder / "askers.log").read_text()[-500:])
            yield answers
            process.send_signal(signal.SIGTERM)
            answers |= json.loads(process.stdout.read())
        finally:
            process.kill()
            process.wait()


def ratios(turns: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return medians of the turns with clients by those without."""

    def middle(case: str, figure: str) -> float:
        return float(median(turn[figure] for turn in turns if turn["case"] == case))

    return {
        "cpu": round(middle(ASKED, "copying_cores") / middle(ALONE, "copying_cores"), 3),
        "p99": round(middle(ASKED, "p99_ms") / middle(ALONE, "p99_ms"), 3),
        "answer_p99_ms": round(middle(ASKED, "answer_p99_ms"), 1),
        "failed": sum(turn.get("failed", 0) for turn in turns),
        "serve_cores_unasked": middle(ALONE, "serve_cores"),
    }
