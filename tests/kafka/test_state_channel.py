"""A lane's channel to its state topics on a real broker: announcements, reports, closing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from support.clusters import ClusterPair, fresh_name, until

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import COMPACTED, KeyedTopic, ensure_own_topics
from heliostat.clusters.recent_records import AN_HOUR, RecentRecords
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.invariants import first_generation
from heliostat.names import LaneId, LinkName, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.records.copier.lane import (
    Announcement,
    CopySettings,
    LaneSpec,
    PartitionReport,
    PartitionSpec,
    PartitionState,
    RoundReport,
    WantedRound,
)
from heliostat.records.transport.announcements import CONTROL_KEY, CONTROL_WAIT_MS
from heliostat.records.transport.control_channel import CLOSE_S, StateChannel
from heliostat.records.transport.plan_rows import encode_announcement
from heliostat.status.reader import StatusReader

pytestmark = [pytest.mark.kafka, pytest.mark.core]
PARTITIONS = 2_500
HEARD_WITHIN_MS = 250
"""Without waiting at the broker it would be half a `CONTROL_WAIT_MS` on average."""
CLOCK = SystemClock()
OWN = "0/4/1"
ANSWERED = 3


@dataclass
class Line:
    """A channel with its topics."""

    spec: LaneSpec
    control: KeyedTopic
    progress: RecentRecords

    def open(self) -> StateChannel:
        dial = DialSettings(client_id="lane-under-test")
        cluster = WireCluster(self.spec.target_access, dial)
        return StateChannel(self.spec, cluster, CLOCK.monotonic_s, CLOCK.wall_ms)

    def announce(self, round_id: str, *running: str, claim: int = 0) -> None:
        wanted = {LaneId(0): WantedRound(round_id)} if round_id else {}
        plan = Announcement(wanted, running, {self.spec.round_id: ANSWERED})
        self.control.write(CONTROL_KEY, encode_announcement(claim, plan))


@pytest.fixture
def line(cluster_pair: ClusterPair) -> Iterator[Line]:
    addresses = cluster_pair.target.bootstrap.split(",")
    access = ClusterAccess(tuple(addresses))
    name = fresh_name("channel")
    source = [TopicPartition(TopicName("t"), PartitionId(n)) for n in range(PARTITIONS)]
    spec = LaneSpec(
        link=LinkName("l"),
        lane=LaneId(0),
        generation=4,
        round_number=1,
        lease_s=20,
        waits_for=(),
        source_access=access,
        target_access=access,
        producer_id=ProducerId(1),
        partitions=tuple(
            PartitionSpec(each, each, None, None, 0, 1 << 20, is_compacted=False) for each in source
        ),
        control_topic=f"{name}.control",
        progress_topic=f"{name}.progress",
        settings=CopySettings(),
    )
    control = KeyedTopic(access, spec.control_topic)
    progress = RecentRecords(access, spec.progress_topic)
    with control, closing(progress), ClusterAdmin(access) as admin:
        ensure_own_topics(admin, {control.topic: COMPACTED, progress.topic: AN_HOUR})
        yield Line(spec, control, progress)


def report(spec: LaneSpec, position: int, ended_by: str = "") -> RoundReport:
    rows = [
        PartitionReport(
            each.source, each.target, PartitionState.COPYING, position, position, 1, 1, 1, 1, 1
        )
        for each in spec.partitions
    ]
    found = RoundReport(spec.lane, spec.generation, spec.round_number, 1, 1, ended_by, rows)
    found.plan, found.lane_partitions, found.is_whole = spec.generation, len(rows), bool(ended_by)
    return found


def test_an_announcement_is_read_at_once_and_old_ones_end_nothing(line: Line) -> None:
    """Given old announcements / then none of them ends the round, and a new one is read at once."""
    line.announce("0/3/0")
    line.announce(OWN, "0/4/1")
    channel = line.open()
    try:
        until(lambda: channel.running() is not None, "the first announcement")
        assert channel.running() == {"0/4/1"}
        assert channel.answered() == ANSWERED
        assert not channel.is_superseded()
        delays_ms = []
        for number in range(5):
            line.announce(OWN, f"0/4/{number + 10}")
            written_s = time.monotonic()
            until(lambda n=number: channel.running() == {f"0/4/{n + 10}"}, "the announcement")
            delays_ms.append((time.monotonic() - written_s) * 1000)
        assert min(delays_ms) < HEARD_WITHIN_MS, delays_ms
        assert not channel.is_superseded()
        line.announce("0/5/0")
        until(channel.is_superseded, "the end of the round")
    finally:
        channel.close()


def test_the_last_report_is_written_before_close_returns_and_close_is_quick(line: Line) -> None:
    """Given a fetch that waits at the broker / when closed / then at once, with all written."""
    line.announce(OWN)
    channel = line.open()
    until(lambda: channel.running() is not None, "the first announcement")
    began_s = time.monotonic()
    channel.publish(report(line.spec, 10))
    channel.publish(report(line.spec, 20, "plan"))
    handed_over_s = time.monotonic() - began_s
    channel.close()
    assert time.monotonic() - began_s < CLOSE_S
    assert handed_over_s < 1.0
    assert not [each for each in threading.enumerate() if each.name == "lane-0 state"]
    reader = StatusReader(LinkName("l"), line.progress)
    reader.begin()
    status = reader.board.status(CLOCK.wall_ms())
    assert status.partitions == PARTITIONS
    assert reader.board.is_complete()
    assert [lane["partitions"] for lane in status.lanes] == [PARTITIONS]


def test_reports_of_an_idle_lane_are_small(line: Line) -> None:
    """Given 2,500 partitions in which nothing happens / then a report names few of them."""
    channel = line.open()
    try:
        line.progress.seek(0)
        answered: list[dict[str, object]] = []

        def rows() -> list[int]:
            answered.extend(record.value for record in line.progress.poll(0.1))
            return [sum(len(topic[2]) for topic in value["topics"]) for value in answered]

        for count in range(1, 4):
            channel.publish(report(line.spec, 10))
            until(lambda n=count: len([s for s in rows() if s < 1000]) >= n, "the report")
        assert sum(rows()) < PARTITIONS * 1.5
        assert max(len(json.dumps(value)) for value in answered[-2:]) < 60_000
    finally:
        channel.close()


def test_a_stop_ends_the_round_at_once(line: Line) -> None:
    line.announce(OWN)
    channel = line.open()
    try:
        until(lambda: channel.running() is not None, "the announcement")
        assert not channel.is_superseded()
        line.announce("")
        until(channel.is_superseded, "the stop", timeout_s=CONTROL_WAIT_MS / 1000 + 10)
    finally:
        channel.close()


def test_announcements_of_a_fenced_owner_are_ignored(line: Line) -> None:
    """Given an earlier owner's announcement after ours / then ours holds, read late or at once."""
    ours, earlier = 3, 2
    generation = first_generation(ours) + 1
    line = replace(line, spec=replace(line.spec, generation=generation))
    own = line.spec.round_id
    line.announce(own, "a", claim=ours)
    line.announce("0/5/0", "b", claim=earlier)
    channel = line.open()
    try:
        until(lambda: channel.running() == {"a"}, "our announcement")
        assert not channel.is_superseded()
        line.announce("0/6/0", "c", claim=earlier)
        line.announce(own, "d", claim=ours)
        until(lambda: channel.running() == {"d"}, "our next announcement")
        assert not channel.is_superseded()
        line.announce(f"0/{first_generation(ours + 1)}/0", claim=ours + 1)
        until(channel.is_superseded, "the successor's announcement")
    finally:
        channel.close()
