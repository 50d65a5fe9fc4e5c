"""Java's own classes of MirrorMaker 2 4.3.0 read what a link of ours writes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.mirror_jvm import MirrorJvm, Record

from heliostat.interchange.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.replication_policy import ReplicationPolicy

pytestmark = pytest.mark.peer

RECORDS = 200
CHARACTERS = "abcXYZ019._- äöü€漢字"
EDGES = (0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000_000)


@pytest.fixture(scope="module")
def jvm() -> Iterator[MirrorJvm]:
    with MirrorJvm() as found:
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


def test_java_writes_the_bytes_that_we_write_and_reads_them(jvm: MirrorJvm) -> None:
    rng = random.Random(5)
    for _ in range(RECORDS):
        record = random_record(rng)
        assert jvm.encode(record) == (record.key(), record.value()), record
        assert jvm.decode(record) == jvm.words(record), record


def test_java_reads_names_as_we_do(jvm: MirrorJvm) -> None:
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
        assert ours.remote(east, TopicName("heartbeats")) == theirs.formatRemoteTopic(
            east, "heartbeats"
        )
