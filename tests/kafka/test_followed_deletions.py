"""Records deleted at the source go from the mirrors that follow, and from no other."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.structs import OffsetAndMetadata
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.holes import transactions
from support.links import RunningLink, ends, write_config
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import EARLIEST, ClusterAdmin, ListedOffset
from heliostat.gaps import copy_progress
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

RECORDS = 12
ENDLESS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def one(topic: TopicName) -> TopicPartition:
    return TopicPartition(topic, PartitionId(0))


def delete(bootstrap: str, topic: TopicName, before: int) -> None:
    """As Kafka Streams deletes what it has read."""
    with ClusterAdmin([bootstrap]) as admin:
        assert admin.delete_records({one(topic): Offset(before)}) == {one(topic): before}


def begins(bootstrap: str, *topics: TopicName) -> list[int]:
    """Log starts."""
    with ClusterAdmin([bootstrap]) as admin:
        answers = admin.list_offsets(dict.fromkeys(map(one, topics), EARLIEST), confirmed=True)
    rows = [answers[one(topic)] for topic in topics]
    return [row.offset for row in rows if isinstance(row, ListedOffset)]


def commit(bootstrap: str, group: str, topic: TopicName, offset: int) -> None:
    with KafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        place = KafkaPartition(topic, 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(offset, "", -1)})


class Topics(NamedTuple):
    """One of each kind, at the source."""

    repartition: TopicName
    ended: TopicName
    """A repartition topic that retention ends."""
    listed: TopicName
    mapped: TopicName
    """Listed, with transactions."""
    other: TopicName

    @property
    def plain(self) -> tuple[TopicName, ...]:
        """Those with equal offsets at both sides."""
        return self.repartition, self.ended, self.listed, self.other


def made(pair: ClusterPair, prefix: str) -> Topics:
    by_age = {**ENDLESS, "retention.ms": "604800000"}
    topics = Topics(
        create_topic(pair.source, f"{prefix}-agg-repartition", configs=ENDLESS),
        create_topic(pair.source, f"{prefix}-old-repartition", configs=by_age),
        *(create_topic(pair.source, f"{prefix}-{name}") for name in ("listed", "mapped", "other")),
    )
    for topic in topics.plain:
        write(pair, topic, RECORDS)
    transactions(pair.source.bootstrap, topics.mapped, random.Random(3), 6)
    return topics


def write(pair: ClusterPair, topic: TopicName, count: int) -> None:
    at_ms = int(time.time() * 1000)
    samples = [Sample(b"k", b"%d" % number, at_ms) for number in range(count)]
    write_batches(pair.source.bootstrap, topic, [encode(samples)])


def wait_level(pair: ClusterPair, topics: Topics, link: RunningLink) -> None:
    sizes = dict.fromkeys(topics.plain, 1)
    until(
        lambda: ends(pair.target.bootstrap, sizes) == ends(pair.source.bootstrap, sizes), link.text
    )


def wait_starts(pair: ClusterPair, link: RunningLink, wanted: dict[TopicName, int]) -> None:
    until(
        lambda: begins(pair.target.bootstrap, *wanted) == [*wanted.values()],
        lambda: f"{wanted}, not {begins(pair.target.bootstrap, *wanted)}: {link.text()}",
    )


def check(config: Path) -> None:
    """Nothing is wrong, and nothing that both sides have differs."""
    report = json.loads(heliostat(config, "verify", "--json").stdout)
    assert (report["lost"], report["doubled"], report["different"]) == (0, 0, 0)
    (status,) = said(config, "status")
    assert status["problems"] == []


def test_deletions_are_followed_where_it_is_wanted(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given topics of each kind / when the source deletes / then only mirrors that follow do.

    What a new driver finds deleted goes with the next move that it sees; and a mirror that has no
    record left goes on where it was.
    """
    monkeypatch.setattr(copy_progress, "WRITE_EVERY_S", 0.3)
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    prefix = fresh_name("app")
    topics = made(cluster_pair, prefix)
    repartition, listed = topics.repartition, topics.listed
    config = write_config(
        tmp_path,
        source,
        target,
        name=fresh_name("link"),
        topics={
            "include": [f"{prefix}.*"],
            "follow_deletes": [listed, topics.mapped],
            "refresh_interval_s": 0.3,
        },
        groups={"sync": True, "include": [prefix], "interval_s": 0.5, "states": ["empty"]},
    )
    commit(source, prefix, repartition, 5)
    with RunningLink(config) as link:
        wait_level(cluster_pair, topics, link)
        (plan,) = said(config, "plan")
        assert set(plan["follow"]) == {repartition, listed, topics.mapped}
        assert any(topics.ended in note and "retention.ms" in note for note in plan["notes"])
        for topic in topics.plain:
            delete(source, topic, 8)
        delete(source, topics.mapped, ends(source, {topics.mapped: 1})[topics.mapped][0] // 2)
        wait_starts(cluster_pair, link, {listed: 8, repartition: 5})  # its group has read five
        commit(source, prefix, repartition, RECORDS)
        wait_starts(cluster_pair, link, {repartition: 8})
        until(lambda: begins(target, topics.mapped)[0] > 0, link.text)
        check(config)
    for topic in (repartition, listed, topics.mapped):
        assert re.search(rf"INFO .* {topic}: \d+ offsets that the source has deleted", link.text())
    delete(source, repartition, 9)
    delete(source, listed, 9)
    with RunningLink(config) as link:
        until(lambda: "while this driver did not watch" in link.text(), link.text)
        assert begins(target, repartition, listed) == [8, 8]
        delete(source, repartition, 10)
        delete(source, listed, RECORDS)  # all of it
        wait_starts(cluster_pair, link, {repartition: 10, listed: RECORDS})
    write(cluster_pair, listed, 1)
    with RunningLink(config) as link:
        wait_level(cluster_pair, topics, link)
        check(config)
    assert begins(target, topics.ended, topics.other) == [0, 0]
