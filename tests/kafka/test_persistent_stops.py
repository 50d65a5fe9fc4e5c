"""A stop that requires a decision persists in every later round, and after a restart.

The target forgets producers at once, as a broker does with records of days ago or a mirror that was
idle for a day: only the link's own checks keep foreign records from becoming part of a mirror.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name, until
from support.command import said
from support.links import RunningLink, ends, write_config
from support.provoked import Provoked
from support.records import Sample, encode, write_batches, write_transaction
from support.rounds import begin_new_rounds

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.admin.caller import Caller
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

FORGETFUL = {
    "producer.id.expiration.ms": "500",
    "producer.id.expiration.check.interval.ms": "100",
    "log.retention.ms": "-1",
}
LEASE_S = 5
LOOKS = 3
TWO_DAYS_MS = 2 * 86_400_000
PARTITIONS = {"foreign": 8, "deleted": 2, "overtaken": 1, "marker": 1}
"""Topics of the link, by what happens to them."""
Place = tuple[str, int]
Codes = Mapping[Place, Mapping[str, str]]
DIVERGED = {"state": "diverged", "code": "FOREIGN_TAIL"}
STOPPED: Codes = {
    **{("foreign", number): DIVERGED for number in range(1, PARTITIONS["foreign"])},
    ("deleted", 1): {"state": "diverged", "code": "TAIL_UNKNOWN"},
    ("overtaken", 0): {"state": "gap", "code": "SOURCE_OVERTOOK"},
}
STAND = {"foreign": [70, *[55] * 7], "deleted": [70, 55], "overtaken": [50], "marker": [50]}
"""Ends at the target while these are stopped."""


@pytest.fixture
def forgetful() -> Iterator[Cluster]:
    with Cluster.start("forgetful", settings=FORGETFUL, heap_mb=HEAP_MB) as made:
        yield made


class Mirrors:
    """A topic of each kind, and a link of their own that copies them to a forgetful target."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.topics = {
            kind: create_topic(source, fresh_name(kind), partitions=count)
            for kind, count in PARTITIONS.items()
        }
        self.kinds = {topic: kind for kind, topic in self.topics.items()}
        self.link = fresh_name("link")
        self.config = write_config(
            folder,
            source.bootstrap,
            target.bootstrap,
            name=self.link,
            topics={"include": [*self.topics.values()], "refresh_interval_s": 0.5},
            lanes={"lease_s": LEASE_S},
        )

    def write(self, cluster: Cluster, count: int, kind: str, *partitions: int) -> None:
        """Write records of two days ago, one batch a partition, without a producer id."""
        at_ms = int(time.time() * 1000) - TWO_DAYS_MS
        batch = encode([Sample(b"k", b"%d" % number, at_ms) for number in range(count)])
        for partition in partitions:
            write_batches(
                cluster.bootstrap.split(","), self.topics[kind], [batch], partition=partition
            )

    def write_source(self, count: int) -> None:
        """Write into each partition of the source, but for the transaction's."""
        for kind, partitions in PARTITIONS.items():
            if kind != "marker":
                self.write(self.source, count, kind, *range(partitions))

    def remove_source(self, kind: str, end: int) -> None:
        remove_all(self.source, self.topics[kind], [end])

    def ends(self) -> dict[str, list[int]]:
        counts = {self.topics[kind]: count for kind, count in PARTITIONS.items()}
        return {self.kinds[name]: row for name, row in self._ends(counts).items()}

    def _ends(self, counts: dict[TopicName, int]) -> dict[TopicName, list[int]]:
        rows = ends(self.target.bootstrap, counts)
        return {topic: rows[topic] for topic in counts}

    def wait_ends(self, expected: dict[str, list[int]]) -> None:
        until(
            lambda: self.ends() == expected,
            lambda: f"{expected} at the target, it has {self.ends()}",
            timeout_s=90,
        )

    def status(self) -> dict[str, Any]:
        (status,) = said(self.config, "status")
        return dict(status)

    def wait_codes(self, expected: Codes) -> None:
        until(
            lambda: self.codes_of(self.status()) == expected,
            lambda: f"{expected}, it has {self.codes_of(self.status())}",
            timeout_s=60,
        )

    def codes_of(self, status: dict[str, Any]) -> Codes:
        """Return state and code of each problem."""
        return {
            place: {key: row[key] for key in DIVERGED}
            for place, row in self.problems_of(status).items()
        }

    def problems_of(self, status: dict[str, Any]) -> dict[Place, dict[str, Any]]:
        rows = status["problems"]
        return {(self.kinds[row["source"]], row["partition"]): row for row in rows}

    def stays(self, link: RunningLink, codes: Codes, stand: dict[str, list[int]]) -> None:
        """Assert that in a new round nothing is copied, and the status is unchanged."""
        begin_new_rounds(self.config, link.workers)
        for _ in range(LOOKS):
            assert self.codes_of(self.status()) == codes
            assert self.ends() == stand

    def wait_forgotten(self) -> None:
        """Wait until the target has forgotten who wrote."""
        row = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[
                row(name=self.topics[kind], partition_indexes=list(range(count)))
                for kind, count in PARTITIONS.items()
            ]
        )
        address = self.target.bootstrap.split(",")
        with closing(Caller(address, "test", connect_timeout_s=30.0)) as caller:

            def are_forgotten() -> bool:
                topics = caller.send(request).topics
                return not any(row.active_producers for topic in topics for row in topic.partitions)

            until(are_forgotten, "the target to forget its producers")

    def empty_progress(self) -> None:
        """Delete all reports of lanes and drivers, as retention does after an hour."""
        topic = TopicName(f"heliostat.{self.link}.progress")
        remove_all(self.target, topic, self._ends({topic: 1})[topic])

    def gaps(self) -> list[dict[str, Any]]:
        """Return the rows of the ledger."""
        return list(said(self.config, "gaps")[0]["rows"])

    def resolve(self, kind: str, choice: str, *words: str) -> None:
        topic = self.topics[kind]
        said(self.config, "resolve", topic, *words, "--choose", choice, "--by", "ops", "--yes")


def remove_all(cluster: Cluster, topic: TopicName, ends_at: list[int]) -> None:
    """DeleteRecords up to each end."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        asked = {
            TopicPartition(topic, PartitionId(number)): Offset(end)
            for number, end in enumerate(ends_at)
        }
        assert all(isinstance(answer, int) for answer in admin.delete_records(asked).values())


@pytest.fixture
def mirrors(cluster_pair: ClusterPair, forgetful: Cluster, tmp_path: Path) -> Mirrors:
    """Give mirrors of an idle link, its producer forgotten, to which this has happened since:

    `foreign`
        Foreign records in all partitions but the first, and the source continued.
    `deleted`
        The same in the second one, then all records of the mirror were deleted, ours and those.
    `overtaken`
        The source's retention deleted records before they were copied.
    `marker`
        The source ends in a transaction's marker, which is not copied.
    """
    made = Mirrors(cluster_pair.source, forgetful, tmp_path)
    made.write_source(50)
    write_transaction(made.source.bootstrap, made.topics["marker"], 50, commit=True)
    with RunningLink(made.config):
        made.wait_ends({kind: [50] * count for kind, count in PARTITIONS.items()})
    made.wait_forgotten()
    made.write(made.target, 5, "foreign", *range(1, PARTITIONS["foreign"]))
    made.write(made.target, 5, "deleted", 1)
    remove_all(made.target, made.topics["deleted"], [50, 55])
    made.write_source(20)
    made.remove_source("overtaken", 70)
    made.write(made.source, 1, "overtaken", 0)
    return made


@pytest.mark.provokes("TAIL_UNKNOWN", "gap:target_unknown")
def test_stops_persist_until_a_decision(mirrors: Mirrors, provoked: Provoked) -> None:
    """Given partitions that must stop, and others / when rounds and drivers come and go, and all

    reports expire / then these stay stopped and nothing is appended, each status names them with
    code and reason and is never in sync: while no driver runs, from the first report of a new one
    on, and no longer after the decision. The others continue, and where a marker is the last record
    nothing is called lost.
    """
    with RunningLink(mirrors.config) as link:
        mirrors.wait_codes(STOPPED)
        mirrors.wait_ends(STAND)
        for _ in range(2):
            mirrors.stays(link, STOPPED, STAND)
        assert link.stop() == 0
    mirrors.empty_progress()
    mirrors.remove_source("marker", 51)
    status = mirrors.status()
    assert mirrors.codes_of(status) == STOPPED
    assert status["in_sync"] is False
    problems = mirrors.problems_of(status)
    assert problems["foreign", 1]["reason"].startswith("the record before the target's end 55")
    provoked("TAIL_UNKNOWN", problems["deleted", 1])
    with RunningLink(mirrors.config) as again:
        looks = 0
        while not status["lanes"]:  # until a lane has reported
            status = mirrors.status()
            assert status["in_sync"] is False
            assert mirrors.codes_of(status) == STOPPED
            looks += status["state"] == "running"
        assert looks
        mirrors.stays(again, STOPPED, STAND)
        mirrors.write(mirrors.source, 10, "marker", 0)
        stand = {**STAND, "marker": [60]}
        mirrors.wait_ends(stand)
        mirrors.stays(again, STOPPED, stand)
        assert mirrors.gaps() == []
        for kind in ("foreign", "overtaken"):
            mirrors.resolve(kind, "restart")
        mirrors.resolve("deleted", "continue", "1")
        level = {"foreign": [70] * 8, "deleted": [70, 70], "overtaken": [51], "marker": [60]}
        mirrors.wait_ends(level)
        mirrors.wait_codes({})
        mirrors.stays(again, {}, level)
    mirrors.empty_progress()
    assert mirrors.codes_of(mirrors.status()) == {}
    (row,) = (row for row in mirrors.gaps() if row["topic"] == mirrors.topics["deleted"])
    provoked("gap:target_unknown", row)
    # What may be missing; who wrote it, and whether it was ours, nobody knows any more.
    assert (row["first"], row["last"], row["count"]) == (50, 54, None)
