"""Limits that lanes share: a topic's, wished before its link runs and changed, and the link's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import RunningLink, ends, wait_level, write_config
from support.records import Sample, encode, write_batches

from heliostat.names import TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

MB = 1_000_000
RECORD_BYTES, PARTITIONS, BATCH_RECORDS = 10_000, 2, 10
SECONDS = 6.0


class Scene:
    """A link with a limited topic, which has a backlog, and one that is free."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        prefix = fresh_name("limited")
        self.slow, self.free = (
            create_topic(pair.source, f"{prefix}-{name}", partitions=PARTITIONS)
            for name in ("slow", "free")
        )
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            self.source,
            self.target,
            name=self.name,
            topics={"include": [rf"{prefix}-.*"]},
            lanes={"lease_s": 5, "count": 2},  # which share the limit
        )

    def write(self, topic: TopicName, batches: int) -> None:
        """Append batches of incompressible records to each partition of a topic."""
        now_ms = int(time.time() * 1000)
        value = os.urandom(RECORD_BYTES)
        batch = encode([Sample(b"k", value, now_ms)] * BATCH_RECORDS)
        for partition in range(PARTITIONS):
            write_batches(self.source.split(","), topic, [batch] * batches, partition=partition)

    def bytes_of(self, topic: TopicName) -> int:
        """Bytes of a topic that are at the target."""
        landed: Mapping[TopicName, Any] = ends(self.target, {topic: PARTITIONS})
        return sum(landed[topic]) * RECORD_BYTES

    def rates(self, *topics: TopicName) -> list[float]:
        """Bytes a second of topics that land in some seconds from now on."""
        begin, begin_s = [self.bytes_of(topic) for topic in topics], time.monotonic()
        time.sleep(SECONDS)
        took_s = time.monotonic() - begin_s
        end = [self.bytes_of(topic) for topic in topics]
        return [(e - b) / took_s for b, e in zip(begin, end, strict=True)]

    def limit(self, rate: str, *place: str) -> None:
        """Wish a limit while the link runs."""
        answer = heliostat(self.config, "limit", self.name, rate, *place, "--json")
        assert answer.json["is_done"], answer.said
        assert answer.json["took_s"] < 3.0

    def status(self) -> dict[str, Any]:
        [status] = heliostat(self.config, "status", "--json").json
        return dict(status)


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_topic_is_limited_beside_a_free_one_while_it_runs(scene: Scene) -> None:
    """Given a backlog, and a limit wished before / then it is copied at that limit, another topic

    at once, the limit changes while it runs, beside one of the link; `none` lifts each, and no
    round begins anew.
    """
    scene.write(scene.slow, batches=250)
    told = heliostat(
        scene.config, "limit", scene.name, "2MB/s", "--topic", scene.slow, "--why", "x"
    )
    assert told.returncode == 1, told.said
    assert "has no owner now" in told.stdout
    with RunningLink(scene.config) as link:
        until(lambda: scene.bytes_of(scene.slow) > MB, link.text)
        before = scene.status()["driver"]["generations"]
        scene.write(scene.free, batches=50)
        began_s = time.monotonic()
        wait_level(link, scene.source, scene.target, {scene.free: PARTITIONS})
        assert time.monotonic() - began_s < 5.0, "the free topic waited for the limited one"
        assert scene.rates(scene.slow)[0] == pytest.approx(2 * MB, rel=0.05)
        [limit] = scene.status()["limits"]
        assert (limit["topic"], limit["bytes_per_second"], limit["why"]) == (
            scene.slow,
            2 * MB,
            "x",
        )
        assert limit["throttled_s"] > 5.0
        assert limit["used_bytes_per_second"] == pytest.approx(2 * MB, rel=0.2)
        scene.limit("4MB/s")
        scene.write(scene.free, batches=200)
        scene.limit("1MB/s", "--topic", scene.slow)
        rates = scene.rates(scene.slow, scene.free)
        assert rates[0] == pytest.approx(MB, rel=0.08), "a topic's limit has changed"
        assert sum(rates) == pytest.approx(4 * MB, rel=0.05), "lanes share the limit of the link"
        lanes = scene.status()["lanes"]
        assert [lane["bytes_per_s"] > 0 for lane in lanes] == [True, True], lanes
        preferred = heliostat(scene.config, "prefer", scene.name, scene.free, "high", "--json")
        assert preferred.json["is_done"], preferred.said
        for place in (("--topic", scene.slow), ()):
            scene.limit("none", *place)
        wait_level(link, scene.source, scene.target, {scene.slow: PARTITIONS})
        scene.write(scene.free, batches=1)
        wait_level(link, scene.source, scene.target, {scene.free: PARTITIONS})
        status = scene.status()
        assert status["limits"] == []
        assert [each["priority"] for each in status["preferences"]] == ["high"]
        assert status["driver"]["generations"].items() <= before.items(), "a round began anew"
        assert link.stop() == 0, link.text()
