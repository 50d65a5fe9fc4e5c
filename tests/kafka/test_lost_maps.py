"""Offset maps whose rows are gone: mapped mirrors stop and stay so, exact ones of the link go on.

Then `heliostat offsets rebuild` makes the maps anew, and all records of both sides are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import said
from support.holes import read, transactions
from support.links import RunningLink, ends, write_config
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.link.state_names import offsets_topic
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LOST = {"state": "blocked", "code": "OFFSET_MAP_LOST"}
ROUND_S = 2
Lose = Callable[[Cluster, LinkName], None]


class Mirrors:
    """A mapped and an exact mirror of one link of their own."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.pair = pair
        self.link = LinkName(fresh_name("link"))
        self.mapped = create_topic(pair.source, fresh_name("mapped"))
        self.exact = create_topic(pair.source, fresh_name("exact"))
        self.rng = random.Random(3)
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=self.link,
            topics={"include": [self.mapped, self.exact], "refresh_interval_s": 0.5},
            lanes={"round_s": ROUND_S},
        )

    def write(self) -> None:
        """More of both: transactions in the one, plain records in the other."""
        transactions(self.pair.source.bootstrap, self.mapped, self.rng, 6)
        batch = encode([Sample(b"k", b"%d" % n, 1_790_000_000_000 + n) for n in range(20)])
        write_batches(self.pair.source.bootstrap, self.exact, [batch])

    def of(self, topic: TopicName) -> tuple[list[Any], list[Any]]:
        """What readers of the source see, and those of the target; without offsets."""
        there = read(self.pair.source.bootstrap, topic, "read_committed")
        here = read(self.pair.target.bootstrap, topic, "read_uncommitted")
        return [row[1:] for row in there], [row[1:] for row in here]

    def wait_equal(self, *topics: TopicName) -> None:
        for topic in topics:
            until(
                lambda topic=topic: len(self.of(topic)[1]) >= len(self.of(topic)[0]) > 0,
                f"all records of {topic}",
                timeout_s=60,
            )
            there, here = self.of(topic)
            assert here == there

    def mapped_end(self) -> int:
        return ends(self.pair.target.bootstrap, {self.mapped: 1})[self.mapped][0]

    def problems(self) -> dict[str, dict[str, str]]:
        """By topic, as `heliostat status` tells them."""
        (status,) = said(self.config, "status")
        return {row["source"]: row for row in status["problems"]}

    def wait_stopped(self) -> None:
        """The mapped mirror stands stopped for its map; the exact one does not."""
        expected = {self.mapped: LOST}

        def found() -> dict[str, dict[str, str]]:
            return {n: {key: row[key] for key in LOST} for n, row in self.problems().items()}

        until(lambda: found() == expected, lambda: f"{expected}: {self.problems()}", timeout_s=60)
        assert "offsets rebuild" in self.problems()[self.mapped]["reason"]


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


@pytest.fixture
def mirrors(cluster_pair: ClusterPair, tmp_path: Path) -> Mirrors:
    made = Mirrors(cluster_pair, tmp_path)
    made.write()
    return made


@pytest.mark.parametrize("lose", [delete_topic, delete_rows])
def test_maps_lost_while_the_link_is_stopped(mirrors: Mirrors, lose: Lose) -> None:
    """Given a stopped link / when its maps are lost / then mapped mirrors alone stop, and stay so

    over rounds and a restart.
    """
    with RunningLink(mirrors.config):
        mirrors.wait_equal(mirrors.mapped, mirrors.exact)
        mirrors.write()
        mirrors.wait_equal(mirrors.mapped, mirrors.exact)
    stood = mirrors.mapped_end()
    lose(mirrors.pair.target, mirrors.link)
    for _ in range(2):
        mirrors.write()
        with RunningLink(mirrors.config):
            mirrors.wait_stopped()
            mirrors.wait_equal(mirrors.exact)
            mirrors.write()
            mirrors.wait_equal(mirrors.exact)
    assert mirrors.mapped_end() == stood


@pytest.mark.parametrize("lose", [delete_topic, delete_rows])
def test_maps_lost_while_the_link_runs(mirrors: Mirrors, lose: Lose) -> None:
    """Given a running link / when its maps are lost / then mapped mirrors alone stop."""
    with RunningLink(mirrors.config) as link:
        mirrors.wait_equal(mirrors.mapped, mirrors.exact)
        lose(mirrors.pair.target, mirrors.link)
        mirrors.wait_stopped()
        stood = mirrors.mapped_end()
        mirrors.write()
        mirrors.wait_equal(mirrors.exact)
        assert not link.has_ended
        assert mirrors.mapped_end() == stood
