"""The service holds no more after an hour than after some minutes, for an EFD that is asked about.

An hour passes in ten minutes: reports, history and events come at six times their pace.
"""

from __future__ import annotations

import time

import httpx
import psutil
import pytest
from support.browser import shown_links

pytestmark = pytest.mark.long

TOPICS, PARTITIONS, PACE = 3_348, 5_000, 6
WARM_S, WATCHED_S = 120, 480
MEMORY_MAX_MB, GROWTH_MAX_MB = 150, 4
LINK = "api/v1/links/summit-to-usdf"
PATHS = ("metrics", "api/v1/links", LINK, f"{LINK}/topics?limit=500", f"{LINK}/history?step=5",
         "api/v1/events?after=0")  # fmt: skip


def test_an_hour_of_an_efd_leaves_nothing_behind() -> None:
    with (
        shown_links(topics=TOPICS, partitions=PARTITIONS, pace=PACE) as address,
        httpx.Client(timeout=20) as client,
    ):
        (server,) = [child for child in psutil.Process().children() if "--pace" in child.cmdline()]

        def ask_for(seconds: float) -> float:
            """Ask for all again and again; return the service's memory (MB) thereafter."""
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                for path in PATHS:
                    client.get(address + path).raise_for_status()
                time.sleep(1)
            return float(server.memory_info().rss / 1e6)

        before_mb = ask_for(WARM_S)
        after_mb = ask_for(WATCHED_S)
        cores = sum(server.cpu_times()[:2]) / (WARM_S + WATCHED_S)
    print(f"{before_mb:.1f} MB, an hour later {after_mb:.1f} MB, {cores:.3f} cores")
    assert after_mb <= MEMORY_MAX_MB
    assert after_mb - before_mb <= GROWTH_MAX_MB
