"""The Java classes of MirrorMaker 2 4.3.0 read what our link writes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.mirror_jvm import MirrorJvm, Record, as_java_raises

from heliostat.mm2.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.mm2.offset_syncs import CopiedRange, all_syncs
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.topics.replication_policy import ReplicationPolicy

pytestmark = [pytest.mark.peer, pytest.mark.thorough]

RECORDS = 200
REREAD_FACTOR = 8
"""Pairs stand four times as far from the end as the one before; the store drops some of them."""
CHARACTERS = "abcXYZ019._- äöü€漢字"
EDGES = (0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000_000)


@pytest.fixture(scope="module")
def jvm() -> Iterator[MirrorJvm]:
    with as_java_raises(), MirrorJvm() as found:
        yield found


def random_record(rng: random.Random) -> Record:
    def text() -> str:
        return "".join(rng.choices(CHARACTERS, k=rng.randrange(40)))

    def number() -> Offset:
        return Offset(rng.choice([*EDGES, rng.randrange(-(2**63), 2**63)]))

    partition = TopicPartition(TopicName(text()), PartitionId(rng.randrange(2**31)))
    return rng.choice(
        [
            Heartbeat(Alias(text()), Alias(text()), number()),
            Checkpoint(text(), partition, number(), number(), text()),
            OffsetSync(partition, number(), number()),
        ]
    )


def test_java_writes_and_reads_the_same_bytes(jvm: MirrorJvm) -> None:
    rng = random.Random(5)
    for _ in range(RECORDS):
        record = random_record(rng)
        assert jvm.encode(record) == (record.key(), record.value()), record
        assert jvm.decode(record) == jvm.words(record), record


def test_java_parses_names_as_we_do(jvm: MirrorJvm) -> None:
    rng = random.Random(7)
    for separator in (".", "-", "__"):
        theirs = jvm.mirror("DefaultReplicationPolicy")()
        theirs.configure(jvm.properties("x:1", replication_policy_separator=separator))
        ours = ReplicationPolicy(separator)
        for _ in range(100):
            parts = rng.choices(["a", "heartbeats", "", "b.c", "x_y", "internal"], k=4)
            name = TopicName(separator.join(parts[: rng.randrange(1, 5)]) or "a")
            assert ours.source_of(name) == theirs.topicSource(name), name
            assert ours.upstream_of(name) == theirs.upstreamTopic(name), name
            assert ours.original_of(name) == theirs.originalTopic(name), name
            assert ours.is_heartbeats(name) == theirs.isHeartbeatsTopic(name), name
        east = Alias("east")
        assert ours.checkpoints_topic(east) == theirs.checkpointsTopic(east)
        assert ours.offset_syncs_topic(east) == theirs.offsetSyncsTopic(east)
        assert ours.mirror_name(east, TopicName("heartbeats")) == theirs.formatRemoteTopic(
            east, "heartbeats"
        )


def test_identity_naming_finds_the_heartbeats_topic(jvm: MirrorJvm) -> None:
    policy = jvm.mirror("IdentityReplicationPolicy")()
    policy.configure(jvm.properties("x:1", source_cluster_alias="east"))
    assert policy.isHeartbeatsTopic("east.heartbeats")
    assert policy.topicSource("east.heartbeats") == "east"
    assert policy.topicSource("orders") == "east"


def test_mirror_maker_translates_from_our_pairs_and_skips_nothing(jvm: MirrorJvm) -> None:
    """Its own store, fed with what a link writes when it starts, for maps with many holes."""
    rng = random.Random(11)
    partition = TopicPartition(TopicName("t"), PartitionId(0))
    for _ in range(12):
        offset_map = OffsetMap()
        target = source = 0
        for _ in range(rng.choice([0, 1, 10, 100])):
            target += rng.randrange(1, 2000)
            source = offset_map.source_of(target) + rng.randrange(1, 50)
            offset_map.add(Break(target, source))
        copied = CopiedRange(partition, rng.choice([0, 7]), target + 5_000, offset_map)
        store = jvm.offset_syncs(all_syncs(copied))
        for lag in (0, 1, 2, 10, 100, 1000, 4000):
            exact = copied.end - lag
            found = jvm.translate(store, partition, offset_map.source_of(exact))
            assert found <= exact
            assert exact - found <= REREAD_FACTOR * max(1, lag), (lag, exact - found)
