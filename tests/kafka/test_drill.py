"""A drill on real clusters: what it counts is right, and nothing of it is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.group_sides import write_values
from support.links import ends, wait_for, write_config

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.config import read_config_file
from heliostat.errors import BrokerError
from heliostat.handover.drill import DrillWish
from heliostat.handover.drill_report import DrillState
from heliostat.names import GroupId, Offset, PartitionId, TopicPartition
from heliostat.operate.drill import clean_drills, drill

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

FAST = DrillWish(
    partitions=12, records_a_second=200, failover=True, still_s=2.0, load_s=2.0, by="test"
)


class Scene:
    """A link, and what drills of it have made."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.topic = fresh_name("real")
        self.name = fresh_name("rehearsed")
        for cluster in (pair.source, pair.target):
            create_topic(cluster, self.topic, partitions=3)
            write_values(cluster.bootstrap, self.topic, [b"1", b"2"])
            with ClusterAdmin(cluster.bootstrap) as admin:
                commit = {TopicPartition(self.topic, PartitionId(0)): CommittedOffset(Offset(1))}
                group = GroupId(f"{self.name}-readers")
                wait_for("a commit", partial(_is_committed, admin, group, commit), 60.0)
        self.path = write_config(
            folder,
            *(pair.source.bootstrap, pair.target.bootstrap),
            name=self.name,
            topics={"include": [self.topic, "drill-.*"], "refresh_interval_s": 1},
            groups={"sync": True, "include": [f"{self.name}-.*"], "interval_s": 1},
        )

    def real(self) -> list[tuple[object, ...]]:
        """Return what the real link has at both sides: ends, settings, ids and offsets."""
        found = []
        for cluster in (self.pair.source, self.pair.target):
            with ClusterAdmin(cluster.bootstrap) as admin:
                about = admin.describe_topics([self.topic])[self.topic]
                settings = admin.describe_configs([self.topic])[self.topic]
                assert not isinstance(settings, BrokerError)
                offsets = admin.committed_offsets([GroupId(f"{self.name}-readers")])
                there = ends(cluster.bootstrap, {self.topic: 3})
                assert there == {self.topic: [2, 0, 0]}
                found.append((about.topic_id, len(about.partitions), settings, offsets, there))
        return found

    def own(self) -> list[tuple[str, ...]]:
        """Return topics and groups of drills at both clusters, and topics of their rows."""
        sides = []
        for cluster in (self.pair.source, self.pair.target):
            with ClusterAdmin(cluster.bootstrap) as admin:
                names = [*admin.describe_topics(), *admin.list_groups().groups]
            sides.append(
                tuple(sorted(name for name in names if "drill" in name and self.name in name))
            )
        return sides


def _is_committed(
    admin: ClusterAdmin, group: GroupId, commit: Mapping[TopicPartition, CommittedOffset]
) -> bool:
    """Whether it is: a cluster's first group has no coordinator for a while."""
    [answers] = admin.commit_offsets({group: commit}).values()
    return not isinstance(answers, BrokerError) and set(answers.values()) == {None}


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_whole_drill_counts_right_and_leaves_nothing(scene: Scene) -> None:
    """Given a link / when switch, way back and failover are rehearsed / then each record is counted

    once, nothing is left, and its own topics, settings and groups are as they were.
    """
    before = scene.real()
    file = read_config_file(scene.path)
    [link] = file.config.links
    report = drill(file, link, FAST, lambda step: print(step.line(), step.checks, flush=True))
    print(report.markdown())
    assert {step.name: step.state for step in report.steps} == dict.fromkeys(
        [*(step.name for step in report.steps)], DrillState.DONE
    ), report.markdown()
    assert report.verdict.value == "ready", report.markdown()
    assert scene.own() == [(), ()]
    assert scene.real() == before


@pytest.mark.thorough
def test_a_drill_that_is_killed_is_cleaned(scene: Scene) -> None:
    """Given a drill that is killed under load / when drills are cleaned / then nothing is left."""
    file = read_config_file(scene.path)
    [link] = file.config.links
    words = ["drill", scene.name, "-c", str(scene.path), "--yes", "--partitions", "12"]
    command = [sys.executable, "-m", "heliostat.cli.entry", *words]
    with subprocess.Popen(command) as process:
        wait_for("mirrors of the drill", lambda: len(scene.own()[1]) > 6, 240.0)
        time.sleep(2)
        process.kill()
    assert any(scene.own())
    assert len(clean_drills(file, link)) == 1
    assert scene.own() == [(), ()]
    assert clean_drills(file, link) == ()
