"""Which parts of MirrorMaker 2's interface a link has, and that their failures stay their own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import Config
from heliostat.errors import BrokerError, ConnectionLost, InterchangeFailed
from heliostat.mm2 import emitters as module
from heliostat.mm2.checkpoints import GroupRow
from heliostat.mm2.emitters import Interchange
from heliostat.mm2.formats import Checkpoint, Heartbeat, OffsetSync
from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.landed import Landed
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.topics.values import MirrorRecord

NO_LEADER = 5
NOW_MS = 5_000


class Topics:
    """Every topic that was opened, by cluster and name; stands for `ByteTopic`."""

    def __init__(self):
        self.opened = {}
        self.refuses = None

    def __call__(self, access, name, client_id):
        found = Topic(self)
        self.opened[access.bootstrap[0], name] = found
        return found


class Topic:
    def __init__(self, topics):
        self.topics = topics
        self.records = []
        self.closed = False

    def ensure(self, admin, replication_factor=None):
        if self.topics.refuses is not None:
            raise self.topics.refuses

    def write(self, records):
        self.records += records

    def read_all(self):
        return iter(())

    def close(self):
        self.closed = True


def target(brokers=1):
    """A mirror of two partitions, one without a leader, and a topic that is not our mirror."""
    made = SimulatedCluster(brokers=brokers)
    made.create("east.t", 2)
    made.append("east.t", 20)
    made.create("east.anew")
    made.fail("list_offsets", NO_LEADER, TopicPartition(TopicName("east.t"), PartitionId(1)))
    return made


@pytest.fixture
def topics(monkeypatch):
    found = Topics()
    monkeypatch.setattr(module, "ByteTopic", found)
    return found


def interchange(cluster=None, landed=dict, **settings):
    config = Config.model_validate(
        {
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "links": [
                {
                    "name": "l",
                    "source": "east",
                    "target": "west",
                    "topics": {"naming": {"prefix": "east."}},
                    **settings,
                }
            ],
        }
    )
    cluster = cluster or target()
    topic_id = cluster.topics[TopicName("east.t")].topic_id
    mirrors = {
        name: MirrorRecord(
            name, TopicName(f"east.{name}"), None, topic_id, ClusterId("E"), "earliest", 2
        )
        for name in (TopicName("t"), TopicName("anew"))
    }
    mirror = TopicPartition(TopicName("east.t"), PartitionId(0))
    maps = MapReader({(mirror, str(topic_id)): OffsetMap.of([Break(10, 15)])})
    return Interchange(
        config.links[0],
        source=None,
        target=SimulatedAdmin(cluster),
        source_access=config.clusters["east"].access(),
        target_access=config.clusters["west"].access(),
        mirrors=lambda: mirrors,
        maps=lambda: maps,
        landed=landed,
        clock=SimpleNamespace(wall_ms=lambda: NOW_MS),
    )


def test_by_default_there_is_nothing(topics):
    found = interchange()
    assert list(found.parts()) == []
    assert (found.report(), found.wants_groups, topics.opened) == ({}, False, {})
    found.take_groups([])


def test_each_part_has_a_loop_and_mirror_makers_topic(topics):
    found = interchange(
        heartbeats={"emit": True, "at_target": True, "interval_s": 3},
        checkpoints={"emit": True},
        offset_syncs={"emit": True, "location": "source"},
    )
    assert [(p.name, p.interval_s) for p in found.parts()] == [
        ("heartbeats", 3),
        ("heartbeats at the target", 3),
        ("heartbeat age", module.WATCH_S),
        ("upstream heartbeats", module.UPSTREAM_S),
        ("checkpoints", module.CHECKPOINTS_S),
        ("offset syncs", 60),
    ]
    assert set(topics.opened) == {
        ("e:1", "heartbeats"),
        ("w:1", "heartbeats"),
        ("w:1", "east.heartbeats"),
        ("w:1", "east.checkpoints.internal"),
        ("e:1", "mm2-offset-syncs.west.internal"),
    }
    found.close()
    assert all(topic.closed for topic in topics.opened.values())


def test_offset_syncs_at_the_target_are_named_by_the_source(topics):
    interchange(offset_syncs={"emit": True})
    assert set(topics.opened) == {("w:1", "mm2-offset-syncs.east.internal")}


def test_heartbeats_of_others_are_read_without_writing_any(topics):
    found = interchange(heartbeats={"mirror": True})
    assert [p.name for p in found.parts()] == ["heartbeat age", "upstream heartbeats"]
    beat = {"timestamp_ms": None, "delay_ms": None, "unreadable": 0}
    assert found.report() == {"beats": [], "flows": [], "heartbeat": beat}


def test_a_heartbeat_names_both_clusters(topics):
    next(interchange(heartbeats={"emit": True}).parts()).turn()
    (record,) = topics.opened["e:1", "heartbeats"].records
    assert Heartbeat.decode(record.key, record.value) == Heartbeat("east", "west", NOW_MS)


def test_offset_syncs_follow_the_maps_of_our_current_mirrors(topics):
    next(interchange(offset_syncs={"emit": True}).parts()).turn()
    written = topics.opened["w:1", "mm2-offset-syncs.east.internal"].records
    syncs = [OffsetSync.decode(r.key, r.value) for r in written]
    assert {s.partition for s in syncs} == {TopicPartition(TopicName("t"), PartitionId(0))}
    assert (syncs[0].upstream, syncs[0].downstream) == (0, 0)
    assert (syncs[-1].upstream, syncs[-1].downstream) == (24, 19)
    assert (15, 10) in {(s.upstream, s.downstream) for s in syncs}


def test_a_deposed_leaders_end_takes_no_offset_sync_back(topics):
    """Given syncs up to the end / when a broker that leads no longer tells where its log ends

    and more had landed by then / then all brokers are asked who leads.
    """
    cluster = target(brokers=3)
    source = TopicPartition(TopicName("t"), PartitionId(0))
    landed = {source: Landed(25, 20)}
    part = next(interchange(cluster, lambda: landed, offset_syncs={"emit": True}).parts())
    cluster.depose()
    cluster.topics[TopicName("east.t")].logs[0].lead(7)
    cluster.append("east.t", 30)
    landed[source] = Landed(55, 50)
    part.turn()
    written = topics.opened["w:1", "mm2-offset-syncs.east.internal"].records
    last = OffsetSync.decode(written[-1].key, written[-1].value)
    assert (last.upstream, last.downstream) == (54, 49)


def test_groups_are_written_as_checkpoints(topics):
    found = interchange(checkpoints={"emit": True})
    source = TopicPartition(TopicName("t"), PartitionId(0))
    target = TopicPartition(TopicName("east.t"), PartitionId(0))
    assert found.wants_groups
    found.take_groups([GroupRow("g", source, Offset(15), target, Offset(10), "m")])
    next(found.parts()).turn()
    (record,) = topics.opened["w:1", "east.checkpoints.internal"].records
    assert Checkpoint.decode(record.key, record.value) == Checkpoint("g", target, 15, 10, "m")
    assert found.report() == {"checkpoints": 1}


def test_an_error_that_would_halt_a_link_fails_only_this_loop(topics):
    part = next(interchange(heartbeats={"emit": True}).parts())
    topics.refuses = BrokerError("create topic", kafka_code=44)  # POLICY_VIOLATION
    with pytest.raises(InterchangeFailed, match="POLICY_VIOLATION"):
        part.turn()
    topics.refuses = ConnectionLost("gone")
    with pytest.raises(ConnectionLost):
        part.turn()
