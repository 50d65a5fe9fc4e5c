"""A drill on real clusters: what it counts is right, and nothing of it is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import wait_for, write_config

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import read_config_file
from heliostat.handover.drill import DrillWish
from heliostat.handover.drill_report import DrillState
from heliostat.operate.drill import clean_drills, drill

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

FAST = DrillWish(
    partitions=12, records_a_second=200, failover=True, still_s=2.0, load_s=2.0, by="test"
)


class Scene:
    """A link, and what drills of it have made."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.topic = create_topic(pair.source, fresh_name("real"), partitions=3)
        self.name = fresh_name("rehearsed")
        self.path = write_config(
            folder,
            *(pair.source.bootstrap, pair.target.bootstrap),
            name=self.name,
            topics={"include": [self.topic, "drill-.*"], "refresh_interval_s": 1},
            groups={"sync": True, "include": [f"{self.name}-.*"], "interval_s": 1},
        )

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


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_whole_drill_counts_right_and_leaves_nothing(scene: Scene) -> None:
    """Given a link / when switch, way back and failover are rehearsed / then each record is counted

    once, and nothing is left.
    """
    file = read_config_file(scene.path)
    [link] = file.config.links
    report = drill(file, link, FAST, lambda step: print(step.line(), step.checks, flush=True))
    print(report.markdown())
    assert {step.name: step.state for step in report.steps} == dict.fromkeys(
        [*(step.name for step in report.steps)], DrillState.DONE
    ), report.markdown()
    assert report.verdict.value == "ready", report.markdown()
    assert scene.own() == [(), ()]


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
