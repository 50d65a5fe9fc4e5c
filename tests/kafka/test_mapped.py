"""Mirrors of sources with holes: readers of both sides see the same records, the map is correct."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.holes import COMPACTED, LEFT_MOST, eager_pair, read, transactions, write_compacted
from support.links import LinkProcess, RunningLink, ends, stands, wait_for, write_config
from support.records import encode, odd_records, write_batches

from heliostat.access import access_of
from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.offsets.store import read_maps
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]


@pytest.fixture(scope="module")
def pair() -> Iterator[ClusterPair]:
    yield from eager_pair()


def map_of(target: Cluster, topic: TopicName) -> OffsetMap:
    """The map of partition 0 as it is durable now."""
    with ClusterAdmin([target.bootstrap]) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
    reader = read_maps(access_of([target.bootstrap]), LinkName("east-to-west"))
    return reader.of(TopicPartition(topic, PartitionId(0)), str(topic_id))


def assert_same(pair: ClusterPair, topic: TopicName) -> OffsetMap:
    """Both sides' readers see the same; the map is exact in both directions."""
    there = read(pair.source.bootstrap, topic, "read_committed")
    here = read(pair.target.bootstrap, topic, "read_uncommitted")
    assert [row[1:] for row in here] == [row[1:] for row in there]
    found = map_of(pair.target, topic)
    for source, target in zip(there, here, strict=True):
        assert found.source_of(target[0]) == source[0]
        assert found.target_of(source[0]) == target[0]
        assert found.holds(source[0])
    return found


def wait_equal(pair: ClusterPair, topic: TopicName, within_s: float = 120.0) -> None:
    """Until the target has as many records as readers of the source see."""

    stands_still = stands(pair.target.bootstrap, topic)

    def is_equal() -> bool:
        if not stands_still():
            return False
        there = read(pair.source.bootstrap, topic, "read_committed")
        here = ends(pair.target.bootstrap, {topic: 1})[topic][0]
        return here == len(there) > 0

    wait_for(f"all records of {topic}", is_equal, within_s)


def test_transactions_are_copied_committed_and_in_order(pair: ClusterPair, tmp_path: Path) -> None:
    """Given commits, aborts and an open transaction / when copied / then as readers see it."""
    source = pair.source.bootstrap
    topic = create_topic(pair.source, fresh_name("mapped-tx"))
    rng = random.Random(5)
    write_batches(source, topic, [encode(odd_records(rng, 20))])
    transactions(source, topic, rng, 30)
    hanging = KafkaProducer(
        bootstrap_servers=source.split(","),
        transactional_id=fresh_name("open"),
        transaction_timeout_ms=600_000,
    )
    hanging.init_transactions()
    hanging.begin_transaction()
    hanging.send(topic, value=b"open", partition=0)
    hanging.flush()
    config = write_config(tmp_path, source, pair.target.bootstrap, topics={"include": [topic]})
    with RunningLink(config) as link:
        write_batches(source, topic, [encode(odd_records(rng, 20))])  # after the open one
        wait_equal(pair, topic)
        assert ends(source, {topic: 1})[topic][0] > len(assert_same(pair, topic)) > 0
        hanging.commit_transaction()
        hanging.close()
        transactions(source, topic, rng, 5)
        wait_equal(pair, topic)
        assert_same(pair, topic)
        assert link.stop() == 0


def wait_cleaned(pair: ClusterPair, topic: str) -> None:
    """Until the cleaner has taken most records."""

    def count() -> int:
        return len(read(pair.source.bootstrap, topic, "read_committed"))

    wait_for("the cleaner", lambda: count() < LEFT_MOST, 120.0)


@pytest.mark.parametrize("kills", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_compacted_topic_is_copied_with_its_holes(
    pair: ClusterPair, tmp_path: Path, kills: bool
) -> None:
    """Given a cleaned log / when copied, also through kill -9 / then the same records, mapped."""
    topic = create_topic(pair.source, fresh_name("mapped-compact"), configs=COMPACTED)
    rng = random.Random(7)
    rounds = 12 if kills else 6  # there is to be something left to copy when it is killed
    write_compacted(pair.source.bootstrap, rng, topic, rounds)
    wait_cleaned(pair, topic)
    records = {"fetch_bytes_max": 60_000, "partition_fetch_bytes_max": 20_000} if kills else {}
    # The mirror is not cleaned meanwhile, so that it can be compared record by record.
    config = write_config(
        tmp_path,
        pair.source.bootstrap,
        pair.target.bootstrap,
        topics={
            "include": [topic],
            "config_set": {"min.compaction.lag.ms": "3600000"},
            "config_exclude": ["max.compaction.lag.ms", "segment.bytes"],
        },
        records=records,
    )
    with ExitStack() as stack:
        link = stack.enter_context(LinkProcess(config) if kills else RunningLink(config))
        if kills:
            for least in (0, 500):
                wait_for(
                    "copying under way",
                    lambda least=least: ends(pair.target.bootstrap, {topic: 1})[topic][0] > least,
                )
                for worker in wait_for("workers", link.workers):
                    worker.send_signal(signal.SIGKILL)
            link.kill_driver()
            stack.enter_context(RunningLink(config))
        found: list[Any] = []
        stands_still = stands(pair.target.bootstrap, topic)

        def is_copied() -> bool:
            # Records that the cleaner takes after they were copied are at the target only.
            if not stands_still():
                return False
            there = read(pair.source.bootstrap, topic, "read_committed")
            here = read(pair.target.bootstrap, topic, "read_uncommitted")
            found[:] = [there, here]
            return bool(here) and here[-1][1:] == there[-1][1:]

        wait_for("all records", is_copied, 120.0)
        there, here = found
        offsets = map_of(pair.target, topic)
        assert len(offsets) > 0
        copied = {offsets.source_of(row[0]): row[1:] for row in here}
        assert len(copied) == len(here)
        assert list(copied) == sorted(copied)
        for row in there:
            assert copied[row[0]] == row[1:]
        last = {row[1]: row[1:] for row in here if row[2] is not None}
        for row in there:
            if row[2] is not None and row[0] == max(r[0] for r in there if r[1] == row[1]):
                assert last[row[1]] == row[1:]


@pytest.mark.thorough
def test_a_killed_link_continues_in_the_middle_of_transactions(
    pair: ClusterPair, tmp_path: Path
) -> None:
    """Given transactions / when workers and driver are killed -9 / then each record once."""
    source = pair.source.bootstrap
    topic = create_topic(pair.source, fresh_name("mapped-kill"))
    rng = random.Random(11)
    transactions(source, topic, rng, 60)
    config = write_config(tmp_path, source, pair.target.bootstrap, topics={"include": [topic]})
    with ExitStack() as stack:
        link = stack.enter_context(LinkProcess(config))
        wait_for("a copy", lambda: ends(pair.target.bootstrap, {topic: 1})[topic][0] > 0)
        for _ in range(2):
            transactions(source, topic, rng, 10)
            for worker in wait_for("workers", link.workers):
                worker.send_signal(signal.SIGKILL)
            transactions(source, topic, rng, 10)
        link.kill_driver()
        transactions(source, topic, rng, 10)
        stack.enter_context(RunningLink(config))
        wait_equal(pair, topic)
        assert_same(pair, topic)
