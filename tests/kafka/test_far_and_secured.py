"""A link whose target is 300 ms away, over TLS with SCRAM: distance alone is told as no fault."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import yaml
from kafka import KafkaProducer
from reach import Way, offered, way
from support.clusters import HEAP_MB, create_topic, fresh_name
from support.links import RunningLink, wait_for, wait_level, write_config

from heliostat_sandbox import Cluster, ClusterSpec, FarLine, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

ROUND_TRIP_MS = 300
TOPICS = 10
PARTITIONS = 2
LOAD_S = 20.0
EVERY_S = 0.25
WAITING = "waiting for its owner"
TROUBLE = re.compile(r"WARN|ERROR|retr|silent|lease|halted|Traceback", re.IGNORECASE)


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    """Give a source nearby and a target far away, both with TLS and SCRAM."""
    source, target = start_many(
        [
            ClusterSpec("near-and-secured", heap_mb=HEAP_MB, security=offered()),
            ClusterSpec(
                "far-and-secured",
                heap_mb=HEAP_MB,
                security=offered(),
                line=FarLine(ROUND_TRIP_MS),
            ),
        ]
    )
    with source, target:
        yield source, target


class Load:
    """Writes a record to each partition of its topics, again and again, until the block ends."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.topics = topics
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for topic in self.topics:
                for partition in range(PARTITIONS):
                    self._producer.send(topic, b"x" * 300, partition=partition)
            self._producer.flush()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.close()


def troubles(*links: RunningLink) -> list[str]:
    """Return the lines of logs that tell of more than a link's ordinary life."""
    lines = [line for link in links for line in link.text().splitlines()]
    return [line for line in lines if TROUBLE.search(line) and WAITING not in line]


def config_of(folder: Path, ways: list[Way], include: str) -> Path:
    """Write a link's configuration, with the security of both clusters."""
    folder.mkdir()
    bootstraps = [each.bootstrap for each in ways]
    path = write_config(folder, *bootstraps, topics={"include": [include]}, lanes={})
    config = yaml.safe_load(path.read_text())
    for cluster, each in zip(config["clusters"].values(), ways, strict=True):
        cluster["security"] = dict(each.security)
    path.write_text(yaml.safe_dump(config))
    return path


def test_nothing_that_a_link_does_over_a_long_line_looks_like_a_fault(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given 300 ms, TLS and SCRAM, and records all the time / when a link starts, gets a topic,

    hands over to its standby, and stops / then all is copied, without a word of trouble.
    """
    source, target = clusters
    prefix = fresh_name("far")
    topics = [create_topic(source, f"{prefix}-{n}", partitions=PARTITIONS) for n in range(TOPICS)]
    ways = [way(cluster, secure=True) for cluster in (source, target)]
    configs = [config_of(tmp_path / name, ways, f"{prefix}-.*") for name in ("active", "standby")]
    with Load(source.bootstrap, [*topics]) as load, RunningLink(configs[0]) as active:
        wait_for("the first owner", lambda: "runs" in active.text(), 60)
        with RunningLink(configs[1]) as standby:
            wait_for("a standby", lambda: WAITING in standby.text(), 60)
            threading.Event().wait(LOAD_S / 2)
            topics.append(create_topic(source, f"{prefix}-late", partitions=PARTITIONS))
            load.topics.append(topics[-1])
            wait_for("the new topic", lambda: "created 1 topic" in active.text(), 60)
            threading.Event().wait(LOAD_S / 2)
            assert active.stop(30) == 0, active.text()
            wait_for("the standby's turn", lambda: " runs" in standby.text(), 60)
            threading.Event().wait(LOAD_S / 2)
            load.__exit__()
            wait_level(standby, source.bootstrap, target.bootstrap, dict.fromkeys(topics, 2))
            assert standby.stop(30) == 0, standby.text()
            assert not troubles(active, standby), active.text() + standby.text()
