"""A link on a real standalone Spark cluster whose workers come, go and die while it copies."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from pyspark.sql import SparkSession
from support.clusters import ClusterPair, create_topic
from support.command import heliostat
from support.links import LinkProcess, ends, wait_for, wait_level, write_config
from support.provoked import Provoked
from support.records import encode, odd_records, write_batches

from heliostat.ops.quick_jvm import driver_java_options
from heliostat_sandbox.ports import LOOPBACK, free_ports
from heliostat_sandbox.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINK = "east-to-west"
PARTITIONS = 6
BATCH = 200
"""Records of a batch."""
SLOWLY = {"fetch_bytes_max": 100_000, "partition_fetch_bytes_max": 20_000}
"""Small fetches, so that copying is still under way when something is killed."""
FELT_S = 180.0
"""A lane whose executor is killed goes on elsewhere within seconds (1.5 s, 15 s with its worker, on
two free cores, as the test prints); here other tests run beside it."""


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    """Give a master alone; a test adds workers of one core."""
    with SparkCluster.start(0, worker_cores=1) as cluster:
        yield cluster


WITHOUT_WORKERS = """
import sys
from pyspark.sql import SparkSession
from heliostat.ops.quick_jvm import driver_java_options
from heliostat.ops.spark_session import session_settings, wait_executors
conf = {"spark.driver.extraJavaOptions": driver_java_options()}
settings = session_settings(sys.argv[1], conf)
session = SparkSession.builder.master(sys.argv[1]).config(map=settings).getOrCreate()
try:
    wait_executors(session.sparkContext, 2.0)
finally:
    session.stop()
"""


@pytest.mark.provokes("SPARK_UNAVAILABLE", how="a Spark master without workers; no broker is asked")
def test_a_cluster_without_workers_is_reported(
    spark_cluster: SparkCluster, provoked: Provoked
) -> None:
    """Given a master alone / when an executor is awaited / then the error says what is missing."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_WORKERS, spark_cluster.master],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    provoked("SPARK_UNAVAILABLE", done.stderr)


class Copied:
    """A topic that grows, and how much of it has arrived."""

    def __init__(self, pair: ClusterPair, name: str) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.topic = create_topic(pair.source, name, partitions=PARTITIONS)
        self.written = 0
        self._batch = encode(odd_records(random.Random(name), BATCH))

    def write(self, batches: int = 2) -> None:
        """So many batches into each partition."""
        for partition in range(PARTITIONS):
            write_batches(self.source, self.topic, [self._batch] * batches, partition=partition)
        self.written += batches * BATCH

    def arrived(self) -> bool:
        return self._ends() == [self.written] * PARTITIONS

    def write_much(self) -> None:
        """Enough to copy for a while; returns when some of it has arrived."""
        before = self.written
        self.write(25)
        wait_for("copying under way", lambda: max(self._ends()) > before)

    def _ends(self) -> list[int]:
        return ends(self.target, {self.topic: PARTITIONS})[self.topic]

    def write_and_wait(self, within_s: float = FELT_S) -> float:
        """Seconds until all partitions have what was written now."""
        began_s = time.monotonic()
        self.write()
        wait_for(f"{self.written} records in each partition", self.arrived, within_s)
        return time.monotonic() - began_s


def configured(folder: Path, pair: ClusterPair, topic: str, master: str, **conf: str) -> Path:
    """A link whose rounds run on `master`."""
    config = write_config(
        folder,
        pair.source.bootstrap,
        pair.target.bootstrap,
        topics={"include": [topic], "refresh_interval_s": 1},
        records=SLOWLY,
    )
    read = yaml.safe_load(config.read_text())
    read["spark"] = {
        "master": master,
        "conf": {
            "spark.executor.extraJavaOptions": driver_java_options(),
            **conf,
        },
    }
    config.write_text(yaml.safe_dump(read))
    return config


def assert_verified(config: Path, records: int) -> None:
    """Assert by `heliostat verify`, run on this machine only, that both sides are equal."""
    done = heliostat(config, "verify", "--json", "--master", "local[2]")
    assert done.returncode == 0, done.said
    answer = done.json
    answer = answer[0] if isinstance(answer, list) else answer
    problems = {name: answer[name] for name in ("lost", "doubled", "reordered", "different")}
    assert problems == dict.fromkeys(problems, 0), answer
    assert answer["records"] == records, answer


class Page:
    """Spark's own page of a running link; what does not answer yet has nothing to show."""

    def __init__(self, port: int) -> None:
        self._base = f"http://{LOOPBACK}:{port}/api/v1/applications"

    def _ask(self, path: str) -> list[dict[str, Any]]:
        try:
            (application,) = self._read("")
            return self._read(f"/{application['id']}/{path}")
        except OSError:
            return []

    def _read(self, path: str) -> list[dict[str, Any]]:
        address = self._base + path
        with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310  # loopback
            found: list[dict[str, Any]] = json.load(answer)
            return found

    def rounds(self, of_lanes: int) -> dict[str, str] | None:
        """Descriptions of jobs by group (link and lane), when exactly so many lanes have one."""
        jobs = self._ask("jobs?status=running")
        found = {job["jobGroup"].rsplit("/", 2)[0]: job["description"] for job in jobs}
        return found if len(found) == of_lanes else None

    def busy_executors(self) -> int:
        """How many executors have a task now."""
        executors = self._ask("executors")
        return sum(1 for one in executors if one["id"] != "driver" and one["activeTasks"])


def workers_of(cluster: SparkCluster) -> list[psutil.Process]:
    """Python processes of all executors."""
    return [
        child
        for worker in cluster.workers
        for executor in worker.executors()
        for child in executor.children(recursive=True)
    ]


def test_lanes_share_the_workers_and_no_worker_fault_costs_a_record(
    cluster_pair: ClusterPair, spark_cluster: SparkCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Given a link on workers / when executors, workers, the driver come and go / then exact."""
    copied = Copied(cluster_pair, "cluster-" + tmp_path.name)
    (port,) = free_ports(1)
    place = tmp_path, cluster_pair, copied.topic, spark_cluster.master
    page = Page(port)
    copied.write()
    for _ in range(2):
        spark_cluster.add_worker()
    with_page = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    with LinkProcess(configured(*place, **with_page)) as link:
        wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
        # One lane a core, one core a worker: each worker runs one.
        wait_for("a round on each worker", lambda: page.busy_executors() == 2)
        rounds = wait_for("both lanes", lambda: page.rounds(of_lanes=2))
        assert set(rounds) == {f"{LINK}/0", f"{LINK}/1"}
        for group, text in rounds.items():
            assert text.startswith(f"{LINK} lane {group[-1]}, round "), text
            assert f" partitions, {copied.topic}-" in text, text

        copied.write_much()
        assert spark_cluster.workers[0].kill_executors() == 1
        print(f"executor killed: felt {copied.write_and_wait():.1f} s")

        wait_for("both workers busy again", lambda: page.busy_executors() == 2)
        spark_cluster.remove_worker(spark_cluster.workers[1])
        copied.write_and_wait()
        spark_cluster.add_worker()
        wait_for("both workers busy", lambda: page.busy_executors() == 2)
        copied.write_and_wait()
        spark_cluster.add_worker()
        wait_for("one more lane", lambda: page.rounds(of_lanes=3))

        copied.write_much()
        spark_cluster.kill_worker(spark_cluster.workers[0])
        print(f"worker killed: felt {copied.write_and_wait():.1f} s")

        # The driver is killed: its executors and their Python must not copy on.
        copied.write_much()
        link.kill_driver()
    wait_for("no Python of a dead driver", lambda: not workers_of(spark_cluster), 60)
    spark_cluster.kill_worker(spark_cluster.workers[0])  # one is enough for what follows
    with LinkProcess(config := configured(*place)) as link:
        copied.write_and_wait()
        assert_verified(config, copied.written * PARTITIONS)
        assert link.stop() == 0, link.text()
    wait_for("the program's end at the master", lambda: not spark_cluster.applications(), 60)
    assert not workers_of(spark_cluster)
