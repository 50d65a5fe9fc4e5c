"""A real `heliostat serve`, and what it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families
from support.links import wait_for

from heliostat.metrics import families as f

TOLD_WITHIN_S = 15.0
"""The issue's limit; a report, a look and a scrape each take their time."""


class Served:
    """A `heliostat serve` process, and what it answers."""

    def __init__(self, config: Path) -> None:
        words = ("serve", "-c", str(config), "--listen", "127.0.0.1:0")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "heliostat.cli.entry", *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().removeprefix("serving at ").strip()

    def answer(self, path: str) -> tuple[int, str]:
        answer = httpx.get(self.url + path, timeout=10)
        return answer.status_code, answer.text

    def values(self, family: f.Family) -> dict[str, float]:
        """Samples of a family by the values of their labels, without the link's own."""
        _, text = self.answer("metrics")
        return {
            "/".join(list(sample.labels.values())[len(f.LINK) :]): sample.value
            for read in text_string_to_metric_families(text)
            for sample in read.samples
            if sample.name == family.name
        }

    def wait(self, what: str, is_so: Callable[[], object]) -> None:
        wait_for(what, is_so, TOLD_WITHIN_S)


def texts(served: Served, link: str) -> list[str]:
    _, events = served.answer(f"api/v1/events?link={link}")
    return [row["text"] for row in json.loads(events)["items"]]
