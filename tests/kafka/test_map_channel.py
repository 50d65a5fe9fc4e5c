"""Rows of the offset map as lanes read them from brokers that fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from support.clusters import ClusterPair, fresh_name, until, wait_until_led
from support.one_partition import lane_spec
from support.provoked import Provoked

from heliostat.access import access_of
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import BrokerError, HeliostatError, OffsetMapLost
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.records.copier.lane import LaneSpec, PartitionSpec
from heliostat.records.copier.network import MapWrite, MapWritten
from heliostat.records.transport.offset_map_topic import MapChannel
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SLOW_FOLLOWERS = {"replica.fetch.backoff.ms": "4000"}
"""A follower that has lost its leader asks the next one after so long: until then that one does not
know what was acknowledged."""
P = TopicPartition(TopicName("mirror"), PartitionId(0))
ROWS = 5


def channel(lane: LaneSpec) -> MapChannel:
    clock = SystemClock()
    target = WireCluster(lane.target_access, DialSettings())
    return MapChannel(lane, target, clock.monotonic_s, clock.wall_ms)


def write(maps: MapChannel, breaks: list[Break]) -> None:
    """A row with these breaks, acknowledged."""
    row = MapRow(RowKey(P, "", breaks[0].target, Stamp(1, 0)), tuple(breaks))
    connection = maps.connection
    maps.send([MapWrite(0, 0, row)])
    until_s = time.monotonic() + 20
    while (frame := connection.pump()) is None:
        assert time.monotonic() < until_s
    assert isinstance(maps.take(frame)[0], MapWritten)


def test_rows_that_a_new_leader_does_not_show_yet_are_waited_for(
    start_cluster: Callable[..., Cluster],
) -> None:
    """Given acknowledged rows / when their leader is killed / then a new lane reads them all (I2).

    A fetch returns fewer at first: the new leader's high watermark lags.
    """
    target = start_cluster("target", brokers=3, settings=SLOW_FOLLOWERS)
    access = access_of(target.bootstrap.split(","))
    topic = fresh_name("heliostat.maps")
    with KeyedTopic(access, topic) as made:
        made.ensure(3)
    wait_until_led(target.bootstrap, [TopicPartition(topic, PartitionId(0))])
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    lane = replace(lane_spec(access, access, spec), offsets_topic=topic)
    breaks = [Break(10 * number, 11 * number) for number in range(1, ROWS + 1)]
    with closing(channel(lane)) as maps:
        for count in range(1, ROWS + 1):
            write(maps, breaks[:count])
    with ClusterAdmin(access) as admin:
        configs = admin.describe_configs([topic])[topic]
        assert not isinstance(configs, BrokerError)
        kept = ("min.insync.replicas", "unclean.leader.election.enable")
        assert [configs[name].value for name in kept] == ["2", "false"]
        leader = admin.describe_topics([topic])[topic].partitions[0].leader
        (lost,) = [each for each in target.brokers if each.broker_id == leader]
        lost.kill()
        until(
            lambda: admin.describe_topics([topic])[topic].partitions[0].leader not in (-1, leader),
            "another leader",
            timeout_s=90,
        )
    until_s = time.monotonic() + 60
    with closing(channel(lane)) as maps:
        while True:  # ends: rows are there within seconds, or the deadline passes
            try:
                found = maps.read()
                break
            except HeliostatError:
                assert time.monotonic() < until_s
                time.sleep(0.02)
    assert list(found[0].breaks()) == breaks


@pytest.mark.provokes("OFFSET_MAP_LOST")
def test_a_topic_that_has_lost_rows_is_neither_read_nor_written(
    cluster_pair: ClusterPair, provoked: Provoked
) -> None:
    """Given a lane that has read rows / when their topic is recreated / then it reports the loss.

    A lane submitted before has maps of the old topic: with its rows alone the new map would be
    incomplete.
    """
    access = access_of(cluster_pair.target.bootstrap.split(","))
    topic = fresh_name("heliostat.maps")
    with KeyedTopic(access, topic) as made, ClusterAdmin(access) as admin:
        made.ensure(1)
        topic_id = id_text(admin.describe_topics([topic])[topic].topic_id)
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
        lane = replace(lane_spec(access, access, spec), offsets_topic=topic)
        with closing(channel(lane)) as maps:
            for count in (1, 2):
                write(maps, [Break(10 * number, 11 * number) for number in range(1, count + 1)])
        assert admin.delete_topics([topic]) == {topic: None}
        until(lambda: admin.describe_topics([topic])[topic].error is not None, "it is gone")
        made.ensure(1)
        until(lambda: admin.describe_topics([topic])[topic].error is None, "it is there")
        wait_until_led(cluster_pair.target.bootstrap, [TopicPartition(topic, PartitionId(0))])
        for known in (replace(lane, maps_topic_id=topic_id), replace(lane, maps_from=2)):
            with closing(channel(known)) as maps, pytest.raises(OffsetMapLost) as caught:
                maps.read()
            provoked("OFFSET_MAP_LOST", caught.value)
        row = MapRow(RowKey(P, "", 10, Stamp(1, 0)), (Break(10, 11),))
        with (
            closing(channel(replace(lane, maps_topic_id=topic_id))) as maps,
            pytest.raises(OffsetMapLost),
        ):
            maps.send([MapWrite(0, 0, row)])
        with closing(channel(lane)) as maps:
            assert maps.read() == {}
