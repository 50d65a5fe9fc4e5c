"""An unclean election at the source puts other records where the target has some (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.clusters import HEAP_MB
from support.command import said
from support.links import LinkProcess, RunningLink, ends_or_errors, wait_for, write_config
from support.provoked import Provoked
from support.records import values_at
from support.rounds import begin_new_rounds
from support.unclean import (
    REPLICAS,
    broker,
    elect_uncleanly,
    leader_alone,
    replicated_topic,
    wait_led,
    write,
)

from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.gaps import copy_progress
from heliostat.gaps.ledger import COPIED_PREFIX, gaps_topic
from heliostat.names import LinkName, TopicName
from heliostat_sandbox import Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LEASE_S, ROUNDS = 5, 2


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    """Three brokers at the source, one at the target."""
    quick = {"replica.lag.time.max.ms": "2000", "offsets.topic.replication.factor": "1"}
    source, target = start_many(
        [
            ClusterSpec("source", brokers=3, settings=quick, heap_mb=HEAP_MB),
            ClusterSpec("target", heap_mb=HEAP_MB),
        ]
    )
    with source, target:
        yield source, target


def config_of(folder: Path, source: Cluster, target: Cluster, *included: TopicName) -> Path:
    topics = {"include": [*included], "refresh_interval_s": 0.5}
    lanes = {"lease_s": LEASE_S}
    return write_config(folder, source.bootstrap, target.bootstrap, topics=topics, lanes=lanes)


def wait_copied(target: Cluster, topic: TopicName, end: int) -> None:
    wait_for(
        f"a copy to {end}", lambda: ends_or_errors(target.bootstrap, {topic: 1})[topic] == [end]
    )


def stops_of(config: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said(config, "gaps")[0]["stopped"]
    return found


def diverged_at(config: Path, topic: TopicName) -> int | None:
    """Return where a source and its mirror diverged, once its leader knows it."""
    (explained,) = said(config, "resolve", topic)
    found: int | None = explained["facts"]["diverged_at"]
    return found


def has_note(target: Cluster, topic: TopicName) -> bool:
    with closing(KeyedTopic(target.bootstrap, gaps_topic(LinkName("east-to-west")))) as ledger:
        return f"{COPIED_PREFIX}{topic}" in ledger.read_all()


def forget_note(target: Cluster, topic: TopicName) -> None:
    """As if the driver had died before it first wrote down how far it copied this topic."""
    with closing(KeyedTopic(target.bootstrap, gaps_topic(LinkName("east-to-west")))) as ledger:
        ledger.write(f"{COPIED_PREFIX}{topic}", None)


@pytest.mark.provokes("SOURCE_TRUNCATED", "gap:source_truncated")
def test_an_unclean_election_is_found_after_the_log_has_grown_again(
    clusters: tuple[Cluster, Cluster],
    tmp_path: Path,
    provoked: Provoked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given copied records / when a stale replica leads and takes others / then GAP, from where."""
    monkeypatch.setattr(copy_progress, "WRITE_EVERY_S", 5.0)  # it is noted once a minute otherwise
    source, target = clusters
    topic = replicated_topic(source)
    config = config_of(tmp_path, source, target, topic)

    def copied_to(end: int) -> None:
        wait_copied(target, topic, end)

    def stops() -> list[dict[str, Any]]:
        return stops_of(config)

    with RunningLink(config) as link:
        write(source, topic, range(100))
        copied_to(100)
        leader, old = leader_alone(source, topic)
        write(source, topic, range(100, 150))
        copied_to(150)
        elect_uncleanly(source, leader, old, topic)
        try:
            wait_for("the stop", stops)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{link.text()[-3000:]}") from None
        (stopped,) = stops()
        assert (stopped["code"], stopped["state"]) == ("SOURCE_TRUNCATED", "gap")
        provoked("SOURCE_TRUNCATED", stopped)

        wait_for("where it diverged", lambda: diverged_at(config, topic) == 100)
        (explained,) = said(config, "resolve", topic)
        said(config, "resolve", topic, "--choose", "continue", "--by", "ops", "--yes")
        end = explained["facts"]["target_end"]
        copied_to(end + 80)
        assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
        assert values_at(target.bootstrap, topic, end, 80) == list(range(1000, 1080))
        rows = said(config, "gaps")[0]["rows"]
        told = [(row["cause"], row["first"], row["count"]) for row in rows]
        provoked("gap:source_truncated", rows[0])
        assert told == [("source_truncated", 100, 0)], (rows, link.text()[-3000:])
        try:
            wait_for("no complaint", lambda: not stops())
        except AssertionError as error:
            raise AssertionError(f"{error}\n{stops()}\n{link.text()[-3000:]}") from None


def test_lost_records_are_found_though_the_killed_driver_had_not_noted_them(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given a driver killed just after a copy, then a stale replica that leads / then GAP.

    Copy progress is noted once a minute: the link has no note of the lost records, and of one topic
    no note at all.
    """
    source, target = clusters
    for number in REPLICAS:
        if not broker(source, number).is_alive():
            broker(source, number).start()
    both = noted, unnoted = replicated_topic(source), replicated_topic(source)
    config = config_of(tmp_path, source, target, *both)
    with LinkProcess(config) as link:
        for topic in both:
            write(source, topic, range(100))
        for topic in both:
            wait_copied(target, topic, 100)
        leader, old = leader_alone(source, noted)
        for topic in both:
            wait_led(source, topic, leader)
            write(source, topic, range(100, 150))
        for topic in both:
            wait_copied(target, topic, 150)
        wait_for("a note", lambda: has_note(target, unnoted))
        link.kill_driver()
    forget_note(target, unnoted)
    elect_uncleanly(source, leader, old, *both)
    for run in ("first", "second"):  # what was found is known to the next one as well
        with RunningLink(config) as again:
            try:
                wait_for(f"the {run} stop", lambda: len(stops_of(config)) == 2)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{again.text()[-3000:]}") from None
            begin_new_rounds(config, again.workers, ROUNDS)
            found = [(stopped["code"], stopped["state"]) for stopped in stops_of(config)]
            assert found == [("SOURCE_TRUNCATED", "gap")] * 2, again.text()[-3000:]
    for topic in both:
        assert ends_or_errors(target.bootstrap, {topic: 1})[topic] == [150]
        assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
    assert diverged_at(config, noted) == 100
    # Of this one only the new leader's epoch is known. The one before it may have brought nothing,
    # as after a broker's start: then the leader doesn't know where it ended.
    assert diverged_at(config, unnoted) in {100, None}
    said(config, "resolve", noted, "--choose", "continue", "--by", "ops", "--yes")
    with RunningLink(config):
        wait_for("one stop less", lambda: len(stops_of(config)) == 1)
