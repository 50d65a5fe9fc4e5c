"""Workers are added to a Spark cluster and taken away while a link copies without a break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.clusters import ClusterPair
from support.links import LinkProcess, wait_for, wait_level
from support.spark_links import PARTITIONS, Copied, Page, assert_verified, configured

from heliostat_sandbox.ports import free_ports
from heliostat_sandbox.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

EVERY_S = 0.2
"""A batch into each partition, and a look at the target's ends, that often."""
SETTLES_S = 5.0
"""Lanes that have just begun still take partitions over."""
GRACEFUL_PAUSE_S = 45.0
"""No partition stands still for longer while workers come or leave in good order: a few seconds on
free cores, as the test prints."""
LOST_PAUSE_S = 120.0
"""The same for a worker that is killed: its leases must be over."""


class Load:
    """A topic that is written without a break, and for how long each partition's copy stood still.

    Parameters
    ----------
    copied
        The topic.
    """

    def __init__(self, copied: Copied) -> None:
        self._copied = copied
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._grew_at_s: dict[int, float] = {}
        self._longest_s = 0.0
        self._threads = [
            threading.Thread(target=self._repeat, args=(what,), daemon=True)
            for what in (lambda: copied.write(1), self._look)
        ]
        self._ends = [0] * PARTITIONS

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write within the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def longest_pause_s(self) -> float:
        """Return for how long a partition stood still since this was last asked."""
        with self._lock:
            now_s = time.monotonic()
            pauses = [now_s - since_s for since_s in self._grew_at_s.values()]
            longest_s, self._longest_s = max(self._longest_s, *pauses), 0.0
            return longest_s

    def _repeat(self, what: Callable[[], None]) -> None:
        while not self._over.wait(EVERY_S):
            what()

    def _look(self) -> None:
        ends, now_s = self._copied.ends(), time.monotonic()
        with self._lock:
            for partition, end in enumerate(ends):
                since_s = self._grew_at_s.setdefault(partition, now_s)
                if end > self._ends[partition]:
                    self._longest_s = max(self._longest_s, now_s - since_s)
                    self._grew_at_s[partition] = now_s
            self._ends = ends


def test_lanes_follow_workers_that_come_and_go_under_load(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given one worker / when two come, one leaves, one is killed / then lanes follow; exact."""
    copied = Copied(cluster_pair, "elastic-" + tmp_path.name)
    (port,) = free_ports(1)
    page = Page(port)
    with_page = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    copied.write()
    load = Load(copied)
    with SparkCluster.start(1, worker_cores=1) as spark:
        config = configured(tmp_path, cluster_pair, copied.topic, spark.master, **with_page)
        with LinkProcess(config) as link:
            wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
            with load.running():

                def follows(workers: int, lanes: tuple[int, ...]) -> bool:
                    busy = page.busy_executors() == workers
                    return busy and any(page.rounds(of_lanes=each) for each in lanes)

                def step(what: str, workers: int, lanes: tuple[int, ...], pause_s: float) -> None:
                    began_s = time.monotonic()
                    wait_for(f"{lanes} lanes on {workers}", lambda: follows(workers, lanes), 240)
                    took_s = time.monotonic() - began_s
                    time.sleep(SETTLES_S)
                    longest_s = load.longest_pause_s()
                    print(f"{what}: lanes there after {took_s:.1f} s, pause {longest_s:.1f} s")
                    assert longest_s < pause_s

                step("one worker", 1, (1,), GRACEFUL_PAUSE_S)
                spark.add_worker()
                spark.add_worker()
                step("two more", 3, (3,), GRACEFUL_PAUSE_S)
                # Its lane is elsewhere at once; there are fewer lanes a minute later.
                spark.remove_worker(spark.workers[0])
                step("one has left", 2, (2, 3), GRACEFUL_PAUSE_S)
                spark.add_worker()
                step("one more", 3, (3,), GRACEFUL_PAUSE_S)
                spark.kill_worker(spark.workers[0])
                step("one killed", 2, (2, 3), LOST_PAUSE_S)
                step("a minute later", 2, (2,), GRACEFUL_PAUSE_S)
            copied.write_and_wait()
            assert_verified(config, copied.written * PARTITIONS)
            assert link.stop() == 0, link.text()
