"""`topics.offsets: exact`: holes are filled with markers, so that offsets stay equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.holes import COMPACTED, LEFT_MOST, eager_pair, read, transactions, write_compacted
from support.links import LinkProcess, RunningLink, ends, kill, wait_for, write_config
from support.records import encode, odd_records, write_batches

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def pair() -> Iterator[ClusterPair]:
    yield from eager_pair()


def config_of(folder: Path, pair: ClusterPair, topic: str, **more: Any) -> Path:
    topics = {"include": [topic], "offsets": "exact", **more}
    return write_config(folder, pair.source.bootstrap, pair.target.bootstrap, topics=topics)


def end_of(pair: ClusterPair, topic: str) -> int:
    """Where the mirror ends."""
    return ends(pair.target.bootstrap, {topic: 1})[topic][0]


def wait_beyond(pair: ClusterPair, topic: str, end: int) -> None:
    """Until the mirror has more."""
    wait_for("more records", lambda: end_of(pair, topic) > end)


def wait_level(pair: ClusterPair, topic: str) -> None:
    """Until the log ends are equal."""

    def is_level() -> bool:
        return end_of(pair, topic) == ends(pair.source.bootstrap, {topic: 1})[topic][0] > 0

    wait_for(f"equal ends of {topic}", is_level, 120.0)


def assert_equal(pair: ClusterPair, topic: str) -> None:
    """Readers of both sides see the same records at the same offsets."""
    there = read(pair.source.bootstrap, topic, "read_committed")
    for isolation in ("read_committed", "read_uncommitted"):
        assert read(pair.target.bootstrap, topic, isolation) == there
    assert there


def test_transactions_are_copied_with_equal_offsets(pair: ClusterPair, tmp_path: Path) -> None:
    """Given commits and aborts / when copied, also through kill -9 / then offsets are equal."""
    source = pair.source.bootstrap
    topic = create_topic(pair.source, fresh_name("exact-tx"))
    rng = random.Random(21)
    write_batches(source, topic, [encode(odd_records(rng, 20))])
    transactions(source, topic, rng, 60)
    config = config_of(tmp_path, pair, topic)
    with ExitStack() as stack:
        first = stack.enter_context(LinkProcess(config))
        end = 0
        for _ in range(2):
            wait_beyond(pair, topic, end)
            transactions(source, topic, rng, 10)
            wait_for("workers to kill", lambda: kill(first.workers()))
            end = end_of(pair, topic)
            transactions(source, topic, rng, 10)
        first.kill_driver()
        transactions(source, topic, rng, 10)
        link = stack.enter_context(RunningLink(config))
        wait_level(pair, topic)
        assert_equal(pair, topic)
        transactions(source, topic, rng, 5)  # no record follows the last marker
        write_batches(source, topic, [encode(odd_records(rng, 20))])
        wait_level(pair, topic)
        assert_equal(pair, topic)
        assert link.stop() == 0
    assert_verified(config)


def assert_verified(config: Path) -> None:
    told = heliostat(config, "verify")
    assert told.returncode == 0, told.said
    assert "offsets equal" in told.stdout


def test_a_compacted_topic_is_copied_with_equal_offsets(pair: ClusterPair, tmp_path: Path) -> None:
    """Given a cleaned log / when copied / then each record keeps its offset, holes stay holes."""
    topic = create_topic(pair.source, fresh_name("exact-compact"), configs=COMPACTED)
    rng = random.Random(7)
    write_compacted(pair.source.bootstrap, rng, topic, 6)
    wait_for(
        "the cleaner",
        lambda: len(read(pair.source.bootstrap, topic, "read_committed")) < LEFT_MOST,
        120.0,
    )
    lag = {"min.compaction.lag.ms": "3600000"}  # the mirror is not cleaned while it is compared
    config = config_of(
        tmp_path,
        pair,
        topic,
        config_set=lag,
        config_exclude=["max.compaction.lag.ms", "segment.bytes"],
    )
    with RunningLink(config) as link:
        wait_level(pair, topic)
        there = read(pair.source.bootstrap, topic, "read_committed")
        here = {row[0]: row for row in read(pair.target.bootstrap, topic, "read_uncommitted")}
        assert [here[row[0]] for row in there] == there  # the cleaner may take more meanwhile
        assert len(here) < end_of(pair, topic)
        assert link.stop() == 0
    assert_verified(config)
