"""A link whose rounds run on a Spark cluster, a topic that grows meanwhile, Spark's own page."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from support.clusters import ClusterPair, create_topic
from support.command import heliostat
from support.links import ends, wait_for, write_config
from support.records import encode, odd_records, write_batches

from heliostat.ops.quick_jvm import driver_java_options
from heliostat_sandbox.ports import LOOPBACK

PARTITIONS = 6
BATCH = 200
"""Records of a batch."""
SLOWLY = {"fetch_bytes_max": 100_000, "partition_fetch_bytes_max": 20_000}
"""Small fetches, so that copying is still under way when something is killed."""
FELT_S = 180.0
"""A lane whose executor is killed goes on elsewhere within seconds (1.5 s, 15 s with its worker, on
two free cores, as the test prints); here other tests run beside it."""


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
        return self.ends() == [self.written] * PARTITIONS

    def write_much(self) -> None:
        """Enough to copy for a while; returns when some of it has arrived."""
        before = self.written
        self.write(25)
        wait_for("copying under way", lambda: max(self.ends()) > before)

    def ends(self) -> list[int]:
        """Return the ends of the copy's partitions."""
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
