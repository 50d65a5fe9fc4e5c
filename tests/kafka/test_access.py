"""ACLs and quotas follow the source between two secured clusters, with the printed rights only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.clusters import HEAP_MB, create_topic, until
from support.command import heliostat
from support.links import RunningLink, write_config

from heliostat.clusters.acl import (
    AclBinding,
    AclListing,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.clusters.scram_user import ScramCredential, ScramMechanism, ScramUpsertion
from heliostat.config import load_config
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.run import RunState
from heliostat.operate.access import LinkAccess, link_access
from heliostat.operate.apply import HowToApply, apply_link
from heliostat.operate.plan import plan_link
from heliostat.operate.switch import SwitchWish, plan_switch, switch
from heliostat.operate.verb_acls import grants_of_verbs
from heliostat_sandbox import Cluster, ClusterSpec, Listener, Mechanism, SandboxSecurity, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

USERS = {"east": "reader", "west": "writer"}
QUOTAS = {QuotaEntity.of({"user": "app"}): {"producer_byte_rate": 1e6}}
ALICE = ScramCredential("alice", ScramMechanism.SCRAM_SHA_256, 8192)


@dataclass(frozen=True)
class Sides:
    source: ClusterAdmin
    target: ClusterAdmin
    config: Path
    topic: str
    other: str
    """A topic that is moved before."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    specs = [
        ClusterSpec(
            f"rights-{alias}",
            heap_mb=HEAP_MB,
            security=SandboxSecurity(
                users={user: f"{user}-secret"},
                mechanisms=(Mechanism.SCRAM_SHA_256,),
                authorizer=True,
            ),
        )
        for alias, user in USERS.items()
    ]
    source, target = clusters = start_many(specs)
    with source, target:
        topic, other = (create_topic(source, f"app.{each}") for each in ("one", "two"))
        folder = tmp_path_factory.mktemp("rights")
        (folder / "alice").write_text("her word")
        (folder / "users.yaml").write_text(f"alice: {{file: {folder}/alice}}")
        path = write_config(
            folder,
            "x:1",
            "y:1",
            topics={"include": [r"app\..*"], "naming": {"prefix": "east."}},
            access={
                "sync_acls": True,
                "sync_quotas": True,
                "interval_s": 1,
                "users_file": str(folder / "users.yaml"),
                "principals": [{"pattern": "User:CN=([^,]+),.*", "to": r"User:\1"}],
            },
        )
        _secure(path, dict(zip(USERS, clusters, strict=True)))
        config = load_config(path)
        grants = grants_of_verbs(config, config.links[0])
        for cluster, side in zip(clusters, grants, strict=True):
            cluster.accounts.allow(side.rules)
        with ClusterAdmin(source.bootstrap) as east, ClusterAdmin(target.bootstrap) as west:
            yield Sides(east, west, path, topic, other)


def _secure(path: Path, clusters: dict[str, Cluster]) -> None:
    config = yaml.safe_load(path.read_text())
    for alias, cluster in clusters.items():
        access = cluster.credentials.access(
            USERS[alias], Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256
        )
        config["clusters"][alias] = {
            "bootstrap": list(access.bootstrap),
            "security": {
                "protocol": "SASL_PLAINTEXT",
                "mechanism": access.security.sasl.mechanism,
                "username": USERS[alias],
                "password": {"file": access.security.sasl.password.file},
            },
        }
    path.write_text(yaml.safe_dump(config))


def topic_acl(
    operation: Operation, name: str, user: str = "app", pattern: PatternKind = PatternKind.LITERAL
) -> AclBinding:
    return AclBinding(AclRule(f"User:{user}", operation, ResourceKind.TOPIC, name, pattern))


def followed(admin: ClusterAdmin) -> set[AclBinding]:
    """Bindings that are nobody's of the two links' users."""
    listing = admin.security.describe_acls()
    assert isinstance(listing, AclListing)
    own = {f"User:{user}" for user in USERS.values()}
    return {each for each in listing.bindings if each.rule.principal not in own}


def view(sides: Sides, by: str = "") -> LinkAccess:
    (found,) = link_access(load_config(sides.config), allow_delete_by=by)
    return found


GROUPS = [
    AclBinding(AclRule(f"User:g{n}", Operation.READ, ResourceKind.GROUP, f"g{n}"))
    for n in range(30)
]
TRANSACTIONAL = AclBinding(
    AclRule("User:app", Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, "tx")
)
ALL_OF_BOSS = (Operation.ALL, "east.app.", "boss", PatternKind.PREFIXED)


def denied(topic: str) -> AclBinding:
    rule = AclRule("User:bad", Operation.READ, ResourceKind.TOPIC, topic)
    return AclBinding(rule, Permission.DENY, "10.0.0.1")


def given_at_source(sides: Sides) -> set[AclBinding]:
    """Make rights, a quota and a user at the source; return the rights wanted at the target."""
    topic, mirror = sides.topic, f"east.{sides.topic}"
    others = topic_acl(Operation.READ, mirror, "eve")
    sides.target.security.create_acls([others])
    sides.source.security.create_acls(
        [
            *GROUPS,
            TRANSACTIONAL,
            denied(topic),
            topic_acl(Operation.READ, topic, "CN=app,O=x"),
            topic_acl(Operation.READ, topic, "eve"),
            topic_acl(Operation.WRITE, topic),
            topic_acl(Operation.WRITE, sides.other),
            topic_acl(Operation.ALL, "app.", "boss", PatternKind.PREFIXED),
            topic_acl(Operation.READ, "*", "eye"),
            topic_acl(Operation.READ, "foreign"),
        ]
    )
    sides.source.security.alter_quotas(QUOTAS)
    upsertion = ScramUpsertion.of(ALICE, "another word at the source", b"salt")
    sides.source.security.alter_scram_users([upsertion])
    return {
        *GROUPS,
        TRANSACTIONAL,
        others,
        denied(mirror),
        topic_acl(Operation.READ, mirror),
        topic_acl(Operation.READ, "east.", "eye", PatternKind.PREFIXED),
    }


def test_rights_follow_and_nothing_goes_by_mistake(sides: Sides) -> None:
    wanted, mirror = given_at_source(sides), f"east.{sides.topic}"
    config = load_config(sides.config)
    assert any("make Allow User:app" in line for line in plan_link(config, config.links[0]).rights)
    tried = apply_link(config, config.links[0], HowToApply("a test", dry_run=True))
    kinds = {"make_acl", "set_quota", "keep_ready", "make_user"}
    assert kinds <= {each.change.kind for each in tried.outcomes}
    assert not wanted <= followed(sides.target)
    done = apply_link(config, config.links[0], HowToApply("a test"))
    assert done.is_done, done
    until(lambda: wanted <= followed(sides.target), "rights that were applied")

    with RunningLink(sides.config):
        until(lambda: wanted <= followed(sides.target), "rights to follow")
        until(lambda: sides.target.security.describe_quotas() == QUOTAS, "quotas to follow")
        until(lambda: ALICE in sides.target.security.describe_scram_users(), "the user")
        boss = {each for each in followed(sides.target) if each.rule.principal == "User:boss"}
        assert {each.rule.name for each in boss} == {"east.app."}
        assert not {Operation.WRITE, Operation.ALL} & {each.rule.operation for each in boss}
        assert followed(sides.target) == wanted | boss, "Write on the mirror is not granted"

        # One that is gone at the source goes; somebody else's stays.
        gone = [GROUPS[0], topic_acl(Operation.READ, sides.topic, "eve")]
        sides.source.security.delete_acls(gone)
        until(lambda: GROUPS[0] not in followed(sides.target), "the end of one right")
        assert topic_acl(Operation.READ, mirror, "eve") in followed(sides.target)

        # A tenth at once asks.
        sides.source.security.delete_acls(GROUPS[1:11])
        until(lambda: view(sides).plan.asks, "the question")
        assert set(GROUPS[1:11]) <= followed(sides.target)
        assert len(view(sides, by="op").plan.removals) == 10
        until(lambda: not set(GROUPS[1:11]) & followed(sides.target), "what was confirmed")
        until(lambda: view(sides).is_in_step, "both in step")

        check_switch_grants(sides)
        check_failover_grants(sides, boss)


def check_switch_grants(sides: Sides) -> None:
    """Switch one topic: what was kept ready for it is granted, and not what is for the other."""
    config = load_config(sides.config)
    options = SwitchOptions(still_s=0.5, watch_s=0.1)
    wish = SwitchWish((sides.other,), options, by="a test")
    [link] = config.links
    until(lambda: plan_switch(config, link, wish).is_possible, "that it can be switched")
    run = switch(config, link, wish)
    assert run.state is RunState.DONE, [each.text for each in run.steps]
    assert "rights: 2 rules granted" in run.step("opening").text, run.step("opening")
    moved = f"east.{sides.other}"
    granted = {topic_acl(Operation.WRITE, moved), topic_acl(Operation.ALL, moved, "boss")}
    until(lambda: granted <= followed(sides.target), "what was kept ready")
    writing = {Operation.WRITE, Operation.ALL}
    rights = {each for each in followed(sides.target) if each.rule.operation in writing}
    assert rights == granted | {TRANSACTIONAL}


def check_failover_grants(sides: Sides, boss: set[AclBinding]) -> None:
    """Fail the rest over, and call it again: rules are granted as they are at the source."""
    tried = heliostat(sides.config, "failover", "east-to-west", "--dry-run", "--json").json
    assert tried["opening"][0]["text"] == "2 rules would be granted"
    for text in ("2 rules granted", "0 rules granted"):
        answer = heliostat(sides.config, "failover", "east-to-west", "--yes", "--json")
        assert answer.returncode == 0, answer.said
        rights, registry = answer.json["opening"]
        assert (rights["text"], rights["code"], registry["code"]) == (text, None, None)
    granted = {topic_acl(Operation.WRITE, f"east.{sides.topic}"), topic_acl(*ALL_OF_BOSS)}
    until(lambda: granted <= followed(sides.target), "what was kept ready")
    until(lambda: boss.isdisjoint(followed(sides.target)), "the end of what stood in for it")
