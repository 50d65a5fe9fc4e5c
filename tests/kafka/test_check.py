"""`heliostat check` on a cluster that checks rights and has policies: each is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name, until
from support.command import Answer, heliostat
from support.policies import FROZEN, HIDDEN, LOCKED, SETTINGS, policy_jar

from heliostat.clusters.acl import Operation
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.admin.right_calls import Right
from heliostat.config import load_config
from heliostat.names import Alias, TopicName
from heliostat.operate import check as checking
from heliostat.operate.acls import Grant, home_grants, link_grants
from heliostat.operate.check_rights import all_rights, rights_asked
from heliostat.operate.check_target import trial_topic
from heliostat_sandbox import Cluster, ClusterSpec, Listener, Mechanism, SandboxSecurity, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

USER = "mirror"
HUNG_WITHIN_S = 10.0


@dataclass(frozen=True)
class Restricted:
    """A target whose policies refuse some, and a source that has one topic."""

    source: Cluster
    target: Cluster
    topic: TopicName
    folder: Path

    def config(self, naming: str, home: str | None = None, **link: Any) -> Path:
        """Write a configuration; the user has exactly the rights that `acls` prints for it."""
        access = self.target.credentials.access(
            USER, Listener.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_256
        )
        sasl = access.security.sasl
        assert sasl is not None
        assert sasl.password is not None
        west = {
            "bootstrap": list(access.bootstrap),
            "security": {
                "protocol": "SASL_PLAINTEXT",
                "mechanism": sasl.mechanism,
                "username": USER,
                "password": {"file": sasl.password.file},
            },
        }
        settings = {
            "clusters": {"east": {"bootstrap": [self.source.bootstrap]}, "west": west},
            "service": {"listen": "127.0.0.1:0", "home": home},
            "links": [
                {
                    "name": "one",
                    "source": "east",
                    "target": "west",
                    "topics": {"include": [f"{self.topic}.*"], "naming": {"prefix": naming}},
                    **link,
                }
            ],
        }
        path = self.folder / f"{naming}yaml"
        path.write_text(yaml.safe_dump(settings))
        self.target.accounts.take_all_back()
        config = load_config(path)
        self.target.accounts.allow(link_grants(config, config.links[0])[1].rules)
        return path

    def topics(self) -> set[str]:
        """Names of all topics at the target."""
        with ClusterAdmin(self.target.bootstrap) as admin:
            return set(admin.describe_topics())


@pytest.fixture(scope="module")
def restricted(
    cluster_pair: ClusterPair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restricted]:
    folder = tmp_path_factory.mktemp("restricted")
    spec = ClusterSpec(
        "restricted",
        heap_mb=HEAP_MB,
        settings=SETTINGS,
        jars=(policy_jar(folder),),
        security=SandboxSecurity(
            users={USER: "secret"}, mechanisms=(Mechanism.SCRAM_SHA_256,), authorizer=True
        ),
    )
    (target,) = start_many([spec])
    with target:
        topic = create_topic(cluster_pair.source, fresh_name("checked"))
        yield Restricted(cluster_pair.source, target, topic, folder)


def codes(answer: Answer) -> dict[str, str]:
    """Return problems by code."""
    rows = json.loads(answer.stdout)["findings"]
    return {row["code"]: row["text"] for row in rows if row["standing"] == "problem"}


def test_with_its_rights_a_link_would_run_and_nothing_was_changed(restricted: Restricted) -> None:
    config = restricted.config("open.")
    before = restricted.topics()
    answer = heliostat(config, "check", "--no-spark", "--json")
    report = answer.json
    assert (answer.returncode, codes(answer)) == (0, {}), answer.said
    assert restricted.topics() == before
    texts = [row["text"] for row in report["findings"]]
    assert any("topics are mirrored, 1 to be created" in text for text in texts)
    assert any("rights at the target" in text for text in texts)
    shown = heliostat(config, "check", "--no-spark")
    assert shown.stdout.endswith("it would run\n")
    assert "NOT_ENCRYPTED" in shown.stdout


def test_each_right_is_missed_when_it_is_taken_away(restricted: Restricted) -> None:
    path = restricted.config(
        "rights.", groups={"sync": True}, access={"sync_quotas": True, "sync_acls": True}
    )
    config = load_config(path)
    sides = link_grants(config, config.links[0], f"User:{USER}")
    accounts = restricted.target.accounts
    with ClusterAdmin(config.clusters[Alias("west")].access()) as admin:
        for side in sides:
            accounts.take_all_back()
            accounts.allow(side.rules)
            asked = rights_asked(side.grants, [])
            rights = all_rights([asked])
            _wait(admin, rights, is_allowed=True)
            alone = list(_alone(side.grants))
            for some in (alone[::2], alone[1::2]):  # the others' rights stay
                lost = {right for grant in some for right in asked[grant]}
                accounts.take_back([grant.rule for grant in some])
                _wait(admin, lost, is_allowed=False)
                _wait(admin, all_rights([{g: asked[g] for g in alone}]) - lost, is_allowed=True)
                accounts.allow([grant.rule for grant in some])
                _wait(admin, rights, is_allowed=True)


def _wait(admin: ClusterAdmin, rights: set[Right], *, is_allowed: bool) -> None:
    """Wait until the broker has heard of a change."""

    def others() -> dict[Right, bool | None]:
        return {right: may for right, may in admin.may(rights).items() if may is not is_allowed}

    until(lambda: not others(), lambda: f"{is_allowed}: {others()}", 20)


def _alone(grants: tuple[Grant, ...]) -> Iterator[Grant]:
    """Yield grants that no other one of the same resource implies."""
    implied = {
        Operation.DESCRIBE: {
            *(Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DELETE),
        },
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    for grant in grants:
        rule = grant.rule
        same = (g.rule for g in grants if (g.rule.kind, g.rule.name) == (rule.kind, rule.name))
        others = {each.operation for each in same}
        if not others & implied.get(rule.operation, set()):
            yield grant


def test_a_missing_right_is_named_with_what_it_is_for(restricted: Restricted) -> None:
    path = restricted.config("lacking.")
    config = load_config(path)
    rules = link_grants(config, config.links[0])[1].rules
    lost = [rule for rule in rules if rule.operation is Operation.DELETE]
    assert restricted.target.accounts.take_back(lost) == 1
    answer = heliostat(path, "check", "--no-spark", "--json")
    assert answer.returncode == 1
    assert list(codes(answer)) == ["RIGHT_MISSING"]
    assert "Delete on topic names that begin with lacking." in codes(answer)["RIGHT_MISSING"]
    assert "recreate a mirror; heliostat acls prints the commands" in answer.stdout


def test_rights_where_links_by_api_are_kept_are_asked_for(restricted: Restricted) -> None:
    """Given a service's home / with no right there `Read` lacks, and the others are a note."""
    path = restricted.config("home.", home="west")
    answer = heliostat(path, "check", "--no-spark", "--json")
    assert codes(answer) == {
        "RIGHT_MISSING": "the home does not give Read on topic heliostat.links"
    }
    (side,) = home_grants(load_config(path))
    read = [rule for rule in side.rules if rule.operation is Operation.READ]
    restricted.target.accounts.allow(read)
    answer = heliostat(path, "check", "--no-spark", "--json")
    assert (answer.returncode, codes(answer)) == (0, {}), answer.said
    assert "the home does not give Write on topic heliostat.links" in answer.stdout


def test_what_policies_refuse_is_told_without_and_with_a_try(restricted: Restricted) -> None:
    answer = heliostat(restricted.config(LOCKED), "check", "--no-spark", "--json")
    assert "administrators' own" in codes(answer)["POLICY_VIOLATION"]
    tried = heliostat(restricted.config(LOCKED), "check", "--no-spark", "--try", "--json")
    assert "it refuses message.timestamp.before.max.ms=" in tried.stdout
    assert tried.returncode == 1
    before = restricted.topics()
    frozen = heliostat(restricted.config(FROZEN), "check", "--no-spark", "--try", "--json")
    assert list(codes(frozen)) == ["POLICY_VIOLATION"], frozen.said
    assert "settings are changed by ticket" in codes(frozen)["POLICY_VIOLATION"]
    assert restricted.topics() == before


def test_each_topic_of_its_own_that_may_not_be_made_is_told(restricted: Restricted) -> None:
    """Given a target that makes no topics for programs / then all that a link needs are named."""
    path = restricted.config("own.", name=HIDDEN, groups={"sync": True})
    answer = heliostat(path, "check", "--no-spark", "--json")
    assert list(codes(answer)) == ["POLICY_VIOLATION"], answer.said
    text = codes(answer)["POLICY_VIOLATION"]
    assert f"heliostat.{HIDDEN}.state: topics of programs are made by ticket" in text
    # control, offsets, progress, history, gaps, wishes, groups
    assert text.endswith("(and 7 more topics)")


def test_a_try_leaves_nothing_and_removes_what_a_killed_one_left(restricted: Restricted) -> None:
    path = restricted.config("open.")
    before = restricted.topics()
    left = trial_topic(load_config(path).links[0])
    with ClusterAdmin(restricted.target.bootstrap) as admin:
        assert not isinstance(admin.create_topics([NewTopic(left, 1, 1)])[left], Exception)
    answer = heliostat(path, "check", "--no-spark", "--try", "--json")
    assert (answer.returncode, codes(answer)) == (0, {}), answer.said
    assert f"{left} of an earlier try is removed" in answer.stdout
    assert "who has written (DescribeProducers)" in answer.stdout
    assert restricted.topics() == before


def test_a_cluster_that_hangs_costs_seconds_and_the_rest_is_told(
    restricted: Restricted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "CLUSTER_WITHIN_S", 2.0)
    path = restricted.config("open.")
    restricted.target.brokers[0].pause()
    try:
        began_s = time.monotonic()
        answer = heliostat(path, "check", "--no-spark", "--json")
        took_s = time.monotonic() - began_s
    finally:
        restricted.target.brokers[0].resume()
    assert took_s < HUNG_WITHIN_S
    subjects = {row["subject"] for row in answer.json["findings"] if row["standing"] == "problem"}
    assert subjects == {"cluster west"}
    assert "cluster east" in answer.stdout
    assert "NOT_CHECKED" in answer.stdout
