"""Mirrors that only their link may write, and a source whose producers are fenced, on real brokers.

Three brokers each, so that every one of them must show a rule. The producers are librdkafka's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, Producer
from support.clusters import HEAP_MB, create_topic, until
from support.command import heliostat
from support.links import RunningLink, wait_level, write_config

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.acl import EVERYBODY, AclRule, Operation, PatternKind, ResourceKind
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import load_config
from heliostat.fencing.cannot import Why
from heliostat.fencing.cluster_rules import ClusterRules
from heliostat.fencing.deny_rules import Writer
from heliostat.fencing.fence import Fence
from heliostat.fencing.preflight import can_fence, still_lets_us_write
from heliostat.fencing.rule_book import PROTECTION, Purpose, RuleBook
from heliostat.fencing.still_ends import StillEnds
from heliostat.fencing.who_writes import WHO, who_writes
from heliostat.handover.promotion import PromotedBy
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.acls import link_grants
from heliostat.operate.promotion import promote
from heliostat_sandbox import Cluster, ClusterSpec, Listener, Mechanism, SandboxSecurity, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LINK, STRANGER, KEEPER = "link", "stranger", "keeper"
CLOCK = SystemClock()


@dataclass(frozen=True)
class Sides:
    """Two clusters with an authorizer; the link has its own rights and no others."""

    source: Cluster
    target: Cluster
    config: Path


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    security = SandboxSecurity(
        users={user: f"{user}-secret" for user in (LINK, STRANGER, KEEPER)},
        mechanisms=(Mechanism.SCRAM_SHA_256,),
        authorizer=True,
    )
    specs = [
        ClusterSpec(name, brokers=3, heap_mb=HEAP_MB, security=security)
        for name in ("kept-source", "kept-target")
    ]
    clusters = start_many(specs)
    with clusters[0] as source, clusters[1] as target:
        topics = {"include": [r"pre\..*"], "naming": {"prefix": "east."}, "protect": True}
        topics["refresh_interval_s"] = 1
        path = write_config(tmp_path_factory.mktemp("kept"), "x:1", "y:1", topics=topics)
        config = yaml.safe_load(path.read_text())
        for alias, cluster in (("east", source), ("west", target)):
            access = access_of(cluster, LINK)
            config["clusters"][alias] = {
                "bootstrap": list(access.bootstrap),
                "security": {
                    "protocol": "SASL_PLAINTEXT",
                    "mechanism": "SCRAM-SHA-256",
                    "username": LINK,
                    "password": {"file": access.security.sasl.password.file},
                },
            }
        path.write_text(yaml.safe_dump(config))
        loaded = load_config(path)
        for cluster, side in zip(clusters, link_grants(loaded, loaded.links[0]), strict=True):
            cluster.accounts.allow(side.rules)
        yield Sides(source, target, path)


def access_of(cluster: Cluster, user: str) -> ClusterAccess:
    return cluster.credentials.access(user, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)


def writing(user: str, name: str, pattern: PatternKind = PatternKind.PREFIXED) -> AclRule:
    return AclRule(f"User:{user}", Operation.WRITE, ResourceKind.TOPIC, name, pattern)


def producer_of(cluster: Cluster, user: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": ",".join(access_of(cluster, user).bootstrap),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            "enable.idempotence": True,
            "message.timeout.ms": 20_000,
            "topic.metadata.propagation.max.ms": 5_000,
        }
    )


def refusal(producer: Producer, topic: str) -> int | None:
    """Produce a record; return Kafka's code of a refusal, None if it was taken."""
    codes: list[int | None] = []
    producer.produce(
        topic, b"v", partition=0, on_delivery=lambda err, _: codes.append(err and err.code())
    )
    assert producer.flush(30) == 0
    return codes[0]


def is_refused(cluster: Cluster, user: str, topic: str) -> bool:
    """Return whether a new producer is refused."""
    return refusal(producer_of(cluster, user), topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def status_of(config: Path) -> dict:
    [status] = heliostat(config, "status", "--json").json
    return dict(status)


def test_only_the_link_writes_into_its_mirrors(sides: Sides) -> None:
    """Given a stranger's right by prefix / when the link runs / then refused, until promoted."""
    source, target = sides.source, sides.target
    topic = create_topic(source, "pre.one", replicas=3)
    mirror = TopicName("east.pre.one")
    target.accounts.allow([writing(STRANGER, "east.")])
    producer = producer_of(source, KEEPER)
    source.accounts.allow([writing(KEEPER, "pre.")])
    until(lambda: not is_refused(source, KEEPER, topic), "the source's producer", 30)

    def fresh(count: int) -> None:
        for _ in range(count):
            assert refusal(producer, topic) is None

    def protected(count: int) -> None:
        def are_protected() -> bool:
            told = status_of(sides.config)["driver"].get("protection", {})
            return bool(told.get("protected") == count)

        until(are_protected, f"{count} mirrors to be protected", 60)

    with RunningLink(sides.config) as link:
        fresh(5)
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 1}, prefix="east.")
        protected(1)  # asked before: a stranger's record would stop the link
        assert is_refused(target, STRANGER, mirror)
        fresh(5)
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 1}, prefix="east.")
        create_topic(source, "pre.two", replicas=3)
        protected(2)
        assert is_refused(target, STRANGER, "east.pre.two")
        notes = status_of(sides.config)["notes"]
        assert "2 of 2 mirrors are protected" in notes
        assert any("brokers don't show who they are" in note for note in notes), notes
        plan = json.loads(heliostat(sides.config, "plan", "--json").stdout)
        assert not any("may not write any more" in note for note in plan[0]["notes"])
        target.accounts.take_back([writing(STRANGER, "east.")])
        until(lambda: not _laid(sides), "the rules to be lifted", 60)
        target.accounts.allow([writing(STRANGER, "east."), writing("*", "east.pre.two")])
        until(
            lambda: any("a rule lets User:* write" in n for n in status_of(sides.config)["notes"]),
            "who can't be kept out to be named",
            60,
        )
        until(lambda: len(_laid(sides)) == 2, "the rules to be back", 60)
        target.accounts.take_back([writing("*", "east.pre.two")])
        loaded = load_config(sides.config)
        promote(loaded, loaded.links[0], [topic], PromotedBy.SWITCH, by="a test")
        assert not is_refused(target, STRANGER, mirror)
        assert is_refused(target, STRANGER, "east.pre.two")
        assert link.stop() == 0
    assert is_refused(target, STRANGER, "east.pre.two")  # without an owner, too
    config = yaml.safe_load(sides.config.read_text())
    config["links"][0]["topics"]["protect"] = False
    sides.config.write_text(yaml.safe_dump(config))
    with RunningLink(sides.config) as link:
        until(lambda: not _laid(sides), "the rules to be lifted", 60)
        assert link.stop() == 0
    assert not is_refused(target, STRANGER, "east.pre.two")


def _laid(sides: Sides) -> frozenset:
    """Return the rules that protect mirrors, all of which the brokers show."""
    link = load_config(sides.config).links[0]
    with (
        ClusterAdmin(sides.target.bootstrap) as admin,
        closing(RuleBook(sides.target.bootstrap, LinkName(link.name))) as book,
    ):
        book.read()
        rules = book.rules(Purpose(admin.cluster_id(), PROTECTION))
        shown = ClusterRules(admin).all_rules()
        return rules.intersection(*shown.values()) if rules else rules


def test_a_sources_producers_are_fenced_and_let_in_again(sides: Sides) -> None:
    """Given producers of many topics / when fenced / then refused, then let in again."""
    source, target = sides.source, sides.target
    topics = [create_topic(source, f"fenced.{n}", replicas=3) for n in range(9)]
    beside = create_topic(source, "fence", replicas=3)
    partitions = [TopicPartition(name, PartitionId(0)) for name in topics]
    source.accounts.allow([writing(STRANGER, "fence"), writing(KEEPER, "fence")])
    source.accounts.allow(
        [
            AclRule(f"User:{LINK}", Operation.ALTER, ResourceKind.CLUSTER, "kafka-cluster"),
            AclRule(
                *(f"User:{LINK}", Operation.READ, ResourceKind.TOPIC, "fence"), PatternKind.PREFIXED
            ),
        ]
    )
    until(lambda: not is_refused(source, STRANGER, beside), "the right", 30)
    writer = producer_of(source, STRANGER)
    assert all(refusal(writer, name) is None for name in topics)
    with (
        ClusterAdmin(access_of(source, LINK)) as admin,
        closing(RuleBook(access_of(target, LINK), LinkName("east-to-west"))) as book,
    ):
        cluster = ClusterRules(admin)
        until(lambda: cluster.may_alter() is True, "the right to change rules", 30)
        deny = can_fence(cluster, [EVERYBODY], topics, viewer=f"User:{LINK}")
        assert {each.why for each in deny.cannot} == {Why.SUPER_USERS_HIDDEN}
        [rule] = deny.rules
        assert (rule.rule.name, rule.rule.pattern) == ("fenced", PatternKind.PREFIXED)
        purpose = Purpose(admin.cluster_id(), "switch")
        standing = Fence(cluster, book, purpose, CLOCK).put_up(deny.rules)
        assert standing.is_whole, standing.text()
        assert len(standing.brokers) == 3
        for name in topics:
            assert refusal(writer, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert refusal(writer, beside) is None
        assert not still_lets_us_write(cluster, topics[:1])
        found = StillEnds(admin, partitions, CLOCK).watch(2.0)
        assert found.is_still, found.lines()
        past = producer_of(source, "admin")  # a super user writes past every rule

        def write_past(passes: Callable[[], None] = lambda: None) -> None:
            assert refusal(past, topics[0]) is None

        watch = StillEnds(_Once(admin, write_past), partitions, CLOCK).watch(2.0)
        [moved] = watch.moved
        assert (moved.partition, moved.records) == (partitions[0], 1)
        assert moved.producers
    # Another process lifts it, by what is noted at the target.
    with (
        ClusterAdmin(access_of(source, LINK)) as admin,
        closing(RuleBook(access_of(target, LINK), LinkName("east-to-west"))) as book,
    ):
        book.read()
        fence = Fence(ClusterRules(admin), book, purpose, CLOCK)
        assert fence.laid == deny.rules
        assert fence.take_down().is_whole
        assert not fence.laid
    again = producer_of(source, STRANGER)
    assert all(refusal(again, name) is None for name in topics)


class _Once:
    """An admin client, of which something is done after the first look at the ends."""

    def __init__(self, admin: ClusterAdmin, then: Callable[[], None]) -> None:
        self._admin, self._then = admin, [then]

    def __getattr__(self, name: str) -> object:
        return getattr(self._admin, name)

    def list_log_ends(self, partitions: object, *, confirmed: bool = False) -> object:
        found = self._admin.list_log_ends(partitions, confirmed=confirmed)
        if self._then:
            self._then.pop()()
        return found


def test_the_links_own_principal_is_fenced_at_the_target(sides: Sides) -> None:
    """Given the link's right / when its principal is fenced / then every broker refuses it."""
    target = sides.target
    mirror = create_topic(target, "east.pre.own", replicas=3)
    with (
        ClusterAdmin(access_of(target, LINK)) as admin,
        closing(RuleBook(access_of(target, LINK), LinkName("east-to-west"))) as book,
    ):
        book.read()
        cluster = ClusterRules(admin)
        assert still_lets_us_write(cluster, [mirror])
        deny = can_fence(cluster, [f"User:{LINK}"], [mirror])
        assert len(deny.rules) == 1
        fence = Fence(cluster, book, Purpose(admin.cluster_id(), "failover"), CLOCK)
        assert fence.put_up(deny.rules).is_whole
        assert not still_lets_us_write(cluster, [mirror])
        assert is_refused(target, LINK, mirror)
        assert fence.take_down().is_whole
        assert still_lets_us_write(cluster, [mirror])


@pytest.mark.parametrize(
    ("is_super", "principal", "expected"),
    [
        (True, None, Writer("", is_super=True)),
        (False, f"User:{LINK}", Writer(f"User:{LINK}")),
        (False, "User:another", None),
    ],
)
def test_brokers_say_who_the_link_is(
    sides: Sides, is_super: bool, principal: str | None, expected: Writer | None
) -> None:
    """Given a super user, the link, the link under a wrong name / when tried out / then known."""
    access = ClusterAccess(tuple(sides.target.bootstrap.split(",")))
    access = access if is_super else access_of(sides.target, LINK)
    with ClusterAdmin(access) as admin, closing(RuleBook(access, LinkName("east-to-west"))) as book:
        book.ensure()
        book.read()
        cluster = ClusterRules(admin)
        fence = Fence(cluster, book, Purpose(admin.cluster_id(), WHO), CLOCK)
        assert who_writes(fence, book.topic, principal, cluster.may_write) == expected
        assert not fence.laid
        assert still_lets_us_write(cluster, [book.topic])  # nothing is left
