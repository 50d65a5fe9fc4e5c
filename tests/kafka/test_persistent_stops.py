"""A stop that requires a decision persists in every later round, and after a restart.

The target forgets producers at once, as a broker does with records of days ago or a mirror that was
idle for a day: only the link's own checks keep foreign records from becoming part of a mirror.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name, until
from support.command import said
from support.links import RunningLink, ends, write_config
from support.one_partition import OnePartition
from support.provoked import Provoked
from support.records import Sample, encode, write_batches, write_transaction
from support.rounds import begin_new_rounds

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionState
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

FORGETFUL = {
    "producer.id.expiration.ms": "500",
    "producer.id.expiration.check.interval.ms": "100",
    "log.retention.ms": "-1",
}
FORGOTTEN_S = 1.0
LEASE_S = 5
ROUNDS = 2
LOOKS = 5
PARTITIONS = 8
TWO_DAYS_MS = 2 * 86_400_000
DIVERGED = {"state": "diverged", "code": "FOREIGN_TAIL"}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    with Cluster.start("forgetful", settings=FORGETFUL, heap_mb=HEAP_MB) as made:
        yield made


class Mirror:
    """A topic of eight partitions, and a link of its own that copies it to a forgetful target."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, fresh_name("lasting"), partitions=PARTITIONS)
        self.config = write_config(
            folder,
            source.bootstrap,
            target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [self.topic], "refresh_interval_s": 0.5},
            lanes={"lease_s": LEASE_S},
        )

    def write(self, cluster: Cluster, count: int, *partitions: int) -> None:
        """Write records of two days ago, one batch a partition, without a producer id."""
        at_ms = int(time.time() * 1000) - TWO_DAYS_MS
        for partition in partitions:
            batch = encode([Sample(b"k", b"%d" % number, at_ms) for number in range(count)])
            write_batches(cluster.bootstrap.split(","), self.topic, [batch], partition=partition)

    def ends(self, cluster: Cluster) -> list[int]:
        return [int(end) for end in ends(cluster.bootstrap, {self.topic: PARTITIONS})[self.topic]]

    def wait_ends(self, expected: list[int]) -> None:
        until(
            lambda: self.ends(self.target) == expected,
            lambda: f"{expected} at the target, it has {self.ends(self.target)}",
            timeout_s=90,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any]
        (found,) = said(self.config, "status")
        return found

    def problems(self) -> dict[int, dict[str, Any]]:
        """Return the problems of `heliostat status`, by partition."""
        return {item["partition"]: item for item in self.status()["problems"]}

    def codes(self) -> dict[int, dict[str, str]]:
        return codes_of(self.status())

    def wait_codes(self, expected: dict[int, dict[str, str]]) -> None:
        until(
            lambda: self.codes() == expected,
            lambda: f"{expected}, it has {self.codes()}",
            timeout_s=60,
        )

    def stays(
        self,
        link: RunningLink,
        expected: dict[int, dict[str, str]],
        ends_at: list[int],
        rounds: int = ROUNDS,
    ) -> None:
        """Assert that in `rounds` more rounds nothing is copied, and status is unchanged."""
        for _ in range(rounds):
            begin_new_rounds(self.config, link.workers)
            for _ in range(LOOKS):
                assert self.codes() == expected
                assert self.ends(self.target) == ends_at

    def forget(self) -> None:
        """Let the target forget who wrote."""
        time.sleep(FORGOTTEN_S)


def codes_of(status: dict[str, Any]) -> dict[int, dict[str, str]]:
    return {row["partition"]: {key: row[key] for key in DIVERGED} for row in status["problems"]}


def test_foreign_records_stop_a_mirror_until_a_decision(
    cluster_pair: ClusterPair, forgetful: Cluster, tmp_path: Path
) -> None:
    """Given an idle link, its producer forgotten / when

    foreign records are written into seven of eight partitions, and the source continues / then
    these stay stopped, over rounds and restarts, until a decision; the eighth continues.
    """
    mirror = Mirror(cluster_pair.source, forgetful, tmp_path)
    everywhere, theirs = range(PARTITIONS), range(1, PARTITIONS)
    mirror.write(mirror.source, 50, *everywhere)
    with RunningLink(mirror.config):
        mirror.wait_ends([50] * PARTITIONS)
    mirror.forget()
    mirror.write(mirror.target, 5, *theirs)
    mirror.write(mirror.source, 20, *everywhere)
    stopped, stand = dict.fromkeys(theirs, DIVERGED), [70] + [55] * len(theirs)
    for _ in range(2):
        with RunningLink(mirror.config) as link:
            mirror.wait_codes(stopped)
            mirror.wait_ends(stand)
            mirror.stays(link, stopped, stand)
    assert said(mirror.config, "gaps")[0]["rows"] == []
    with RunningLink(mirror.config):
        mirror.wait_codes(stopped)
        resolve = ("resolve", mirror.topic, "--choose", "restart", "--by", "ops", "--yes")
        said(mirror.config, *resolve)
        mirror.wait_ends([70] * PARTITIONS)
        mirror.wait_codes({})


def remove_all(cluster: Cluster, topic: TopicName, ends_at: list[int]) -> None:
    """DeleteRecords up to each end."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        asked = {
            TopicPartition(topic, PartitionId(number)): Offset(end)
            for number, end in enumerate(ends_at)
        }
        assert all(isinstance(answer, int) for answer in admin.delete_records(asked).values())


@pytest.mark.provokes("TAIL_UNKNOWN", "gap:target_unknown")
def test_foreign_records_that_were_deleted_again_are_noticed(
    cluster_pair: ClusterPair,
    start_cluster: Callable[..., Cluster],
    tmp_path: Path,
    provoked: Provoked,
) -> None:
    """Given an idle link / when foreign records in its mirror are deleted with all others and the

    broker is restarted / then the partition that had some stays stopped, and one that lost only our
    records continues; after a decision it continues there, and the ledger says what may be missing.
    """
    mirror = Mirror(cluster_pair.source, start_cluster("target", settings=FORGETFUL), tmp_path)
    mirror.write(mirror.source, 50, 0, 1)
    with RunningLink(mirror.config):
        mirror.wait_ends([50, 50, *[0] * 6])
    mirror.write(mirror.target, 5, 1)
    remove_all(mirror.target, mirror.topic, [50, 55])
    (broker,) = mirror.target.brokers
    broker.stop()
    broker.start()
    mirror.write(mirror.source, 20, 0, 1)
    stopped = {1: {"state": "diverged", "code": "TAIL_UNKNOWN"}}
    with RunningLink(mirror.config) as link:
        mirror.wait_codes(stopped)
        mirror.wait_ends([70, 55, *[0] * 6])
        mirror.stays(link, stopped, [70, 55, *[0] * 6])
        provoked("TAIL_UNKNOWN", mirror.problems()[1])
        resolve = ("resolve", mirror.topic, "1", "--choose", "continue", "--by", "ops", "--yes")
        said(mirror.config, *resolve)
        mirror.wait_ends([70, 70, *[0] * 6])
        mirror.wait_codes({})
        (row,) = said(mirror.config, "gaps")[0]["rows"]
    provoked("gap:target_unknown", row)
    assert (row["first"], row["last"], row["count"]) == (50, 54, None)


def empty_progress(mirror: Mirror, link: str) -> None:
    """Delete all reports of lanes and drivers, as retention does after an hour."""
    topic = TopicName(f"heliostat.{link}.progress")
    bootstrap = mirror.target.bootstrap
    remove_all(mirror.target, topic, [int(end) for end in ends(bootstrap, {topic: 1})[topic]])


def test_stops_are_reported_before_a_lane_has_checked(
    cluster_pair: ClusterPair, forgetful: Cluster, tmp_path: Path
) -> None:
    """Given stopped partitions, their link stopped for longer than reports are kept / then

    each status names them with code and reason, and is never in sync: while no driver runs, from
    the first report of a new one on, and no longer after the decision.
    """
    mirror = Mirror(cluster_pair.source, forgetful, tmp_path)
    mirror.write(mirror.source, 50, 0, 1, 2)
    with RunningLink(mirror.config):
        mirror.wait_ends([50, 50, 50, *[0] * 5])
    mirror.forget()
    mirror.write(mirror.target, 5, 1)
    mirror.write(mirror.source, 20, 0, 1, 2)
    remove_all(mirror.source, mirror.topic, [50, 50, 70, *[0] * 5])
    mirror.write(mirror.source, 1, 2)
    stopped = {1: DIVERGED, 2: {"state": "gap", "code": "SOURCE_OVERTOOK"}}
    stand = [70, 55, 50, *[0] * 5]
    with RunningLink(mirror.config) as running:
        mirror.wait_codes(stopped)
        mirror.wait_ends(stand)
        assert running.stop() == 0
    (link,) = {each["link"] for each in said(mirror.config, "status")}
    empty_progress(mirror, link)
    assert mirror.codes() == stopped
    (first,) = said(mirror.config, "status")
    assert first["in_sync"] is False
    assert first["problems"][0]["reason"].startswith("the record before the target's end 55")
    with RunningLink(mirror.config) as again:
        seen = 0
        while not first["lanes"]:  # until a lane has reported
            (first,) = said(mirror.config, "status")
            assert first["in_sync"] is False
            codes = [item["code"] for item in first["problems"]]
            assert codes == ["FOREIGN_TAIL", "SOURCE_OVERTOOK"], first
            seen += first["state"] == "running"
        assert seen
        mirror.stays(again, stopped, stand, 1)
        resolve = ("resolve", mirror.topic, "--choose", "restart", "--by", "ops", "--yes")
        said(mirror.config, *resolve)
        mirror.wait_codes({})
    empty_progress(mirror, link)
    assert mirror.codes() == {}


def test_a_source_that_ends_in_a_marker_has_no_gap(
    cluster_pair: ClusterPair, forgetful: Cluster, tmp_path: Path
) -> None:
    """Given a transaction's marker after the last record / when

    the link starts again, also after the source's retention deleted all / then no record is called
    lost, and no gap is reported without one.
    """
    mirror = Mirror(cluster_pair.source, forgetful, tmp_path)
    write_transaction(cluster_pair.source.bootstrap, mirror.topic, 50, commit=True)
    copied = [50, *[0] * 7]
    until(lambda: mirror.ends(mirror.source)[0] == 51, "the marker")
    with RunningLink(mirror.config):
        mirror.wait_ends(copied)
    with RunningLink(mirror.config) as running:
        mirror.stays(running, {}, copied)
    assert said(mirror.config, "gaps")[0]["rows"] == []
    remove_all(mirror.source, mirror.topic, [51])
    with RunningLink(mirror.config) as running:
        mirror.stays(running, {}, copied)
        mirror.write(mirror.source, 10, 0)
        mirror.wait_ends([60, *[0] * 7])
        mirror.stays(running, {}, [60, *[0] * 7], 1)
    assert said(mirror.config, "gaps")[0]["rows"] == []


def leaders_of(admin: ClusterAdmin, names: list[TopicName]) -> list[int]:
    """Of their first partitions, when all brokers know of them."""
    leaders: list[int] = []

    def are_known() -> bool:
        found = admin.describe_topics(names)
        each = [found[name].partitions[0].leader for name in names if found[name].partitions]
        leaders[:] = [leader for leader in each if leader is not None]
        return len(leaders) == len(names)

    until(are_known, "leaders")
    return leaders


def led_alike(pair: ClusterPair) -> tuple[OnePartition, int]:
    """A mirror on all brokers, led by the one that has the offset map, too; and that one."""
    with ClusterAdmin(pair.target.bootstrap.split(",")) as admin:
        while True:  # ends: brokers take turns in leading new topics
            one = OnePartition(pair, target_replicas=3)
            first, second = leaders_of(admin, [one.topic, one.maps])
            if first == second:
                return one, first


@pytest.mark.provokes("TAIL_UNREAD")
def test_nothing_is_appended_after_a_record_that_replicas_lack(
    cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster], provoked: Provoked
) -> None:
    """Given a foreign record that lost replicas lack / then waited for; once read, DIVERGED."""
    target = start_cluster("target", brokers=3)
    one, leader = led_alike(ClusterPair(cluster_pair.source, target))
    one.write_source(10)
    one.copy_to(10)
    producer = KafkaProducer(bootstrap_servers=target.bootstrap, acks=1)
    producer.partitions_for(one.topic)
    followers = [each for each in target.brokers if each.broker_id != leader]
    for each in followers:
        each.kill()  # the controllers' majority with them: who is in sync stays as it was
    producer.send(one.topic, b"a stranger's").get(30)
    producer.close()
    told = one.copy_until("TAIL_UNREAD")
    assert told.state is PartitionState.RETRYING
    provoked("TAIL_UNREAD", told)
    for each in followers:
        each.start()
    assert one.copy_until("FOREIGN_TAIL").state is PartitionState.DIVERGED
