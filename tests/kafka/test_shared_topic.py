"""Two sources fill one topic: each has its partitions, offsets and groups, and is verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name
from support.fan_in import FanIn, fan_in_of
from support.links import LinkProcess, RunningLink, ends, wait_for
from support.records import write_transaction

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

ALIASES = ("one", "two")
RECORDS = 300


@pytest.fixture(scope="module")
def other_source() -> Iterator[Cluster]:
    keep = {"log.retention.ms": "-1"}
    with Cluster.start("other-source", settings=keep, heap_mb=HEAP_MB) as cluster:
        yield cluster


@pytest.fixture
def shared(cluster_pair: ClusterPair, other_source: Cluster, tmp_path: Path) -> FanIn:
    sources = dict(zip(ALIASES, (cluster_pair.source, other_source), strict=True))
    topic = fresh_name("shared")
    defaults = {
        "topics": {"include": [topic], "refresh_interval_s": 1},
        "groups": {"sync": True, "include": [f"{topic}.*"], "interval_s": 1},
    }
    slots = [{"fan_in": {"slot": slot, "of": 2}} for slot in range(2)]
    return fan_in_of(tmp_path, sources, cluster_pair.target, topic, defaults=defaults, topics=slots)


def at_target(shared: FanIn, partitions: int) -> list[int]:
    """Where the topic's partitions end."""
    return ends(shared.target.bootstrap, {shared.topic: partitions})[shared.topic]


def test_two_sources_fill_one_topic_each_with_equal_offsets(shared: FanIn) -> None:
    """Given 2 and 1 partitions / when both are copied, grow, are killed / then each is exact."""
    one, two = ALIASES
    create_topic(shared.sources[one], shared.topic, partitions=2)
    create_topic(shared.sources[two], shared.topic)
    for source, partition in ((one, 0), (one, 1), (two, 0)):
        shared.write(source, shared.topic, partition, RECORDS)
    with LinkProcess(shared.config) as link:
        # Partitions 0 and 2 are the first source's, 1 and 3 the second one's.
        wait_for("both", lambda: at_target(shared, 4) == [RECORDS, RECORDS, RECORDS, 0])
        with ClusterAdmin(shared.sources[one].bootstrap) as admin:
            assert admin.grow_partitions({shared.topic: 3}) == {shared.topic: None}
        wait_for("room", lambda: _partitions(shared) == 6)
        shared.write(one, shared.topic, 2, RECORDS)
        write_transaction(shared.sources[two].bootstrap, shared.topic, 7, commit=True)
        link.kill_driver()
        shared.write(one, shared.topic, 1, 50)
    with RunningLink(shared.config) as link:
        goal = [RECORDS, RECORDS + 7, RECORDS + 50, 0, RECORDS, 0]
        wait_for("all of both", lambda: at_target(shared, 6) == goal)
        assert link.stop() == 0, link.text()[-2000:]
    report = shared.said("verify", "--complete")
    assert report["records"] == 4 * RECORDS + 57, report
    assert not any(report[name] for name in ("lost", "doubled", "reordered", "different")), report


def test_a_group_of_one_source_continues_in_its_partitions(shared: FanIn) -> None:
    """Given a group at the second source / then its offsets are in the second one's partitions."""
    for cluster in shared.sources.values():
        create_topic(cluster, shared.topic)
    group = GroupId(f"{shared.topic}-readers")
    with RunningLink(shared.config) as link:
        for alias in ALIASES:
            shared.write(alias, shared.topic, 0, RECORDS)
        wait_for("both", lambda: at_target(shared, 2) == [RECORDS, RECORDS])
        with ClusterAdmin(shared.sources[ALIASES[1]].bootstrap) as admin:
            place = TopicPartition(shared.topic, PartitionId(0))
            commits = {group: {place: CommittedOffset(Offset(120), "")}}
            done = {group: {place: None}}
            wait_for("a coordinator", lambda: admin.commit_offsets(commits) == done)

        def synced() -> dict[int, int]:
            with ClusterAdmin(shared.target.bootstrap) as admin:
                found = admin.committed_offsets([group])[group]
            if isinstance(found, BrokerError):
                return {}  # the topic of the groups' offsets is made with the first one's commit
            offsets = {p: c for p, c in found.items() if p.topic == shared.topic}
            return {p.partition: c.offset for p, c in offsets.items()}

        wait_for("the group's offset", lambda: synced() == {1: 120})
        words = ("offsets", "translate", "--link", shared.links[1], shared.topic)
        (there,) = shared.said(*words, "0", "120")
        assert (there["to_partition"], there["to_offset"]) == (1, 120), there
        (back,) = shared.said(*words, "1", "120", "--to", "source")
        assert (back["to_partition"], back["to_offset"]) == (0, 120), back
        assert link.stop() == 0, link.text()[-2000:]


def _partitions(shared: FanIn) -> int:
    with ClusterAdmin(shared.target.bootstrap) as admin:
        return len(admin.describe_topics([shared.topic])[shared.topic].partitions)
