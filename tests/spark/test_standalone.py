"""A link on a real standalone Spark cluster: spread, killed, shrunk and grown while it copies."""

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
from support.clusters import ClusterPair, create_topic
from support.links import RunningLink, ends, wait_for, wait_level, write_config
from support.records import encode, odd_records, write_batches

from heliostat.sandbox.ports import LOOPBACK, free_ports
from heliostat.sandbox.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINK = "east-to-west"
PARTITIONS = 6
FELT_S = 30.0
"""A lane whose executor is killed goes on elsewhere: seconds, on a busy machine a multiple."""


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    with SparkCluster.start(2, worker_cores=1) as cluster:
        yield cluster


class Copied:
    """A topic that grows, and how much of it has arrived."""

    def __init__(self, pair: ClusterPair, name: str) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.topic = create_topic(pair.source, name, partitions=PARTITIONS)
        self.written = 0
        self._batch = encode(odd_records(random.Random(name), 100))

    def write(self, batches: int = 2) -> None:
        """So many batches into each partition."""
        for partition in range(PARTITIONS):
            write_batches(self.source, self.topic, [self._batch] * batches, partition=partition)
        self.written += batches * 100

    def arrived(self) -> bool:
        found = ends(self.target, {self.topic: PARTITIONS})[self.topic]
        return found == [self.written] * PARTITIONS

    def write_and_wait(self, within_s: float = 90.0) -> float:
        """Seconds until all partitions have what was written now."""
        began_s = time.monotonic()
        self.write()
        wait_for(f"{self.written} records in each partition", self.arrived, within_s)
        return time.monotonic() - began_s


def configured(folder: Path, pair: ClusterPair, topic: str, master: str, **conf: str) -> Path:
    """A link whose rounds run on `master`, with Spark's page."""
    config = write_config(
        folder,
        pair.source.bootstrap,
        pair.target.bootstrap,
        topics={"include": [topic], "refresh_interval_s": 1},
    )
    read = yaml.safe_load(config.read_text())
    read["spark"] = {"master": master, "conf": {"spark.ui.enabled": "true", **conf}}
    config.write_text(yaml.safe_dump(read))
    return config


def assert_verified(config: Path, records: int) -> None:
    """Both sides are equal by content, told by `heliostat verify` on this machine alone."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "heliostat.cli.main", "verify", "--json"),
            *("-c", str(config), "--master", "local[2]"),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    answer = answer[0] if isinstance(answer, list) else answer
    problems = {name: answer[name] for name in ("lost", "doubled", "reordered", "different")}
    assert problems == dict.fromkeys(problems, 0), answer
    assert answer["records"] == records, answer


class Page:
    """Spark's own page of a running link."""

    def __init__(self, port: int) -> None:
        self._base = f"http://{LOOPBACK}:{port}/api/v1/applications"

    def _ask(self, path: str) -> Any:
        address = self._base + path
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310  # loopback
            return json.load(answer)

    def running_jobs(self) -> list[dict[str, Any]]:
        """Jobs that run now."""
        (application,) = self._ask("")
        return list(self._ask(f"/{application['id']}/jobs?status=running"))

    def busy_executors(self) -> dict[str, int]:
        """Tasks that run now, by executor."""
        (application,) = self._ask("")
        executors = self._ask(f"/{application['id']}/executors")
        return {one["id"]: one["activeTasks"] for one in executors if one["id"] != "driver"}


def workers_of(cluster: SparkCluster) -> list[psutil.Process]:
    """Python processes of all executors."""
    return [
        child
        for worker in cluster.workers
        for executor in worker.executors()
        for child in executor.children(recursive=True)
    ]


def test_lanes_share_the_workers_and_no_fault_of_them_costs_a_record(
    cluster_pair: ClusterPair, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    """Given a link on two workers / when executors die, a worker goes and comes / then exact."""
    copied = Copied(cluster_pair, "cluster-" + tmp_path.name)
    (port,) = free_ports(1)
    config = configured(
        tmp_path, cluster_pair, copied.topic, spark_cluster.master, **{"spark.ui.port": str(port)}
    )
    page = Page(port)
    copied.write()
    with RunningLink(config) as link:
        wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
        # One lane a core, one core a worker: each worker runs one.
        wait_for("a round on each worker", lambda: sorted(page.busy_executors().values()) == [1, 1])
        described = wait_for(
            "two jobs", lambda: len(page.running_jobs()) == 2 and page.running_jobs()
        )
        texts = sorted(job["description"] for job in described)
        assert [text.startswith(f"{LINK} lane ") for text in texts] == [True, True], texts
        assert all("3 partitions, cluster-" in text for text in texts), texts
        assert {job["jobGroup"] for job in described} == {f"{LINK}/0", f"{LINK}/1"}

        assert spark_cluster.workers[0].kill_executors() == 1
        felt_s = copied.write_and_wait()
        assert felt_s < FELT_S, link.text()

        wait_for("two executors again", lambda: len(page.busy_executors()) == 2)
        spark_cluster.remove_worker(spark_cluster.workers[1])
        copied.write_and_wait()
        spark_cluster.add_worker()
        wait_for("both workers busy", lambda: sorted(page.busy_executors().values())[-2:] == [1, 1])
        copied.write_and_wait()

        spark_cluster.kill_worker(spark_cluster.workers[0])
        felt_s = copied.write_and_wait()
        assert felt_s < FELT_S, link.text()
        assert_verified(config, copied.written * PARTITIONS)
        assert link.stop() == 0, link.text()
    wait_for("the program's end at the master", lambda: not spark_cluster.applications(), 20)
    assert not workers_of(spark_cluster)


def test_more_workers_give_more_lanes(
    cluster_pair: ClusterPair, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    """Given a link / when a worker joins / then one more lane, and all records once."""
    copied = Copied(cluster_pair, "grow-" + tmp_path.name)
    (port,) = free_ports(1)
    config = configured(
        tmp_path, cluster_pair, copied.topic, spark_cluster.master, **{"spark.ui.port": str(port)}
    )
    page = Page(port)
    before = len(spark_cluster.workers)

    def groups() -> set[str]:
        return {job["jobGroup"] for job in page.running_jobs()}

    copied.write()
    with RunningLink(config) as link:
        wait_level(link, copied.source, copied.target, {copied.topic: PARTITIONS})
        wait_for("a lane a worker", lambda: len(groups()) == before)
        spark_cluster.add_worker()
        wait_for("one more lane", lambda: len(groups()) == before + 1)
        copied.write_and_wait()
        # The driver is killed: its executors and their Python must not copy on.
        link.kill_driver()
    wait_for("no Python of a dead driver", lambda: not workers_of(spark_cluster), 20)
    with RunningLink(config) as link:
        copied.write_and_wait()
        assert_verified(config, copied.written * PARTITIONS)
        assert link.stop() == 0, link.text()
