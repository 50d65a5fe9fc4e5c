"""A link with only the rights that `heliostat acls` prints; each of them is needed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml
from kafka.protocol.producer import InitProducerIdRequest
from support.clusters import HEAP_MB, ClusterPair, create_topic, until
from support.command import heliostat
from support.group_sides import wait_for_coordinators
from support.left import Left, values
from support.links import RunningLink, wait_for, wait_level, write_config
from support.provoked import Provoked
from support.records import Sample, encode, odd_records, split, write_batches
from support.steering_operator import steer_with_least_rights

from heliostat.access import ClusterAccess
from heliostat.cli.main import run
from heliostat.clusters.acl import AclRule, Operation, PatternKind, ResourceKind
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset, NewTopic
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.leaders import TopicLeaders
from heliostat.clusters.wire.primitives import request_header
from heliostat.config import load_config
from heliostat.errors import BrokerError
from heliostat.mm2.adopt_plan import peer_of
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.acls import ClusterGrants, link_grants
from heliostat_sandbox import Cluster, ClusterSpec, Listener, Mechanism, SandboxSecurity, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

READER, WRITER, OPERATOR = "reader", "writer", "operator"
SOLO, GROUPED = TopicName("solo"), TopicName("pre.one")
GROUP, PROGRESS = GroupId("readers"), GroupId("progress of east-to-west")
RECORDS = 300
FOR_OTHERS = {  # one heartbeat at each start: more would come while the test compares both sides
    "heartbeats": {"emit": True, "interval_s": 3600},
    "checkpoints": {"emit": True},
    "offset_syncs": {"emit": True, "location": "source"},
}
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
REFUSALS = {29, 30, 31}  # TOPIC_, GROUP_, CLUSTER_AUTHORIZATION_FAILED


@dataclass(frozen=True)
class Least:
    """Two clusters that deny by default, and a link with its own rights and no others."""

    source: Cluster
    target: Cluster
    config: Path
    sides: tuple[ClusterGrants, ClusterGrants]


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Least]:
    clusters = start_many(
        [
            ClusterSpec(
                name,
                heap_mb=HEAP_MB,
                security=SandboxSecurity(
                    users={each: f"{each}-secret" for each in (user, OPERATOR)},
                    mechanisms=(Mechanism.SCRAM_SHA_256,),
                    authorizer=True,
                ),
            )
            for name, user in (("least-source", READER), ("least-target", WRITER))
        ]
    )
    with clusters[0] as source, clusters[1] as target:
        config = _config(tmp_path_factory.mktemp("least"), source, target)
        loaded = load_config(config)
        sides = link_grants(loaded, loaded.links[0])
        for cluster, side in zip(clusters, sides, strict=True):
            cluster.accounts.allow(side.rules)
        yield Least(source, target, config, sides)


def _access(cluster: Cluster, user: str) -> ClusterAccess:
    return cluster.credentials.access(user, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256)


def _config(folder: Path, source: Cluster, target: Cluster) -> Path:
    topics = {
        "include": [SOLO, r"pre\..*"],
        "naming": {"prefix": "east."},
        "refresh_interval_s": 1,
    }
    groups = {"sync": True, "include": [GROUP], "interval_s": 0.5}
    path = write_config(folder, "x:1", "y:1", topics=topics, groups=groups, **FOR_OTHERS)
    _secure(path, source, target)
    return path


def _secure(path: Path, source: Cluster, target: Cluster, *users: str) -> None:
    """Let a configuration's links connect as the two users, by default the link's."""
    reader, writer = users or (READER, WRITER)
    config = yaml.safe_load(path.read_text())
    for alias, cluster, user in (("east", source, reader), ("west", target, writer)):
        found = _access(cluster, user)
        config["clusters"][alias] = {
            "bootstrap": list(found.bootstrap),
            "security": {
                "protocol": "SASL_PLAINTEXT",
                "mechanism": found.security.sasl.mechanism,
                "username": user,
                "password": {"file": found.security.sasl.password.file},
            },
        }
    config["metrics"] = {"progress_group": "progress of {link}"}
    path.write_text(yaml.safe_dump(config))


def _write(cluster: Cluster, topic: str, partition: int, rng: random.Random) -> None:
    batches = [encode(part) for part in split(odd_records(rng, RECORDS), rng)]
    write_batches(cluster.bootstrap, topic, batches, partition=partition)


def test_a_link_needs_no_more_rights_than_are_printed(least: Least) -> None:
    """Given these rights only / when topics are created, grown, configured / then verified."""
    source, target, rng = least.source, least.target, random.Random(9)
    create_topic(source, SOLO, configs={"retention.ms": "90000000"})
    create_topic(source, GROUPED, partitions=2)
    create_topic(source, "hidden")
    _write(source, SOLO, 0, rng)
    _write(source, GROUPED, 1, rng)
    with ClusterAdmin(source.bootstrap) as admin:  # the mirror must begin at 40: padding, deleted
        first = TopicPartition(SOLO, PartitionId(0))
        assert admin.delete_records({first: Offset(40)}) == {first: 40}
        read = {first: CommittedOffset(Offset(70))}
        wait_for_coordinators(source.bootstrap, target.bootstrap)
        assert admin.commit_offsets({GROUP: read}) == {GROUP: {first: None}}
    seen = heliostat(least.config, "topics", "--json")
    assert {row["topic"] for row in json.loads(seen.stdout)} == {SOLO, GROUPED}
    level = {SOLO: 1, GROUPED: 2, "heartbeats": 1}
    for again in (False, True):  # a second start finds the state topics there
        with RunningLink(least.config) as link:
            if again:
                with ClusterAdmin(source.bootstrap) as admin:
                    assert admin.grow_partitions({SOLO: 2}) == {SOLO: None}
                    assert admin.alter_configs({SOLO: {"retention.ms": "80000000"}})[SOLO] is None
                level[SOLO] = 2
                create_topic(source, "pre.two")
                level["pre.two"] = 1
                _write(source, "pre.two", 0, rng)
            wait_level(link, source.bootstrap, target.bootstrap, level, prefix="east.")
            wait_for("the group's offset", lambda: _published(target) == 70, 90)
            wait_for("the link's progress", lambda: _progress(source) == RECORDS, 90)
            if again:
                wait_for("the setting", lambda: _retention(target) == "80000000", 90)
                _steer(least)
            assert link.stop() == 0
    done = heliostat(least.config, "verify", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert heliostat(least.config, "plan").returncode == 0
    explained = heliostat(least.config, "groups", "--explain", GROUP)
    assert explained.returncode == 0, explained.stdout + explained.stderr
    status = heliostat(least.config, "status")
    assert f"east.{SOLO}" in status.stdout, status.stderr
    history = heliostat(least.config, "history", "east-to-west", "--json")
    assert json.loads(history.stdout)["at_ms"], history.stderr
    for cluster in (source, target):
        denied = _denied(cluster)
        assert not denied, denied[:5]


def _steer(least: Least) -> None:
    """Pause and limit as one who has no right but on the link's wishes and reports."""
    config = least.config.with_name(f"{OPERATOR}.yaml")
    config.write_text(least.config.read_text())
    _secure(config, least.source, least.target, OPERATOR, OPERATOR)
    steer_with_least_rights(least.target, config, OPERATOR, "east-to-west")


def _denied(cluster: Cluster) -> list[str]:
    log = (cluster.brokers[0].folder / "broker.log").read_text()
    return [line for line in log.splitlines() if "is Denied" in line]


def _published(cluster: Cluster) -> int | None:
    mirror = TopicPartition(TopicName(f"east.{SOLO}"), PartitionId(0))
    with ClusterAdmin(cluster.bootstrap) as admin:
        found = admin.committed_offsets([GROUP])[GROUP]
    return found[mirror].offset if mirror in found else None


def _progress(cluster: Cluster) -> int | None:
    first = TopicPartition(SOLO, PartitionId(0))
    with ClusterAdmin(cluster.bootstrap) as admin:
        found = admin.committed_offsets([PROGRESS])[PROGRESS]
    return found[first].offset if first in found else None


def _retention(cluster: Cluster) -> str | None:
    topic = TopicName(f"east.{SOLO}")
    with ClusterAdmin(cluster.bootstrap) as admin:
        return admin.describe_configs([topic], ["retention.ms"])[topic]["retention.ms"].value


# What Heliostat asks of a topic for each right, harmless on a topic that is there.
Ask = Callable[[ClusterAccess, TopicName], object]


def _create(access: ClusterAccess, topic: TopicName) -> object:
    with ClusterAdmin(access) as admin:
        return admin.create_topics([NewTopic(topic, 1, 1, {})])[topic]


def _grow(access: ClusterAccess, topic: TopicName) -> object:
    with ClusterAdmin(access) as admin:
        return admin.grow_partitions({topic: 1})[topic]


def _delete(access: ClusterAccess, topic: TopicName) -> object:
    first = TopicPartition(topic, PartitionId(0))
    with ClusterAdmin(access) as admin:
        return admin.delete_records({first: Offset(0)})[first]


def _see_configs(access: ClusterAccess, topic: TopicName) -> object:
    with ClusterAdmin(access) as admin:
        return admin.describe_configs([topic])[topic]


def _set_configs(access: ClusterAccess, topic: TopicName) -> object:
    with ClusterAdmin(access) as admin:
        return admin.alter_configs({topic: {"retention.ms": "90000000"}}, validate_only=True)[topic]


def _append(access: ClusterAccess, topic: TopicName) -> object:
    batch = encode([Sample(None, b"one more", int(time.time() * 1000))])

    def ask(wire: WireCluster, leaders: TopicLeaders) -> int:
        version = wire.produce_version(leaders.partitions[_FIRST].broker)
        item = produce.ProducePartition(topic, leaders.topic_id, _FIRST, [batch], len(batch))
        body = produce.encode_produce(version, [item], timeout_ms=20_000)
        answer = _exchange(wire, leaders, produce.API_KEY, version, body)
        return produce.decode_produce(version, answer, 4)[0][0].error

    return _on_hot_path(access, topic, ask)


def _read(access: ClusterAccess, topic: TopicName) -> object:
    def ask(wire: WireCluster, leaders: TopicLeaders) -> int:
        version = wire.fetch_version(leaders.partitions[_FIRST].broker)
        want = fetch.FetchPartition(topic, leaders.topic_id, _FIRST, 0, 1000)
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000}
        body = fetch.encode_fetch(version, [want], **limits, read_committed=True)
        answer = _exchange(wire, leaders, fetch.API_KEY, version, [body])
        return next(iter(fetch.decode_fetch(version, answer, 4).partitions)).error

    return _on_hot_path(access, topic, ask)


_FIRST = PartitionId(0)


def _on_hot_path(
    access: ClusterAccess, topic: TopicName, ask: Callable[[WireCluster, TopicLeaders], int]
) -> BrokerError | None:
    with closing(WireCluster(access, DialSettings())) as wire:
        leaders = wire.metadata([topic])[topic]
        code = leaders.error or ask(wire, leaders)
    return BrokerError("refused", kafka_code=code) if code else None


def _exchange(
    wire: WireCluster, leaders: TopicLeaders, api_key: int, version: int, body: list[bytes]
) -> memoryview:
    with closing(wire.open_data(leaders.partitions[_FIRST].broker)) as connection:
        number = connection.next_correlation_id()
        connection.send([request_header(api_key, version, number, "test", flexible=True), *body])
        return connection.receive(20).buffer


ASKS: Mapping[Operation, Ask] = {
    Operation.CREATE: _create,
    Operation.ALTER: _grow,
    Operation.DELETE: _delete,
    Operation.DESCRIBE_CONFIGS: _see_configs,
    Operation.ALTER_CONFIGS: _set_configs,
    Operation.WRITE: _append,
    Operation.READ: _read,
}


def _producer_error(access: ClusterAccess, transactional_id: str) -> int:
    caller = Caller(access, "test", connect_timeout_s=10)
    try:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=10_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        return int(caller.send(request).error_code)
    finally:
        caller.close()


def _is_refused(access: ClusterAccess, rule: AclRule) -> bool:
    """Whether what the rule is for is refused now, for want of a right."""
    try:
        if rule.kind is ResourceKind.CLUSTER:
            with ClusterAdmin(access) as admin:
                admin.describe_broker_configs()
            return False
        if rule.kind is ResourceKind.TRANSACTIONAL_ID:
            return _producer_error(access, rule.name) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if rule.kind is ResourceKind.GROUP:
            return _is_group_refused(access, rule)
        if rule.name == "heliostat.probe":
            with ClusterAdmin(access) as admin:
                answer = admin.inherited_configs()
            return isinstance(answer, BrokerError) or not answer
        topic = rule.name + {"east.pre.": "one", "pre.": "one"}.get(
            rule.name, "state" if rule.pattern is PatternKind.PREFIXED else ""
        )
        answer = ASKS[rule.operation](access, TopicName(topic))
    except BrokerError as error:
        return error.kafka_code in REFUSALS
    return isinstance(answer, BrokerError) and answer.kafka_code in REFUSALS


def _is_group_refused(access: ClusterAccess, rule: AclRule) -> bool:
    group = GroupId(rule.name)
    with ClusterAdmin(access) as admin:
        if rule.operation is Operation.DESCRIBE:
            answer = admin.committed_offsets([group])[group]
        else:
            topic = SOLO if group == PROGRESS else TopicName(f"east.{SOLO}")
            place = TopicPartition(topic, PartitionId(0))
            rows = admin.commit_offsets({group: {place: CommittedOffset(Offset(70))}})[group]
            answer = rows if isinstance(rows, BrokerError) else rows[place]
    return isinstance(answer, BrokerError) and answer.kafka_code in REFUSALS


@pytest.mark.parametrize("number", [0, 1], ids=["source", "target"])
def test_a_link_fails_without_any_one_of_these_rights(least: Least, number: int) -> None:
    """After the link has run: its topics are there."""
    cluster, side = (least.source, least.target)[number], least.sides[number]
    access = _access(cluster, (READER, WRITER)[number])
    with ClusterAdmin(cluster.bootstrap) as admin:
        there = set(admin.describe_topics())
    assert there >= ({SOLO, GROUPED}, {f"east.{SOLO}", f"east.{GROUPED}"})[number]
    assert len(side.rules) == (4 + 1 + 1 + 4 + 2 + 1, 2 * 6 + 4 + 2 + 1 + 1 + 1 + 6 + 3)[number]
    for rule in side.rules:
        assert not _is_refused(access, rule), rule
        assert cluster.accounts.take_back([rule]) == 1
        try:
            until(lambda rule=rule: _is_refused(access, rule), f"{rule} to be missed", 30)
        finally:
            cluster.accounts.allow([rule])
        until(lambda rule=rule: not _is_refused(access, rule), f"{rule} to be back", 30)


def test_without_the_right_to_write_markers_holes_are_mapped_with_a_note(least: Least) -> None:
    """Given `offsets: exact` / when the right is denied, then granted / then noted, then not."""
    config = yaml.safe_load(least.config.read_text())
    config["links"][0]["topics"]["offsets"] = "exact"
    exact = least.config.with_name("exact.yaml")
    exact.write_text(yaml.safe_dump(config))
    says = "holes can't be filled"
    assert says in heliostat(exact, "plan").stdout
    loaded = load_config(exact)
    rules = set(link_grants(loaded, loaded.links[0])[1].rules) - set(least.sides[1].rules)
    assert {(rule.kind, rule.operation) for rule in rules} == {
        (ResourceKind.CLUSTER, Operation.CLUSTER_ACTION)
    }
    least.target.accounts.allow(rules)
    try:
        until(lambda: says not in heliostat(exact, "plan").stdout, "the right", 60)
    finally:
        least.target.accounts.take_back(rules)


@contextmanager
def _allowed(least: Least, config: Path, alias: str) -> Iterator[list[AclRule]]:
    """The rights of a link with a takeover, and what of them is for the takeover; gone after."""
    loaded = load_config(config)
    (link,) = loaded.links
    sides = link_grants(loaded, link, peer=peer_of(link, alias=alias))
    own = [side.rules for side in link_grants(loaded, link)]
    assert sides[0].rules == own[0]
    clusters = (least.source, least.target)
    for cluster, side in zip(clusters, sides, strict=True):
        cluster.accounts.allow(side.rules)
    try:
        yield [rule for rule in sides[1].rules if rule not in own[1]]
    finally:
        for cluster, side, kept in zip(clusters, sides, least.sides, strict=True):
            cluster.accounts.take_back([rule for rule in side.rules if rule not in kept.rules])


def test_a_takeover_needs_no_more_rights_than_are_printed(
    least: Least, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given these rights only / when mirrors change hands both ways / then each right is needed."""
    left = Left(ClusterPair(least.source, least.target), tmp_path, at_source=50)
    left.write_target(range(30))
    left.commit(20)
    wait_for_coordinators(least.target.bootstrap)
    # Its rights are not looked at: it connects as the broker does.
    other_link = left.of_another_link()
    _secure(left.config, least.source, least.target)
    before = {cluster: _denied(cluster) for cluster in (least.source, least.target)}
    with _allowed(least, left.config, left.alias) as rules:
        until(lambda: left.adopt("--dry-run") == 0, "the rights to hold", 30)
        before = {cluster: _denied(cluster) for cluster in before}
        assert left.adopt("--yes") == 0
        left.runs_until(50)
        assert left.at_target() == values(range(50))
        assert left.adopt("--back", "--yes") == 0
        assert left.committed()[-1][1] == 49
        for cluster, denied in before.items():
            assert _denied(cluster) == denied

        missing = partial(_without, least.target, capsys)
        reads, writes, states, members = rules
        for rule in (reads, members):
            with missing(rule, lambda: left.adopt("--dry-run") != 0) as told:
                assert rule.name in told
            until(lambda: left.adopt("--dry-run") == 0, f"{rule} to be back", 30)

        # What other links have is only seen with the right to read their states.
        others = ["adopt", "-c", str(other_link), "--alias", left.alias, "--yes"]
        assert run(others) == 0
        capsys.readouterr()
        assert left.adopt("--dry-run") == 1
        assert "is a mirror of link" in capsys.readouterr().out
        with missing(states, lambda: left.adopt("--dry-run") == 0):
            pass
        assert run([*others, "--back"]) == 0

        until(lambda: left.adopt("--yes") == 0, "the takeover to be possible again", 30)
        access = _access(least.target, WRITER)
        with missing(writes, lambda: _is_refused(access, writes)):
            assert left.adopt("--back", "--yes") != 0
        assert left.remembered().keys() == {left.topic}


@contextmanager
def _without(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    rule: AclRule,
    is_missed: Callable[[], bool],
) -> Iterator[str]:
    """Revoke a right until that is noticed; return the error that was reported then."""
    assert cluster.accounts.take_back([rule]) == 1
    try:
        said = [""]

        def is_noticed() -> bool:
            capsys.readouterr()
            found = is_missed()
            said[0] = capsys.readouterr().err
            return found

        until(is_noticed, f"{rule} to be missed", 30)
        yield said[0]
    finally:
        cluster.accounts.allow([rule])


@pytest.mark.provokes("refused:unreadable")
def test_a_mirror_without_describe_right_is_refused(least: Least, provoked: Provoked) -> None:
    """Given a mirror's name / when Describe on it is denied / then refused, naming the right."""
    topic = create_topic(least.source, f"{GROUPED}-unseen")
    mirror = create_topic(least.target, f"east.{topic}")
    rule = AclRule(f"User:{WRITER}", Operation.DESCRIBE, ResourceKind.TOPIC, mirror)
    least.target.accounts.deny([rule])

    def refusal() -> dict[str, str] | None:
        (plan,) = heliostat(least.config, "plan", "--json").json
        found: dict[str, str] | None = plan["refuse"].get(topic)
        return found

    try:
        until(refusal, "the refusal", 60)
        provoked("refused:unreadable", refusal())
    finally:
        assert least.target.accounts.take_back([rule]) == 1
        for cluster, name in ((least.source, topic), (least.target, mirror)):
            with ClusterAdmin(cluster.bootstrap) as admin:
                assert admin.delete_topics([name]) == {name: None}
