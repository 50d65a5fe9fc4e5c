"""Two sources fill one topic: each has its partitions, its offsets, its groups, and its proof."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for
from support.records import encode, odd_records, split, write_batches, write_transaction

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 300


@dataclass(frozen=True)
class Shared:
    """Two sources, one target, and a file with a link from each into the same topics."""

    sources: tuple[Cluster, Cluster]
    target: Cluster
    config: Path
    topic: TopicName
    links: tuple[str, str]

    def heliostat(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "heliostat.cli.main", *words, "-c", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    def said(self, *words: str) -> Any:
        done = self.heliostat(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def write(self, source: int, partition: int = 0, records: int = RECORDS) -> None:
        rng = random.Random(f"{source} {partition} {records}")
        batches = [encode(part) for part in split(odd_records(rng, records), rng)]
        write_batches(self.sources[source].bootstrap, self.topic, batches, partition=partition)

    def at_target(self, partitions: int) -> list[int]:
        return ends(self.target.bootstrap, {self.topic: partitions})[self.topic]

    def grow(self, source: int, partitions: int) -> None:
        with ClusterAdmin(self.sources[source].bootstrap) as admin:
            assert admin.grow_partitions({self.topic: partitions}) == {self.topic: None}


@pytest.fixture
def shared(
    cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster], tmp_path: Path
) -> Shared:
    other = start_cluster("other-source", settings={"log.retention.ms": "-1"})
    sources, target = (cluster_pair.source, other), cluster_pair.target
    topic, links = fresh_name("shared"), (fresh_name("link"), fresh_name("link"))
    addresses = {"one": sources[0], "two": sources[1], "base": target}
    config = {
        "clusters": {n: {"bootstrap": c.bootstrap.split(",")} for n, c in addresses.items()},
        "spark": {"master": "local[2]"},
        "defaults": {
            "topics": {"include": [topic], "refresh_interval_s": 1},
            "groups": {"sync": True, "include": [f"{topic}.*"], "interval_s": 1},
            "lanes": {"round_s": 5},
        },
        "links": [
            {
                "name": links[slot],
                "source": alias,
                "target": "base",
                "topics": {"fan_in": {"slot": slot, "of": 2}},
            }
            for slot, alias in enumerate(("one", "two"))
        ],
    }
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump(config))
    return Shared(sources, target, path, topic, links)


def test_two_sources_fill_one_topic_each_with_equal_offsets(shared: Shared) -> None:
    """Given 2 and 1 partitions / when both are copied, grow, are killed / then each is exact."""
    create_topic(shared.sources[0], shared.topic, partitions=2)
    create_topic(shared.sources[1], shared.topic)
    for source, partition in ((0, 0), (0, 1), (1, 0)):
        shared.write(source, partition)
    with RunningLink(shared.config) as link:
        # Partitions 0 and 2 are the first source's, 1 and 3 the second one's.
        wait_for("both", lambda: shared.at_target(4) == [RECORDS, RECORDS, RECORDS, 0])
        shared.grow(0, 3)
        wait_for("room", lambda: _partitions(shared) == 6)
        shared.write(0, 2)
        write_transaction(shared.sources[1].bootstrap, shared.topic, 7, commit=True)
        link.kill_driver()
        shared.write(0, 1, 50)
    with RunningLink(shared.config) as link:
        goal = [RECORDS, RECORDS + 7, RECORDS + 50, 0, RECORDS, 0]
        wait_for("all of both", lambda: shared.at_target(6) == goal)
        assert link.stop() == 0, link.text()[-2000:]
    report = shared.said("verify", "--complete")
    assert report["records"] == 4 * RECORDS + 57, report
    assert not any(report[name] for name in ("lost", "doubled", "reordered", "different")), report


def test_a_group_of_one_source_goes_on_in_its_partitions(shared: Shared) -> None:
    """Given a group at the second source / then it stands in the second one's partitions."""
    for cluster in shared.sources:
        create_topic(cluster, shared.topic)
    group = GroupId(f"{shared.topic}-readers")
    with RunningLink(shared.config) as link:
        for source in (0, 1):
            shared.write(source)
        wait_for("both", lambda: shared.at_target(2) == [RECORDS, RECORDS])
        with ClusterAdmin(shared.sources[1].bootstrap) as admin:
            place = TopicPartition(shared.topic, PartitionId(0))
            commits = {group: {place: CommittedOffset(Offset(120), "")}}
            done = {group: {place: None}}
            wait_for("a coordinator", lambda: admin.commit_offsets(commits) == done)

        def synced() -> dict[int, int]:
            with ClusterAdmin(shared.target.bootstrap) as admin:
                found = admin.committed_offsets([group])[group]
            assert not isinstance(found, BrokerError), found
            offsets = {p: c for p, c in found.items() if p.topic == shared.topic}
            return {p.partition: c.offset for p, c in offsets.items()}

        wait_for("the group's offset", lambda: synced() == {1: 120})
        words = ("offsets", "translate", "--link", shared.links[1], shared.topic)
        (there,) = shared.said(*words, "0", "120")
        assert (there["to_partition"], there["to_offset"]) == (1, 120), there
        (back,) = shared.said(*words, "1", "120", "--to", "source")
        assert (back["to_partition"], back["to_offset"]) == (0, 120), back
        assert link.stop() == 0, link.text()[-2000:]


def _partitions(shared: Shared) -> int:
    with ClusterAdmin(shared.target.bootstrap) as admin:
        return len(admin.describe_topics([shared.topic])[shared.topic].partitions)
