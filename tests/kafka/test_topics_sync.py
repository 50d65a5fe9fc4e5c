"""Topics of one real cluster mirrored to another: plan, apply, and plan again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name, until
from support.command import heliostat, said
from support.links import RunningLink, ends, wait_for, write_config
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin, NewTopic
from heliostat.config import FORCED_CONFIGS, LinkConfig
from heliostat.errors import BrokerError
from heliostat.link.beginnings import Beginnings
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.apply import ApplyReport, apply_plan
from heliostat.topics.naming import naming_of
from heliostat.topics.observe import observe_source, observe_target
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.core]
ACKNOWLEDGED_WITHIN_S = 20


@dataclass
class Sides:
    """Both clusters, and a link's memory between its turns."""

    source: ClusterAdmin
    target: ClusterAdmin
    link: LinkConfig
    prefix: str
    """Of the topics that the link copies; each test has its own."""
    known: dict[TopicName, MirrorRecord] = field(default_factory=dict)

    def plan(self) -> TopicPlan:
        source = observe_source(self.source, self.link)
        names = [naming_of(self.link).target_name(name) for name in source.topics]
        target = observe_target(self.target, self.link, names)
        return plan_topics(self.link, source, target, self.known)

    def turn(self) -> tuple[TopicPlan, ApplyReport]:
        plan = self.plan()
        report = apply_plan(plan, self.target)
        self.known |= {record.source: record for record in report.remember}
        return plan, report

    def make(self, name: str, partitions: int = 1, **configs: str) -> TopicName:
        """Create the source topic `<prefix>.<name>`."""
        own = {key.replace("__", "."): value for key, value in configs.items()}
        return make(self.source, f"{self.prefix}.{name}", partitions, **own)

    def own(self, name: str) -> dict[str, str | None]:
        """What a target topic has of its own, without what every mirror has."""
        configs = self.target.describe_configs([TopicName(name)])[TopicName(name)]
        assert not isinstance(configs, BrokerError)
        return {k: e.value for k, e in configs.items() if e.is_own and k not in FORCED_CONFIGS}


def make(admin: ClusterAdmin, name: str, partitions: int = 1, **configs: str) -> TopicName:
    topic = TopicName(name)
    answer = admin.create_topics([NewTopic(topic, partitions, 1, configs)])[topic]
    assert not isinstance(answer, BrokerError), answer
    until(
        lambda: len(admin.describe_topics([topic])[topic].partitions) == partitions,
        f"topic {topic}",
    )
    return topic


def drop(admin: ClusterAdmin, topic: TopicName) -> None:
    assert admin.delete_topics([topic])[topic] is None
    until(lambda: topic not in admin.describe_topics(), f"the end of topic {topic}")


def write(cluster: Cluster, topic: TopicName) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","))
    producer.send(topic, value=b"x", partition=0).get(ACKNOWLEDGED_WITHIN_S)
    producer.close()


@pytest.fixture
def sides(cluster_pair: ClusterPair, request) -> Iterator[Sides]:
    prefix = request.node.name.removeprefix("test_").replace("_", "-")
    link = LinkConfig.model_validate(
        {
            "name": "l",
            "source": "summit",
            "target": "usdf",
            "topics": {"include": [rf"{prefix}\..*"], "naming": {"prefix": "summit."}},
        }
    )
    with (
        ClusterAdmin(cluster_pair.source.bootstrap.split(",")) as source,
        ClusterAdmin(cluster_pair.target.bootstrap.split(",")) as target,
    ):
        yield Sides(source, target, link, prefix)


def test_topics_follow_the_source(sides):
    a = sides.make(
        "a",
        2,
        retention__ms="5000000",
        max__message__bytes="10485760",
        segment__bytes="5000000",
    )
    b = sides.make("b", cleanup__policy="compact")
    plan, report = sides.turn()
    assert [c.target for c in plan.create] == [f"summit.{a}", f"summit.{b}"]
    assert not report.failed
    assert {m.source: (m.partitions, m.is_compacted) for m in report.mirrors} == {
        a: (2, False),
        b: (1, True),
    }
    ids = sides.target.describe_topics([m.target for m in report.mirrors])
    assert {m.target: m.target_id for m in report.mirrors} == {
        name: info.topic_id for name, info in ids.items()
    }
    assert sides.own(f"summit.{a}") == {
        "retention.ms": "5000000",
        "max.message.bytes": "10485760",
        "segment.bytes": "10485760",
    }
    assert sides.plan().is_empty

    sides.source.alter_configs({a: {"retention.ms": None, "segment.bytes": None, "flush.ms": "5"}})
    sides.source.grow_partitions({b: 3})
    new = sides.make("new")
    sides.target.alter_configs({TopicName(f"summit.{b}"): {"flush.messages": "7"}})
    until(lambda: len(sides.source.describe_topics([b])[b].partitions) == 3, "3 partitions")
    plan, report = sides.turn()
    assert report.created == (f"summit.{new}",)
    assert report.grown == (f"summit.{b}",)
    assert report.configured == (f"summit.{a}",)
    assert sides.own(f"summit.{a}") == {"flush.ms": "5", "max.message.bytes": "10485760"}
    assert sides.own(f"summit.{b}") == {"cleanup.policy": "compact", "flush.messages": "7"}
    grown = next(m for m in report.mirrors if m.source == b)
    assert (grown.partitions, grown.initial_partitions) == (3, 1)
    assert sides.plan().is_empty


def test_every_mirror_accepts_raw_batches(sides):
    """Given any source and broker settings / then compression, times and sizes are as needed."""
    topic = sides.make(
        "a",
        compression__type="zstd",
        message__timestamp__type="LogAppendTime",
        message__timestamp__after__max__ms="1",
    )
    _, report = sides.turn()
    assert report.mirrors[0].is_log_append_time
    target = TopicName(f"summit.{topic}")
    sides.target.alter_configs({target: dict.fromkeys(FORCED_CONFIGS)})
    sides.target.alter_configs({target: {"compression.type": "gzip"}})
    until(
        lambda: sides.target.describe_configs([target])[target]["compression.type"].is_own,
        "an override at the target",
    )
    _, report = sides.turn()
    assert not report.failed
    configs = sides.target.describe_configs([target])[target]
    assert {key: configs[key].value for key in FORCED_CONFIGS} == FORCED_CONFIGS


@pytest.mark.provokes("refused:target_not_ours")
def test_a_foreign_topic_is_refused_once_it_has_records(sides, cluster_pair, provoked):
    name = sides.make("a")
    there = make(sides.target, f"summit.{name}")
    plan = sides.plan()
    assert [(r.source, r.target) for r in plan.remember] == [(name, there)]
    assert (plan.create, dict(plan.refuse)) == ((), {})
    write(cluster_pair.target, there)
    plan = sides.plan()
    provoked("refused:target_not_ours", plan.refuse[name])
    assert not plan.mirrors


@pytest.mark.provokes("refused:source_recreated", "refused:target_recreated")
def test_recreated_topics_are_refused(sides, cluster_pair, provoked):
    a = sides.make("a")
    b = sides.make("b")
    _, report = sides.turn()
    for mirror in report.mirrors:
        write(cluster_pair.target, mirror.target)
    drop(sides.source, a)
    sides.make("a")
    there = TopicName(f"summit.{b}")
    drop(sides.target, there)
    make(sides.target, there)
    write(cluster_pair.target, there)
    plan = sides.plan()
    assert plan.refuse.keys() == {a, b}
    provoked("refused:source_recreated", plan.refuse[a])
    provoked("refused:target_recreated", plan.refuse[b])
    drop(sides.target, TopicName(f"summit.{a}"))
    assert [c.source for c in sides.plan().create] == [a]


@pytest.mark.provokes("TOPIC_ALREADY_EXISTS", "BROKER")
def test_a_topic_that_fails_is_reported_and_the_others_are_created(sides, provoked):
    good = sides.make("good")
    bad = sides.make("bad")
    plan = sides.plan()
    make(sides.target, f"summit.{bad}")  # somebody else creates it first
    report = apply_plan(plan, sides.target)
    assert {name: error.kafka_name for name, error in report.failed.items()} == {
        bad: "TOPIC_ALREADY_EXISTS"
    }
    provoked("TOPIC_ALREADY_EXISTS", report.failed[bad])
    provoked("BROKER", report.failed[bad])
    assert [m.source for m in report.mirrors] == [good]
    assert [r.source for r in report.remember] == [good]
    sides.known |= {record.source: record for record in report.remember}
    _, report = sides.turn()
    assert not report.failed
    assert len(report.mirrors) == 2


def wait_for_range(cluster: Cluster, topic: str, expected: tuple[int, int]) -> None:
    """Until the log of partition 0 begins and ends there."""
    partition = TopicPartition(TopicName(topic), PartitionId(0))

    def held() -> tuple[int, int]:
        with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
            answers = [admin.list_offsets({partition: at})[partition] for at in (EARLIEST, LATEST)]
        start, end = (-1 if isinstance(each, BrokerError) else int(each.offset) for each in answers)
        return start, end

    until(lambda: held() == expected, lambda: f"{expected} of {topic}: {held()}", 60)


@pytest.mark.thorough
@pytest.mark.spark
def test_records_expired_before_the_first_copy_are_no_gap(
    cluster_pair: ClusterPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a source that keeps expiring / when a link starts / then its mirror begins later.

    Offsets are equal, nothing is stopped, and the ledger has no row. A partition that is added to
    the mirror by hand stops nothing either.
    """
    source, target = cluster_pair.source, cluster_pair.target
    topic = create_topic(source, fresh_name("expiring"))
    batch = encode([Sample(b"k", b"v", 1_790_000_000_000)] * 20)
    write_batches(source.bootstrap.split(","), topic, [batch] * 5)
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=fresh_name("link"),
        topics={"include": [topic], "refresh_interval_s": 0.5},
    )
    really = Beginnings.look_up

    def look_up(
        self: Beginnings,
        asked: Mapping[TopicPartition, int],
        given: Mapping[TopicPartition, Offset] | None = None,
    ) -> dict[TopicPartition, Offset]:
        found = really(self, asked, given)
        with ClusterAdmin(source.bootstrap.split(",")) as admin:
            admin.delete_records(dict.fromkeys(found, Offset(60)))
        return found

    monkeypatch.setattr(Beginnings, "look_up", look_up)
    with RunningLink(config) as link:
        wait_for_range(target, topic, (60, 100))
        write_batches(source.bootstrap.split(","), topic, [batch])
        wait_for_range(target, topic, (60, 120))
        with ClusterAdmin(target.bootstrap.split(",")) as admin:
            assert admin.grow_partitions({topic: 2}) == {topic: None}
        until(lambda: "has 2 partitions" in str(said(config, "status")), "the added partition", 60)
        write_batches(source.bootstrap.split(","), topic, [batch])
        wait_for_range(target, topic, (60, 140))
        (told,) = said(config, "gaps")
        assert (told["stopped"], told["rows"]) == ([], []), link.text()[-3000:]


@pytest.mark.thorough
@pytest.mark.spark
def test_records_that_expire_on_arrival_are_reported_and_not_in_sync(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a target that keeps a minute of what its source keeps / then no verb calls it complete.

    DeleteRecords does what retention would: brokers check that every five minutes only.
    """
    source, target = cluster_pair.source, cluster_pair.target
    topic = create_topic(source, fresh_name("kept"), configs={"retention.ms": "-1"})
    batch = encode([Sample(b"k", b"v", 1_790_000_000_000)] * 20)
    write_batches(source.bootstrap.split(","), topic, [batch] * 5)
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=fresh_name("link"),
        topics={
            "include": [topic],
            "config_set": {"retention.ms": "60000"},
            "refresh_interval_s": 0.5,
        },
    )
    remark = f"{topic} (retention.ms 1 min instead of no limit)"

    def verified(*words: str) -> tuple[int, dict[str, Any]]:
        answer = heliostat(config, "verify", "--json", "--master", "local[2]", *words)
        found: dict[str, Any] = answer.json
        return answer.returncode, found

    assert remark in json.dumps(said(config, "plan"))
    with RunningLink(config):
        wait_for_range(target, topic, (0, 100))
        assert verified("--complete")[0] == 0
        with ClusterAdmin(target.bootstrap.split(",")) as admin:
            partition = TopicPartition(TopicName(topic), PartitionId(0))
            admin.delete_records({partition: Offset(100)})
        wait_for_range(target, topic, (100, 100))
        assert remark in json.dumps(said(config, "status"))
        code, found = verified("--complete")
        [left] = found["not_compared"]
        assert (code, left["records"], left["is_problem"]) == (1, 100, True)
        assert "retention.ms 1 min instead of no limit" in left["reason"]
        code, found = verified()
        assert (code, found["not_compared"][0]["records"]) == (0, 100)


@pytest.mark.thorough
@pytest.mark.spark
def test_start_latest_copies_later_topics_from_their_beginning(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given `start: latest` / when topics are created later, also while stopped / then complete.

    Of a topic that existed, records from then on are copied, at equal offsets.
    """
    prefix = fresh_name("late")
    before, *after = (f"{prefix}-{word}" for word in ("before", "after", "meanwhile"))
    source, target = cluster_pair.source, cluster_pair.target
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        name=fresh_name("link"),
        topics={"include": [f"{prefix}-.*"], "start": "latest", "refresh_interval_s": 0.5},
    )

    def write(topic: str, count: int) -> None:
        batch = encode([Sample(b"k", b"v", 1_790_000_000_000)] * count)
        write_batches(source.bootstrap.split(","), topic, [batch])

    def wait_held(topic: str, expected: tuple[int, int]) -> None:
        wait_for_range(target, topic, expected)

    create_topic(source, before)
    write(before, 100)
    with RunningLink(config):
        wait_held(before, (100, 100))
        create_topic(source, after[0])
        write(after[0], 300)
        write(before, 50)
        wait_held(after[0], (0, 300))
        wait_held(before, (100, 150))
    create_topic(source, after[1])
    write(after[1], 30)
    with RunningLink(config):
        wait_held(after[1], (0, 30))


def test_records_written_before_the_source_became_compacted_are_copied(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a backlog without keys / when the source compacts / then all is copied first."""
    topic = create_topic(cluster_pair.source, fresh_name("compacts"))
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    settings = {"include": [topic], "refresh_interval_s": 1}
    config = write_config(tmp_path, source, target, topics=settings)
    write(cluster_pair.source, topic)
    with RunningLink(config):
        wait_for("the first record", lambda: ends(target, {topic: 1})[topic] == [1])
    for _ in range(20):
        write(cluster_pair.source, topic)

    def policy(admin: ClusterAdmin) -> str | None:
        return admin.describe_configs([topic], ["cleanup.policy"])[topic]["cleanup.policy"].value

    with ClusterAdmin(source.split(",")) as one, ClusterAdmin(target.split(",")) as other:
        assert one.alter_configs({topic: {"cleanup.policy": "compact"}}) == {topic: None}
        with RunningLink(config) as link:
            wait_for("the backlog", lambda: ends(target, {topic: 1})[topic] == [21])
            wait_for("its policy", lambda: policy(other) == "compact")
            assert "cleanup.policy becomes compact once" in link.text()
            assert "BLOCKED" not in link.text()
