"""What a link says that would be lost and read again: compared with what is, its source dead."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.group_sides import Reader, write_values
from support.links import RunningLink, wait_for, wait_level, write_config
from support.records import open_transaction, write_marked

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

COPIED, LOST = 30, 7
"""Records of the plain topic that the link copies, and those written once it has stopped."""
MARKED = 20
"""Records of the mapped topic, each with a marker after it."""
ANSWERS_WITHIN_S = 40.0
"""A dead source costs time-outs, no more."""


class Scene:
    """A link with a source of its own that can be killed: a plain topic, and a mapped one."""

    def __init__(self, source: Cluster, pair: ClusterPair, folder: Path) -> None:
        self.source, self.target = source, pair.target
        prefix = self.prefix = fresh_name("lost")
        self.plain = create_topic(source, f"{prefix}-plain")
        self.mapped = create_topic(source, f"{prefix}-mapped")
        self.values = [b"%03d" % number for number in range(COPIED + LOST)]
        write_values(source.bootstrap, self.plain, self.values[:COPIED])
        write_marked(source.bootstrap.split(","), self.mapped, MARKED)
        self.config = write_config(
            folder,
            source.bootstrap,
            pair.target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [f"{prefix}-.*"], "refresh_interval_s": 1},
            groups={"sync": True, "interval_s": 1, "include": [f"{prefix}-.*"]},
        )

    def group(self, name: str) -> GroupId:
        return GroupId(f"{self.prefix}-{name}")

    def commit(self, group: GroupId, **offsets: int) -> None:
        """Commit at the source, as a consumer that has read up to there."""
        names = {"plain": self.plain, "mapped": self.mapped}
        rows = {
            TopicPartition(TopicName(names[name]), PartitionId(0)): CommittedOffset(Offset(offset))
            for name, offset in offsets.items()
        }

        def is_done() -> bool:
            with ClusterAdmin(self.source.bootstrap.split(",")) as admin:
                return admin.commit_offsets({group: rows})[group] == dict.fromkeys(rows)

        wait_for(f"offsets of {group}", is_done, 30)

    def exposure(self) -> dict[str, Any]:
        answer = heliostat(self.config, "exposure", "--partitions", "--json")
        assert answer.returncode in {1, 3}, answer.said
        [told] = answer.json
        return dict(told)

    def read_again(self, group: GroupId, **read: int) -> int:
        """Let the group's consumers read the mirrors to their ends; of so many records twice."""
        twice = 0
        for name, count in read.items():
            topic = self.plain if name == "plain" else self.mapped
            with Reader(self.target.bootstrap, topic, group) as reader:
                twice += sum(int(value) < count for value in reader.read_to_end())
        return twice


def losses(told: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    """Records and truth by topic."""
    return {row["source"]: (row["records"], row["truth"]) for row in told["topics"]}


@pytest.mark.usefixtures("spark")
def test_what_is_told_is_what_is_lost_and_read_again(
    start_cluster: Callable[..., Cluster], cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given records and offsets that a stopped link has not carried / when the source is killed

    then just so many are missing at the target, and groups that move read just so many again.
    """
    scene = Scene(start_cluster("summit"), cluster_pair, tmp_path)
    exact, behind, beyond = (scene.group(name) for name in ("exact", "behind", "beyond"))
    foreign = GroupId(fresh_name("foreign"))
    scene.commit(exact, plain=10, mapped=10)
    scene.commit(behind, plain=10, mapped=20)
    with RunningLink(scene.config) as running:
        bootstraps = scene.source.bootstrap, scene.target.bootstrap
        wait_level(running, *bootstraps, {scene.plain: 1})

        def is_published() -> bool:
            return heliostat(scene.config, "groups").returncode == 0

        def is_level() -> bool:
            answer = heliostat(scene.config, "exposure", "--json")
            return bool(answer.returncode == 0)

        wait_for("published offsets", is_published)
        wait_for("nothing that would be lost", is_level)
        assert running.stop() == 0
    write_values(scene.source.bootstrap, scene.plain, scene.values[COPIED:])
    scene.commit(behind, plain=15, mapped=30)
    scene.commit(beyond, plain=COPIED + 5)
    scene.commit(foreign, plain=8)
    with open_transaction(scene.source.bootstrap, scene.mapped, fresh_name("writer")):
        told = scene.exposure()
        [status] = heliostat(scene.config, "status", "--json").json
    assert losses(told) == {scene.plain: (LOST, "exact"), scene.mapped: (1, "exact")}, told
    assert (told["would_be_lost"]["records"], told["would_be_lost"]["truth"]) == (8, "exact")
    assert 0 <= told["would_be_lost"]["age_s"] < 600
    assert [row["records"] for row in told["partitions"]] == [1, LOST]
    assert status["would_be_lost"]["records"] == LOST + 1
    groups = {row["group"]: row for row in told["groups"]}
    again = {group: groups[group]["records"] for group in (exact, behind, beyond, foreign)}
    assert again == {exact: 0, behind: 10, beyond: COPIED, foreign: 8}, told
    assert not groups[foreign]["is_synced"]
    assert told["rereads"]["records"] == 10 + COPIED
    assert told["rereads"]["truth"] == "exact"

    scene.source.brokers[0].kill()
    with Reader(scene.target.bootstrap, scene.plain, fresh_name("all")) as reader:
        there = reader.read_to_end()
    assert len(set(scene.values) - set(there)) == LOST
    began_s = time.monotonic()
    late = scene.exposure()
    assert time.monotonic() - began_s < ANSWERS_WITHIN_S
    assert late["would_be_lost"]["truth"] != "exact", "nobody can know what a dead source had"
    assert late["groups_why"]
    assert late["rereads"]["truth"] != "exact"
    assert scene.read_again(exact, plain=10, mapped=5) == 0
    assert scene.read_again(behind, plain=15, mapped=15) == 10
    assert scene.read_again(beyond, plain=COPIED + 5) == COPIED
    assert scene.read_again(foreign, plain=8) == 8
