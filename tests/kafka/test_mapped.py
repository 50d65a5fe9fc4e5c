"""Mirrors of sources with holes: readers of both sides see the same records, the map is correct."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.holes import (
    COMPACTED,
    LEFT_MOST,
    assert_none_lost,
    assert_same,
    eager_pair,
    read,
    transactions,
    write_compacted,
)
from support.links import RunningLink, ends, stands, wait_for, write_config
from support.records import encode, odd_records, write_batches

from heliostat.names import TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]


@pytest.fixture(scope="module")
def pair() -> Iterator[ClusterPair]:
    yield from eager_pair()


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


def test_a_compacted_topic_is_copied_with_its_holes(pair: ClusterPair, tmp_path: Path) -> None:
    """Given a cleaned log / when copied / then the same records, mapped."""
    topic = create_topic(pair.source, fresh_name("mapped-compact"), configs=COMPACTED)
    write_compacted(pair.source.bootstrap, random.Random(7), topic, 6)
    wait_cleaned(pair, topic)
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
    )
    stands_still = stands(pair.target.bootstrap, topic)

    def is_copied() -> bool:
        if not stands_still():
            return False
        there = read(pair.source.bootstrap, topic, "read_committed")
        here = read(pair.target.bootstrap, topic, "read_uncommitted")
        return bool(here) and here[-1][1:] == there[-1][1:]

    with RunningLink(config):
        wait_for("all records", is_copied, 120.0)
        assert_none_lost(pair, topic)
