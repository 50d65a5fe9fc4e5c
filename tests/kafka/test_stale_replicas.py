"""Replicas that lack records: one leads at the source (KIP-320), some are down at the target.

One pair of clusters for all: three brokers at one side, one at the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import HEAP_MB, ClusterPair, fresh_name, until
from support.command import said
from support.links import LinkProcess, RunningLink, ends_or_errors, wait_for, write_config
from support.merged_elections import ElectedSites
from support.one_partition import OnePartition
from support.provoked import Provoked
from support.records import values_at
from support.rounds import begin_new_rounds
from support.unclean import (
    elect_uncleanly,
    first_leads,
    leader_alone,
    replicated_topics,
    wait_led,
    write,
)

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.gaps import copy_progress
from heliostat.gaps.ledger import COPIED_PREFIX, gaps_topic
from heliostat.names import TopicName
from heliostat.records.copier.lane import PartitionState
from heliostat_sandbox import Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LEASE_S = 5
GAP = {"code": "SOURCE_TRUNCATED", "state": "gap"}


@pytest.fixture(scope="module")
def all_clusters() -> Iterator[tuple[Cluster, Cluster]]:
    quick = {"replica.lag.time.max.ms": "2000", "offsets.topic.replication.factor": "1"}
    three, single = start_many(
        [
            ClusterSpec("three", brokers=3, settings=quick, heap_mb=HEAP_MB),
            ClusterSpec("single", heap_mb=HEAP_MB),
        ]
    )
    with three, single:
        yield three, single


@pytest.fixture
def clusters(all_clusters: tuple[Cluster, Cluster]) -> tuple[Cluster, Cluster]:
    """Give a cluster of three brokers, all of them live, and one of a single broker."""
    for broker in all_clusters[0].brokers:
        if not broker.is_alive():
            broker.start()
    return all_clusters


def leaders_of(admin: ClusterAdmin, names: list[TopicName]) -> list[int]:
    """Of their first partitions, when all brokers know of them."""
    leaders: list[int] = []

    def are_known() -> bool:
        described = admin.describe_topics(names)
        some = [
            described[name].partitions[0].leader for name in names if described[name].partitions
        ]
        leaders[:] = [leader for leader in some if leader is not None]
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
    clusters: tuple[Cluster, Cluster], provoked: Provoked
) -> None:
    """Given a foreign record that lost replicas lack / then waited for; once read, DIVERGED."""
    target, source = clusters
    mirror, leader = led_alike(ClusterPair(source, target))
    mirror.write_source(10)
    mirror.copy_to(10)
    producer = KafkaProducer(bootstrap_servers=target.bootstrap, acks=1)
    producer.partitions_for(mirror.topic)
    followers = [broker for broker in target.brokers if broker.broker_id != leader]
    for broker in followers:
        broker.kill()  # the controllers' majority with them: who is in sync stays as it was
    producer.send(mirror.topic, b"a stranger's").get(30)
    producer.close()
    report = mirror.copy_until("TAIL_UNREAD")
    assert report.state is PartitionState.RETRYING
    provoked("TAIL_UNREAD", report)
    for broker in followers:
        broker.start()
    assert mirror.copy_until("FOREIGN_TAIL").state is PartitionState.DIVERGED


class UncleanLink:
    """A link of its own from three brokers to one, and what its operator sees."""

    def __init__(
        self, folder: Path, source: Cluster, target: Cluster, topics: list[TopicName]
    ) -> None:
        self.target = target
        self.name = fresh_name("link")
        (own := folder / self.name).mkdir()
        self.config = write_config(
            own,
            source.bootstrap,
            target.bootstrap,
            name=self.name,
            topics={"include": topics, "refresh_interval_s": 0.5},
            lanes={"lease_s": LEASE_S},
        )

    def stops(self) -> list[dict[str, Any]]:
        return list(said(self.config, "gaps")[0]["stopped"])

    def wait_stops(self, count: int, link: RunningLink) -> None:
        """Wait until so many partitions are stopped, each for what its source lost."""
        try:
            wait_for(f"{count} stops", lambda: len(self.stops()) == count)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.stops()}\n{link.text()[-3000:]}") from None
        assert self.codes() == [GAP] * count, link.text()[-3000:]

    def codes(self) -> list[dict[str, Any]]:
        return [{key: stop[key] for key in GAP} for stop in self.stops()]

    def explained(self, topic: TopicName) -> dict[str, Any]:
        """Return what `resolve` says before a decision."""
        (row,) = said(self.config, "resolve", topic)
        return dict(row["facts"])

    def decide_to_continue(self, topic: TopicName) -> None:
        said(self.config, "resolve", topic, "--choose", "continue", "--by", "ops", "--yes")

    def has_note(self, topic: TopicName) -> bool:
        """Whether it is noted how far this topic was copied."""
        with closing(KeyedTopic(self.target.bootstrap, gaps_topic(self.name))) as ledger:
            return f"{COPIED_PREFIX}{topic}" in ledger.read_all()

    def forget_note(self, topic: TopicName) -> None:
        """As if the driver had died before it first wrote down how far it copied this topic."""
        with closing(KeyedTopic(self.target.bootstrap, gaps_topic(self.name))) as ledger:
            ledger.write(f"{COPIED_PREFIX}{topic}", None)


def wait_copied(target: Cluster, topics: list[TopicName], end: int) -> None:
    counts = dict.fromkeys(topics, 1)
    wanted = {topic: [end] for topic in topics}
    wait_for(f"a copy to {end}", lambda: ends_or_errors(target.bootstrap, counts) == wanted)


@pytest.mark.provokes("SOURCE_TRUNCATED", "gap:source_truncated")
def test_an_unclean_election_is_found_after_the_log_has_grown_again(
    clusters: tuple[Cluster, Cluster],
    tmp_path: Path,
    provoked: Provoked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given copied records / when a stale replica leads and takes others / then GAP, from where.

    By a link that runs meanwhile, and by one whose driver was killed just after it had copied: copy
    progress is noted once a minute, so that it has no note of the lost records, and of one topic no
    note at all.
    """
    source, target = clusters
    names = [fresh_name(name) for name in ("topic", "with-note", "without-note")]
    topic_of_live, with_note, without_note = topics = replicated_topics(source, *names)
    # Those that the other broker leads would get an epoch by its end that it never learns of.
    first_leads(source, topics)
    live = UncleanLink(tmp_path, source, target, [topic_of_live])
    dead = UncleanLink(tmp_path, source, target, [with_note, without_note])
    with monkeypatch.context() as patch, RunningLink(live.config) as link:
        patch.setattr(copy_progress, "WRITE_EVERY_S", 5.0)
        with LinkProcess(dead.config) as process:
            for topic in topics:
                write(source, topic, range(100))
            wait_copied(target, topics, 100)
            leader, old = leader_alone(source, with_note)
            for topic in topics:
                wait_led(source, topic, leader)
                write(source, topic, range(100, 150))
            wait_copied(target, topics, 150)
            wait_for("a note", lambda: dead.has_note(without_note))
            process.kill_driver()
        dead.forget_note(without_note)
        elect_uncleanly(source, leader, old, *topics)
        live.wait_stops(1, link)
        provoked("SOURCE_TRUNCATED", live.stops()[0])
        check_continued(live, topic_of_live, provoked)
    with RunningLink(dead.config) as first:
        dead.wait_stops(2, first)
    with RunningLink(dead.config) as again:  # what was found is known to the next one as well
        dead.wait_stops(2, again)
        begin_new_rounds(dead.config, again.workers)
        assert dead.codes() == [GAP] * 2, again.text()[-3000:]
        wait_copied(target, [with_note, without_note], 150)
        for topic in (with_note, without_note):
            assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
        assert dead.explained(with_note)["diverged_at"] == 100
        # Of this one only the new leader's epoch is known. The one before it may have brought
        # nothing, as after a broker's start: then the leader doesn't know where it ended.
        assert dead.explained(without_note)["diverged_at"] in {100, None}
        dead.decide_to_continue(with_note)
        wait_for("one stop less", lambda: len(dead.stops()) == 1)


def check_continued(link: UncleanLink, topic: TopicName, provoked: Provoked) -> None:
    """Decide to continue: the mirror has what the source lost, then what it has instead."""
    target = link.target
    # Its leader has to know it first.
    wait_for("where it diverged", lambda: link.explained(topic)["diverged_at"] == 100)
    end = link.explained(topic)["target_end"]
    link.decide_to_continue(topic)
    wait_copied(target, [topic], end + 80)
    assert values_at(target.bootstrap, topic, 0, 150) == list(range(150))
    assert values_at(target.bootstrap, topic, end, 80) == list(range(1000, 1080))
    rows = said(link.config, "gaps")[0]["rows"]
    provoked("gap:source_truncated", rows[0])
    causes = [(row["cause"], row["first"], row["count"]) for row in rows]
    assert causes == [("source_truncated", 100, 0)], rows
    wait_for("no complaint", lambda: not link.stops())


def test_merged_topics_go_on_at_the_cut_and_have_no_record_twice(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """Given merged topics of which a site's leader alone has the newest records / when it is lost /
    then the link away stops, also where only crossed records were lost, and goes on at the cut by
    decision, the link back brings again what was lost. (Killed links: `tests/sim`.)
    """
    sites = ElectedSites(tmp_path, *clusters)
    for topic in sites.topics:
        for _ in range(3):
            sites.write("summit", "base", topic=topic)
    with RunningLink(sites.config) as link:
        sites.wait_level(link)
        own_ends, back_ends = sites.ends_of("summit"), sites.ends_of("base")
        leader, old = sites.write_to_one(link)
        sites.elect(leader, old)
        wait_for("stops", lambda: len(sites.stops()) == len(sites.topics))
        assert {(stop["topic"], stop["code"]) for stop in sites.stops()} == {
            (topic, GAP["code"]) for topic in sites.topics
        }
        cuts = [sites.go_on(topic) for topic in sites.topics]
        assert cuts == own_ends
        for topic in sites.topics:
            sites.write("summit", "base", topic=topic)
        sites.wait_level(link)
        sites.check()
    away, back = (sites.ledger(link) for link in sites.links)
    assert [(row["cause"], row["first"]) for row in away] == [
        ("source_truncated", cut) for cut in cuts
    ]
    for end, row in zip(back_ends, back, strict=False):
        assert row["cause"] == "target_truncated"
        assert row["first"] >= end
    assert len(back) >= len(back_ends)
