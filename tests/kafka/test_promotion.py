"""A mirror that is given away is written by others, and never again by its link."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import LinkProcess, ends, wait_for, wait_level, write_config
from support.records import Sample, encode, write_everywhere, write_marked

from heliostat.config import load_config
from heliostat.handover.promotion import FencedBy, PromotedBy
from heliostat.names import PartitionId, TopicName
from heliostat.operate.promotion import Promoted, promote
from heliostat.state.link_state import LinkState

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

PARTITIONS = 2


class Scene:
    """A link of three topics, one of which has a map."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = pair.source.bootstrap, pair.target.bootstrap
        self.prefix = fresh_name("given")
        self.moved, self.kept = (
            create_topic(pair.source, f"{self.prefix}-{letter}", partitions=PARTITIONS)
            for letter in "ab"
        )
        self.mapped = create_topic(pair.source, f"{self.prefix}-mapped")
        write_marked(self.source.split(","), self.mapped, 3)
        self.topics = {self.moved: PARTITIONS, self.kept: PARTITIONS}
        self.config_file = write_config(
            folder,
            self.source,
            self.target,
            name=fresh_name("link"),
            topics={"include": [rf"{self.prefix}-.*"], "refresh_interval_s": 1},
            lanes={"lease_s": 6},
        )
        self.config = load_config(self.config_file)
        [self.link] = self.config.links
        self.write(self.source)

    def write(self, bootstrap: str, *topics: TopicName) -> None:
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        chosen = dict.fromkeys(topics or self.topics, PARTITIONS)
        write_everywhere(bootstrap.split(","), chosen, batch)

    def promote(self, *topics: TopicName) -> Promoted:
        return promote(self.config, self.link, topics, PromotedBy.SWITCH, by="a test", within_s=5.0)

    def moved_ends(self) -> list[int]:
        return [int(end) for end in ends(self.target, self.topics)[self.moved]]


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_a_link_leaves_what_it_gave_away_and_copies_the_rest(scene: Scene) -> None:
    """Given a link under way / when two mirrors are given away / then its owner says so soon,

    others write there, what the source still gets does not cross, also after a restart.
    """
    with LinkProcess(scene.config_file) as link:
        wait_level(link, scene.source, scene.target, scene.topics)
        given = scene.promote(scene.moved, scene.mapped)
        assert given.fenced_by is FencedBy.OWNER
        assert given.took_s["fence"] < 5.0
        moved, mapped = (
            next(each.ends for each in given.promotions if each.topic == name)
            for name in (scene.moved, scene.mapped)
        )
        assert moved is not None
        assert [(part.source_end, part.target_end) for part in moved.partitions.values()] == [
            (1, 1)
        ] * PARTITIONS
        assert mapped is not None
        assert mapped.partitions[PartitionId(0)].source_end in {5, 6}  # a marker after each record
        assert mapped.partitions[PartitionId(0)].target_end == 3
        scene.write(scene.target, scene.moved)
        scene.write(scene.source)
        wait_level(link, scene.source, scene.target, {scene.kept: PARTITIONS})
        assert scene.moved_ends() == [2] * PARTITIONS
        assert scene.promote(scene.moved, scene.mapped).promotions == given.promotions
        assert link.stop(signal.SIGTERM) == 0
    with LinkProcess(scene.config_file) as link:
        scene.write(scene.source)
        wait_level(link, scene.source, scene.target, {scene.kept: PARTITIONS})
        assert scene.moved_ends() == [2] * PARTITIONS
        link.kill_all()
    with closing(LinkState(scene.link, scene.config.clusters[scene.link.target])) as state:
        stored = state.read()
    assert set(stored.promoted) == {scene.moved, scene.mapped}
    assert set(stored.mirrors) == {scene.kept}


def test_the_leases_of_a_driver_that_is_frozen_are_waited_out(scene: Scene) -> None:
    """Given a driver and its workers that are frozen / when a mirror is given away / then it

    waits,

    and once they come back, records of the source do not cross.
    """
    with LinkProcess(scene.config_file) as link:
        wait_level(link, scene.source, scene.target, scene.topics)
        frozen = [process for process in link.tree() if process.is_running()]
        for process in frozen:
            process.suspend()
        scene.write(scene.source)
        given = scene.promote(scene.moved)
        assert given.fenced_by is FencedBy.LEASE
        scene.write(scene.target, scene.moved)
        for process in frozen:
            process.resume()
        wait_for(
            "the other topic is copied",
            lambda: [int(end) for end in ends(scene.target, scene.topics)[scene.kept]] == [2, 2],
            90.0,
        )
        assert scene.moved_ends() == [2] * PARTITIONS
        link.kill_all()
