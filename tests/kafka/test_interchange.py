"""A running link, seen by Java's `MirrorClient` and `RemoteClusterUtils` 4.3.0 at its target."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import RunningLink, ends, wait_for, wait_level, write_config
from support.mirror_jvm import MirrorJvm
from support.records import encode, odd_records, split, write_batches, write_transaction

from heliostat.clusters.byte_topic import ByteTopic
from heliostat.config import load_config
from heliostat.mm2.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.names import PartitionId, TopicName, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.peer, pytest.mark.thorough]

RECORDS = 300
GROUP = "readers"
COMMITTED = {0: 17, 1: RECORDS}
TRANSACTIONS = ((5, True), (2, False), (5, True))
"""Records and whether they are committed; a marker follows each."""
MAPPED = dict(enumerate((*range(5), *range(9, 14))))
"""Target offset → source offset of the records that readers see."""
IN_TRANSACTIONS = {"in the last": (11, 7), "in what was aborted": (6, 5), "at a marker": (5, 5)}
"""Committed offsets of groups at the source, and the translated ones at the target."""
METADATA = "by hand"
SECONDS_30 = 30_000
FRESH_S = 10.0
"""Heartbeats are sent each half second and copied within one; a stalled machine takes longer."""


@dataclass(frozen=True)
class Linked:
    """A link that runs, its topic, and a JVM to look at its target."""

    link: RunningLink
    topic: str
    transactional: str
    source: str
    target: str
    jvm: MirrorJvm

    def properties(self, **more: str) -> Any:
        return self.jvm.properties(self.target, **more)

    def translated(self, group: str) -> dict[str, tuple[int, str]]:
        """Offset and metadata by partition, as `RemoteClusterUtils.translateOffsets` answers."""
        timeout = self.jvm.jvm.java.time.Duration.ofMillis(SECONDS_30)
        utils = self.jvm.mirror("RemoteClusterUtils")
        found = utils.translateOffsets(self.properties(), "east", group, timeout)
        return {
            str(entry.getKey().toString()): (
                int(entry.getValue().offset()),
                str(entry.getValue().metadata()),
            )
            for entry in found.entrySet()
        }

    def status(self) -> Mapping[str, Any]:
        (status,) = heliostat(self.link.config, "status", "--json").json
        return status


@pytest.fixture(scope="module")
def linked(cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Linked]:
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    rng = random.Random(3)
    topic = create_topic(cluster_pair.source, fresh_name("orders"), partitions=2)
    for number in range(2):
        batches = [encode(part) for part in split(odd_records(rng, RECORDS), rng)]
        write_batches(source, topic, batches, partition=number)
    commit(source, topic, GROUP, COMMITTED)
    transactional = create_topic(cluster_pair.source, fresh_name("payments"))
    for count, is_committed in TRANSACTIONS:
        write_transaction(source, transactional, count, commit=is_committed)
    for group, (at, _) in IN_TRANSACTIONS.items():
        commit(source, transactional, group, {0: at})
    config = write_config(
        tmp_path_factory.mktemp("interchange"),
        source,
        target,
        name=fresh_name("interchange"),
        topics={
            "include": [topic, transactional],
            "naming": {"prefix": "east."},
            "refresh_interval_s": 1,
        },
        heartbeats={"emit": True, "interval_s": 0.5},
        groups={"include": [GROUP, *IN_TRANSACTIONS], "interval_s": 1},
        checkpoints={"emit": True},
        offset_syncs={"emit": True, "interval_s": 1},
    )
    with MirrorJvm() as jvm, RunningLink(config) as link:
        wait_level(link, source, target, {topic: 2}, prefix="east.", within_s=180)
        mirror = f"east.{transactional}"
        wait_for(mirror, lambda: ends(target, {mirror: 1}) == {mirror: [len(MAPPED)]})
        yield Linked(link, topic, transactional, source, target, jvm)


def commit(bootstrap: str, topic: str, group: str, offsets: Mapping[int, int]) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), group_id=group, enable_auto_commit=False
    )
    partitions = {number: KafkaPartition(topic, number) for number in offsets}
    consumer.assign(list(partitions.values()))
    consumer.commit(
        {
            partitions[number]: OffsetAndMetadata(offset, METADATA, -1)
            for number, offset in offsets.items()
        }
    )
    consumer.close()


def records_of(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    with ByteTopic(bootstrap, TopicName(topic), "test") as found:
        return [(record.key, record.value) for record in found.read_all()]


def test_java_finds_the_link_its_topics_and_replication_hops(linked: Linked) -> None:
    utils = linked.jvm.mirror("RemoteClusterUtils")
    mirrored = "east.heartbeats"
    wait_for(mirrored, lambda: mirrored in set(utils.heartbeatTopics(linked.properties())))
    assert "east" in set(utils.upstreamClusters(linked.properties()))
    assert utils.replicationHops(linked.properties(), "east") == 1
    assert utils.replicationHops(linked.properties(), "nowhere") == -1
    client = linked.jvm.mirror("MirrorClient")(linked.properties())
    try:
        found, every = set(client.remoteTopics("east")), set(client.remoteTopics())
    finally:
        client.close()
    assert {f"east.{linked.topic}", mirrored} <= found
    # Any name with a dot is a remote topic to that policy, our state topics too: docs say so.
    link = load_config(linked.link.config).links[0].name
    state = {f"heliostat.{link}.{kind}" for kind in ("state", "control", "offsets", "progress")}
    assert state <= every
    assert not any(name.startswith("heliostat.") for name in found)
    assert not {"heliostat"} & set(utils.upstreamClusters(linked.properties()))


def test_heartbeats_are_copied_and_their_age_is_shown(linked: Linked) -> None:
    def age() -> float | None:
        found: float | None = linked.status()["heartbeat_age_s"]
        return found

    first = wait_for("a heartbeat at the target", lambda: age() is not None and age() < FRESH_S)
    assert first
    mine = linked.status()["driver"]["interchange"]["heartbeat"]
    assert (mine["unreadable"], mine["delay_ms"] >= 0) == (0, True)
    was = mine["timestamp_ms"]
    wait_for(
        "a later heartbeat",
        lambda: linked.status()["driver"]["interchange"]["heartbeat"]["timestamp_ms"] > was,
    )
    beats = [Heartbeat.decode(*r) for r in records_of(linked.target, "east.heartbeats")]
    assert {(beat.source, beat.target) for beat in beats} == {("east", "west")}
    assert "heartbeat" in linked.link.text()


def test_java_translates_a_groups_offsets_exactly(linked: Linked) -> None:
    def expected(offsets: Mapping[int, int]) -> dict[str, tuple[int, str]]:
        return {f"east.{linked.topic}-{n}": (at, METADATA) for n, at in offsets.items()}

    wait_for("checkpoints", lambda: linked.translated(GROUP) == expected(COMMITTED))
    utils = linked.jvm.mirror("RemoteClusterUtils")
    assert "east.checkpoints.internal" in set(utils.checkpointTopics(linked.properties()))
    back = {0: 5, 1: 200}  # a group that was reset at the source
    commit(linked.source, linked.topic, GROUP, back)
    wait_for("the reset", lambda: linked.translated(GROUP) == expected(back))
    written = records_of(linked.target, "east.checkpoints.internal")
    for number in back:
        name = TopicPartition(TopicName(f"east.{linked.topic}"), PartitionId(number))
        mine = [c for c in (Checkpoint.decode(*r) for r in written) if c.partition == name]
        assert all(one != other for one, other in pairwise(mine)), "written again without a change"
        assert all(c.downstream <= c.upstream for c in mine), "I9: held back until it has landed"
    assert linked.translated("nobody") == {}


@pytest.mark.parametrize("group", IN_TRANSACTIONS)
def test_java_translates_exactly_where_the_source_has_holes(linked: Linked, group: str) -> None:
    at = IN_TRANSACTIONS[group][1]
    expected = {f"east.{linked.transactional}-0": (at, METADATA)}
    wait_for("its checkpoint", lambda: linked.translated(group) == expected)


def test_offset_syncs_hold_correct_pairs(linked: Linked) -> None:
    def told() -> dict[int, OffsetSync]:
        written = records_of(linked.target, "mm2-offset-syncs.east.internal")
        syncs = [OffsetSync.decode(*r) for r in written]
        for sync in syncs:
            if sync.partition.topic == linked.transactional:
                assert MAPPED[sync.downstream] == sync.upstream
        mine = [s for s in syncs if s.partition.topic == linked.topic]
        assert all(sync.upstream == sync.downstream for sync in mine)
        return {sync.partition.partition: sync for sync in mine}

    wait_for(
        "the last record's pair",
        lambda: {n: s.upstream for n, s in told().items()} == dict.fromkeys((0, 1), RECORDS - 1),
    )


def test_a_stopped_link_is_recognized_by_the_age_of_its_heartbeat(linked: Linked) -> None:
    assert linked.link.stop() == 0
    first = linked.status()["heartbeat_age_s"]
    wait_for("the heartbeat to grow old", lambda: linked.status()["heartbeat_age_s"] > first)
