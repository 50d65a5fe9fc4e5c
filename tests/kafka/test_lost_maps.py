"""Offset maps whose rows are gone: mapped mirrors stop and stay so, exact ones continue.

Then `heliostat offsets rebuild` rebuilds the maps, and all records of both sides are compared.
`test_piped_rebuild` deletes their topic while the link runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import said
from support.holes import read, transactions
from support.links import RunningLink, ends, stands, write_config
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.errors import BrokerError
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.state_topics import offsets_topic
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LOST = {"state": "blocked", "code": "OFFSET_MAP_LOST", "says what to do": True}
LEASE_S = 4


class Mirrors:
    """A mapped and an exact mirror of one link of their own."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.link = LinkName(fresh_name("link"))
        self.mapped = create_topic(pair.source, fresh_name("mapped"))
        self.exact = create_topic(pair.source, fresh_name("exact"))
        self.compacted = create_topic(
            pair.source, fresh_name("compacted"), configs={"cleanup.policy": "compact"}
        )
        self.mapped_ones = (self.mapped, self.compacted)
        self.all = (*self.mapped_ones, self.exact)
        self.rng = random.Random(3)
        self.exact_records = 0
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=self.link,
            topics={"include": [*self.all], "refresh_interval_s": 0.5},
            lanes={"lease_s": LEASE_S},
        )

    def write(self) -> None:
        """More of each: transactions, and plain records for the exact one."""
        for topic in self.mapped_ones:
            transactions(self.pair.source.bootstrap, topic, self.rng, 3)
        self.write_exact()

    def write_exact(self) -> None:
        # No two alike: of those one could be the last record as well as the other.
        numbers = range(self.exact_records, self.exact_records + 20)
        self.exact_records += len(numbers)
        now_ms = int(time.time() * 1000)
        batch = encode([Sample(b"k", b"%d" % number, now_ms) for number in numbers])
        write_batches(self.pair.source.bootstrap, self.exact, [batch])

    def of(self, topic: TopicName) -> tuple[list[Any], list[Any]]:
        """What readers of the source see, and those of the target; without offsets."""
        there = read(self.pair.source.bootstrap, topic, "read_committed")
        here = read(self.pair.target.bootstrap, topic, "read_uncommitted")
        return [row[1:] for row in there], [row[1:] for row in here]

    def wait_equal(self, *topics: TopicName) -> None:
        """Until the target has what the source has, no less and no more."""
        for topic in topics:
            seen: list[list[Any]] = []
            stands_still = stands(self.pair.target.bootstrap, topic)

            def has_all(
                topic: TopicName = topic,
                seen: list[list[Any]] = seen,
                stands_still: Callable[[], bool] = stands_still,
            ) -> bool:
                if not stands_still():
                    return False
                seen[:] = self.of(topic)
                return len(seen[1]) >= len(seen[0]) > 0

            until(has_all, f"all records of {topic}", timeout_s=60)
            assert seen[1] == seen[0]

    def mapped_ends(self) -> dict[str, int]:
        found = ends(self.pair.target.bootstrap, dict.fromkeys(self.mapped_ones, 1))
        return {topic: found[topic][0] for topic in self.mapped_ones}

    def problems(self) -> dict[str, dict[str, str]]:
        """Return the problems of `heliostat status`, by topic."""
        (status,) = said(self.config, "status")
        return {row["source"]: row for row in status["problems"]}

    def stay_stopped(self) -> None:
        """Assert that mapped mirrors stay stopped for their maps, and the exact one continues."""
        expected = dict.fromkeys(self.mapped_ones, LOST)

        def found() -> dict[str, dict[str, str]]:
            # All of one look: while a round begins, another look may find a row of its own.
            return {name: told(row) for name, row in self.problems().items()}

        self.write()
        until(lambda: found() == expected, lambda: f"{expected}: {self.problems()}", timeout_s=60)
        stood = self.mapped_ends()
        self.write_exact()
        self.wait_equal(self.exact)
        # A driver that has just started has no reports of its lanes yet.
        until(lambda: found() == expected, lambda: f"{expected}: {self.problems()}", timeout_s=60)
        assert self.mapped_ends() == stood
        self.assert_not_told()

    def assert_not_told(self) -> None:
        """Assert that no offsets are translated for a mirror whose map is lost."""
        answers = said(self.config, "offsets", "translate", self.mapped, "0", "1")
        assert [answer["why"] for answer in answers] == ["not_told"]

    def rebuild(self) -> None:
        """Rebuild the maps, from all records that the mirrors have."""
        counts = self.mapped_ends()
        found = said(self.config, "offsets", "rebuild")
        assert {row["source"]["topic"]: row["records"] for row in found} == counts
        assert all(row["why_not"] == "" and row["extents"] > 1 for row in found)

    def wait_whole(self) -> None:
        """Wait until all mirrors continue: nothing duplicated, lost or misreported."""
        self.write()
        self.wait_equal(*self.all)
        until(lambda: not self.problems(), "no problem")
        for topic in self.mapped_ones:
            there = read(self.pair.source.bootstrap, topic, "read_committed")
            here = read(self.pair.target.bootstrap, topic, "read_uncommitted")
            (shown,) = said(self.config, "offsets", "show", topic, "0")
            places = shown["extent_list"]
            known = OffsetMap.of(Break(target, source) for source, target, _ in places)
            assert [known.source_of(row[0]) for row in here] == [row[0] for row in there]


def told(problem: dict[str, str]) -> dict[str, Any]:
    """Return what a problem says, to be compared with `LOST`."""
    return {
        "state": problem["state"],
        "code": problem["code"],
        "says what to do": "offsets rebuild" in problem["reason"],
    }


def delete_topic(target: Cluster, link: LinkName) -> None:
    with ClusterAdmin([target.bootstrap]) as admin:
        topic = TopicName(offsets_topic(link))
        assert admin.delete_topics([topic]) == {topic: None}


def delete_rows(target: Cluster, link: LinkName) -> None:
    """DeleteRecords up to the end, which brokers refuse of a topic that is compacted only."""
    topic = TopicName(offsets_topic(link))
    one = TopicPartition(topic, PartitionId(0))
    with ClusterAdmin([target.bootstrap]) as admin:
        end = admin.list_offsets({one: LATEST})[one]
        assert not isinstance(end, BrokerError)
        for policy in ("delete", "compact"):
            assert admin.alter_configs({topic: {"cleanup.policy": policy}}) == {topic: None}
            if policy == "delete":
                until(
                    lambda: admin.delete_records({one: Offset(end.offset)}) == {one: end.offset},
                    "rows to be deleted",
                )


def write(target: Cluster, link: LinkName, *records: tuple[bytes | None, bytes | None]) -> None:
    """Write foreign records, as a user with the right to."""
    topic = ByteTopic(target.bootstrap, TopicName(offsets_topic(link)), "stranger")
    with closing(topic):
        topic.write(ByteRecord(key, value) for key, value in records)


def write_over(target: Cluster, link: LinkName) -> None:
    """Under the key of one row of each mapped mirror: compaction would take the row."""
    topic = ByteTopic(target.bootstrap, TopicName(offsets_topic(link)), "stranger")
    with closing(topic):
        keys = {RowKey.decode(one.key).mirror: one.key for one in topic.read_all() if one.key}
    write(
        target,
        link,
        *((key, value) for key, value in zip(keys.values(), (b"?", None), strict=True)),
    )


def test_mirrors_whose_maps_are_lost(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given mapped and exact mirrors / when rows of their maps are deleted, while the link is

    stopped and while it runs / then only mapped ones stop, over rounds and restarts, until their
    maps are rebuilt; then all continue, each record once, and the maps are correct.
    """
    mirrors = Mirrors(cluster_pair, tmp_path)
    target, link = cluster_pair.target, mirrors.link
    mirrors.write()
    with RunningLink(mirrors.config):
        mirrors.wait_equal(*mirrors.all)
    delete_topic(target, link)
    mirrors.assert_not_told()
    for _ in range(2):
        with RunningLink(mirrors.config):
            mirrors.stay_stopped()
    mirrors.rebuild()
    with RunningLink(mirrors.config) as running:
        write(target, link, (b"who knows", b"what"))
        mirrors.wait_whole()
        (status,) = said(mirrors.config, "status")
        assert "has a record that is no row" in str(status["notes"])
        for lose in (delete_rows, write_over):
            lose(target, link)
            mirrors.stay_stopped()
            mirrors.rebuild()
            mirrors.wait_whole()
        assert not running.has_ended
