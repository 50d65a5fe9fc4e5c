"""What `heliostat acls` prints for a configuration; tests on real brokers show that it holds."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from heliostat.cli.acls import acls_command
from heliostat.clusters.acl import Operation, PatternKind, ResourceKind
from heliostat.config import Config
from heliostat.mm2.adopt_plan import peer_of
from heliostat.operate.acls import (
    HEARTBEATS_TOPIC,
    HOME_TOPIC,
    MIRROR_TOPIC,
    SOURCE_TOPIC,
    home_grants,
    link_grants,
)
from heliostat.operate.verb_acls import SHUT_OUT, WRITERS, grants_of_verbs


def written(topics: dict[str, Any], **source: Any) -> dict[str, Any]:
    return {
        "clusters": {"east": {"bootstrap": ["e:1"], **source}, "west": {"bootstrap": ["w:1"]}},
        "links": [{"name": "one", "source": "east", "target": "west", "topics": topics}],
    }


def names(config: dict[str, Any], number: int) -> set[tuple[str, PatternKind]]:
    parsed = Config.model_validate(config)
    side = link_grants(parsed, parsed.links[0])[number]
    return {(rule.name, rule.pattern) for rule in side.rules if rule.kind is ResourceKind.TOPIC}


STATES = {("heliostat.", PatternKind.PREFIXED)}
OWN = {("heliostat.one.", PatternKind.PREFIXED), ("heliostat.probe", PatternKind.LITERAL)}


@pytest.mark.parametrize(
    ("topics", "source", "target"),
    [
        ({"include": ["a"]}, {("a", PatternKind.LITERAL)}, {("a", PatternKind.LITERAL)}),
        (
            {"include": ["a", r"b\..*"], "naming": {"prefix": "e."}},
            {("a", PatternKind.LITERAL), ("b.", PatternKind.PREFIXED)},
            {("e.a", PatternKind.LITERAL), ("e.b.", PatternKind.PREFIXED)},
        ),
        (
            {"include": [".*"], "naming": {"format": "${source}.${topic}.copy"}},
            {("*", PatternKind.LITERAL)},
            {("east.", PatternKind.PREFIXED)},
        ),
        ({"include": [".*"]}, {("*", PatternKind.LITERAL)}, {("*", PatternKind.LITERAL)}),
    ],
)
def test_topics_are_named_as_narrowly_as_acls_can(
    topics: dict[str, Any], source: set[Any], target: set[Any]
) -> None:
    states = set() if ("*", PatternKind.LITERAL) in source else STATES
    assert names(written(topics), 0) == source | states
    assert names(written(topics), 1) == target | OWN


def test_topics_written_for_mirror_maker_tools_have_their_own_rights() -> None:
    def given(number: int, **settings: Any) -> set[tuple[str, str]]:
        config = written({"include": ["a"], "naming": {"prefix": "east."}})
        config["links"][0].update(settings)
        parsed = Config.model_validate(config)
        rules = link_grants(parsed, parsed.links[0])[number].rules
        return {(rule.name, rule.operation.name) for rule in rules}

    parts = {
        "heartbeats": {"emit": True},
        "checkpoints": {"emit": True},
        "offset_syncs": {"emit": True, "location": "source"},
    }
    at_source = given(0, **parts) - given(0)
    assert {name for name, operation in at_source if operation in {"WRITE", "CREATE"}} == {
        "heartbeats",
        "mm2-offset-syncs.west.internal",
    }
    at_target = given(1, **parts) - given(1)
    assert {name for name, _ in at_target} == {
        "*",  # groups
        "east.heartbeats",
        "east.checkpoints.internal",
    }
    assert {o for name, o in at_target if name == "east.heartbeats"} == {
        operation.name for operation in MIRROR_TOPIC
    }
    both = given(1, heartbeats={"emit": True, "at_target": True})
    assert both - given(1, heartbeats={"emit": True}) == {
        ("heartbeats", operation.name) for operation in HEARTBEATS_TOPIC
    }
    only_mirrored = given(0, heartbeats={"mirror": True}) - given(0)
    assert only_mirrored == {("heartbeats", operation.name) for operation in SOURCE_TOPIC}
    syncs = {"emit": True}
    assert given(0, offset_syncs=syncs) == given(0)
    assert {name for name, _ in given(1, offset_syncs=syncs) - given(1)} == {
        "mm2-offset-syncs.east.internal"
    }


def test_group_rights_are_listed_where_groups_are_used() -> None:
    def given(number: int, **settings: Any) -> set[tuple[str, str, str]]:
        config = written({"include": ["a"]})
        config["links"][0].update(settings)
        parsed = Config.model_validate(config)
        rules = link_grants(parsed, parsed.links[0])[number].rules
        return {
            (rule.name, rule.pattern.name, rule.operation.name)
            for rule in rules
            if rule.kind is ResourceKind.GROUP
        }

    assert given(0) == given(1) == set()
    groups = {"sync": True, "include": ["one", r"telegraf-.*"]}
    both = (("one", "LITERAL"), ("telegraf-", "PREFIXED"))
    assert given(0, groups=groups) == {(*each, "DESCRIBE") for each in both}
    assert given(1, groups=groups) == {(*each, "READ") for each in both}
    told = {"checkpoints": {"emit": True}}
    assert given(0, **told) == given(1, **told) == {("*", "LITERAL", "DESCRIBE")}
    assert given(1, groups={"sync": True}) == {("*", "LITERAL", "READ")}
    renamed = {**groups, "naming": {"format": "${source}.${group}"}}
    assert given(0, groups=renamed) == {(*each, "DESCRIBE") for each in both}
    assert given(1, groups=renamed) == {(f"east.{name}", kind, "READ") for name, kind in both}
    begins = {"topics": {"include": ["a"], "start": {"group": "one"}}}
    assert given(0, **begins) == {("one", "LITERAL", "DESCRIBE")}
    assert given(0, **begins, groups={"sync": True}) == {("*", "LITERAL", "DESCRIBE")}


def test_the_right_to_commit_progress_is_listed_where_that_is_on() -> None:
    config = written({"include": ["a"]})
    config["metrics"] = {"progress_group": "heliostat {link}"}
    parsed = Config.model_validate(config)
    source, target = link_grants(parsed, parsed.links[0])
    groups = [rule for rule in (*source.rules, *target.rules) if rule.kind is ResourceKind.GROUP]
    assert [(rule.name, rule.operation.name) for rule in groups] == [("heliostat one", "READ")]
    assert groups[0] in source.rules


def test_rights_to_all_topics_replace_all_others() -> None:
    config = written({"include": [".*"]})
    config["links"][0]["heartbeats"] = {"emit": True}
    assert names(config, 0) == {("*", PatternKind.LITERAL), ("heartbeats", PatternKind.LITERAL)}
    assert names(config, 1) == {("*", PatternKind.LITERAL)} | OWN


def test_nothing_may_be_written_at_the_source() -> None:
    assert {operation.name for operation in SOURCE_TOPIC} == {"READ", "DESCRIBE_CONFIGS"}


def test_rights_wider_than_the_link_needs_are_reported() -> None:
    config = Config.model_validate(written({"include": ["a.b.*"], "exclude": ["abc"]}))
    source, target = link_grants(config, config.links[0])
    for side in (source, target):
        assert any("begin with a are allowed" in note for note in side.notes)
        assert any("replace User:heliostat by" in note for note in side.notes)
    exact = Config.model_validate(written({"include": [r"a\..*"], "exclude": ["a.c"]}))
    assert any("excluded topics" in note for note in link_grants(exact, exact.links[0])[0].notes)


def test_the_command_prints_lines_for_a_shell_and_json(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump(written({"include": ["a"]})))
    runner = CliRunner()
    plain = runner.invoke(acls_command, ["one", "-c", str(path), "--principal", "User:x y"])
    assert plain.exit_code == 0, plain.output
    lines = [shlex.split(line, comments=True) for line in plain.output.splitlines()]
    commands = [line for line in lines if line]
    assert len(commands) == 7
    assert all("User:x y" in line for line in commands)
    mirror = next(line for line in commands if "w:1" in line and "a" in line)
    assert mirror.count("--operation") == len(MIRROR_TOPIC)
    said = runner.invoke(acls_command, ["one", "-c", str(path), "--principal", "User:x", "--json"])
    [link] = json.loads(said.output)
    assert [side["side"] for side in link["sides"]] == ["source", "target"]
    assert {acl["operation"] for acl in link["sides"][0]["acls"]} == {"READ", "DESCRIBE_CONFIGS"}
    assert runner.invoke(acls_command, ["-c", str(path), "--principal", "x"]).exit_code == 2


def test_the_configured_user_is_the_principal() -> None:
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "PLAIN",
        "username": "mirror",
        "password": {"env": "WORD"},
    }
    config = Config.model_validate(written({"include": ["a"]}, security=security))
    source, target = link_grants(config, config.links[0])
    assert {rule.principal for rule in source.rules} == {"User:mirror"}
    assert {rule.principal for rule in target.rules} == {"User:heliostat"}
    assert not source.notes


def test_a_takeover_has_rights_of_its_own_at_the_target(tmp_path: Path) -> None:
    parsed = Config.model_validate(written({"include": ["a"], "naming": {"prefix": "east."}}))
    (link,) = parsed.links

    def more(**names: Any) -> set[tuple[str, str, str]]:
        plain = link_grants(parsed, link)
        sides = link_grants(parsed, link, peer=peer_of(link, **names))
        assert sides[0] == plain[0]
        assert any("adopt --back` only" in note for note in sides[1].notes)
        return {
            (rule.kind.name, rule.name, rule.operation.name)
            for rule in set(sides[1].rules) - set(plain[1].rules)
        }

    states = ("TOPIC", "heliostat.", "READ")
    topic = "mm2-offsets.S.internal"
    positions = {("TOPIC", topic, "READ"), ("TOPIC", topic, "WRITE")}
    assert more(alias="S") == {*positions, states, ("GROUP", "S-mm2", "DESCRIBE")}
    assert more(alias="S", workers_run_on=True) == {*positions, states}
    assert more(topic="o", group="g") == {
        ("TOPIC", "o", "READ"),
        ("TOPIC", "o", "WRITE"),
        states,
        ("GROUP", "g", "DESCRIBE"),
    }
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump(written({"include": ["a"]})))
    said = CliRunner().invoke(acls_command, ["-c", str(path), "--adopt", "--offsets-topic", "o"])
    assert "--operation Read --operation Write --topic 'o'" in said.stdout
    assert "--operation Describe --group 'east-mm2'" in said.stdout
    alone = CliRunner().invoke(acls_command, ["-c", str(path), "--alias", "S"])
    assert alone.exit_code == 2
    assert "--adopt" in alone.output


def test_protection_needs_alter_on_the_target_alone() -> None:
    """Given protect, and the link's own name / when printed / then Alter there, for that name."""
    config = written({"include": ["a"]})
    config["clusters"]["west"]["security"] = {"principal": "User:CN=mirror,O=x"}
    before = Config.model_validate(config)
    config["links"][0]["topics"]["protect"] = True
    after = Config.model_validate(config)
    sides = zip(
        link_grants(before, before.links[0]), link_grants(after, after.links[0]), strict=True
    )
    at_source, at_target = (set(new.rules) - set(old.rules) for old, new in sides)
    assert not at_source
    [rule] = at_target
    assert (rule.kind, rule.operation) == (ResourceKind.CLUSTER, Operation.ALTER)
    assert rule.principal == "User:CN=mirror,O=x"


def test_several_links_of_a_topic_protect_it_from_nobody() -> None:
    config = written({"include": ["a"], "protect": True, "fan_in": {"slot": 0, "of": 2}})
    with pytest.raises(ValueError, match="keep the other links out"):
        Config.model_validate(config)


def test_a_switch_has_rights_of_its_own() -> None:
    parsed = Config.model_validate(written({"include": ["a"]}))
    (link,) = parsed.links
    plain, more = link_grants(parsed, link), grants_of_verbs(parsed, link)
    by_verb = [
        {
            (grant.verb, rule.kind.name, rule.name, rule.operation.name)
            for grant in one.grants
            if (rule := grant.rule) not in it.rules
        }
        for one, it in zip(more, plain, strict=True)
    ]
    assert [{right for right in side if right[0] != "drill"} for side in by_verb] == [
        {
            ("switch", "CLUSTER", "kafka-cluster", "ALTER"),
            ("switch", "CLUSTER", "kafka-cluster", "DESCRIBE_CONFIGS"),
            ("switch", "GROUP", "*", "DESCRIBE"),
        },
        {
            ("switch", "TRANSACTIONAL_ID", "heliostat.one.run", "WRITE"),
            ("failover", "CLUSTER", "kafka-cluster", "ALTER"),
        },
    ]
    of_cluster = {each.operation for each in more[1].rules if each.kind is ResourceKind.CLUSTER}
    assert set(SHUT_OUT) <= of_cluster, "what the link needs as well is printed once"
    for side in by_verb:  # a drill's links lead both ways
        drilled = {right[1:] for right in side if right[0] == "drill"}
        assert {("TOPIC", "drill-", word) for word in ("CREATE", "WRITE", "DELETE")} < drilled
        assert ("GROUP", "drill-", "DELETE") in drilled
        assert ("TRANSACTIONAL_ID", "heliostat.drill-", "WRITE") in drilled
    assert ("drill", "TOPIC", "heliostat.one.drills", "DELETE") in by_verb[1]
    assert any("reverse needs" in note for note in more[0].notes)


def test_a_rolling_switch_names_transactional_ids() -> None:
    """Given a link / when it merges / then it may see who still writes; others may not."""
    for topics, count in (({"naming": "merge"}, 1), ({}, 0)):
        parsed = Config.model_validate(written({"include": ["a"], **topics}))
        source, _ = grants_of_verbs(parsed, parsed.links[0])
        found = [each for each in source.grants if each.why in WRITERS.values()]
        assert len(found) == count
        for each in found:
            assert (each.verb, each.rule.kind.name, each.rule.name) == (
                *("switch", "TRANSACTIONAL_ID", "*"),
            )
            assert each.rule.operation.name == "DESCRIBE"


def test_the_way_back_has_the_rights_of_its_link() -> None:
    config = written({"include": ["a"]})
    config["links"].append(
        {"name": "two", "source": "west", "target": "east", "topics": {"include": ["a"]}}
    )
    parsed = Config.model_validate(config)
    more = grants_of_verbs(parsed, parsed.links[0])
    own = [link_grants(parsed, each) for each in parsed.links]
    for side, there, back in ((more[0], own[0][0], own[1][1]), (more[1], own[0][1], own[1][0])):
        held = {(rule.kind, rule.operation, rule.name) for rule in side.rules}
        for rule in (*there.rules, *back.rules):
            is_covered = (rule.kind, rule.operation, "heliostat.") in held
            assert (rule.kind, rule.operation, rule.name) in held or is_covered
    assert "reverse" in more[0].verbs
    assert not any("reverse needs" in note for note in more[0].notes)
    for each in config["links"]:
        each["topics"]["naming"] = "merge"
    merged = Config.model_validate(config)
    rows = [*(each.grants for each in grants_of_verbs(merged, merged.links[0]))]
    by_finish = [row for side in rows for row in side if row.why.startswith("link two: ")]
    assert {row.verb for row in by_finish} == {"switch"}
    assert {row.rule.name for row in by_finish} >= {"heliostat.two.", "heliostat.two.owner"}


def test_rights_of_verbs_are_printed_by_verb(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump(written({"include": ["a"]})))
    said = CliRunner().invoke(acls_command, ["one", "-c", str(path), "--switch"]).output
    for verb in ("switch", "failover", "drill"):
        assert f"# for heliostat {verb}\n" in said
    assert "tail needs no more than the link" in said


def test_links_by_api_need_rights_on_their_home() -> None:
    config = Config.model_validate(written({"include": ["a"]}))
    assert home_grants(config) == ()
    raw = written({"include": ["a"]})
    raw["clusters"]["third"] = {"bootstrap": ["t:1"]}
    config = Config.model_validate({**raw, "service": {"home": "third"}})
    (side,) = home_grants(config, "User:x")
    assert (side.side, side.cluster, side.bootstrap) == ("home", "third", "t:1")
    assert {(rule.name, rule.operation) for rule in side.rules} == {
        ("heliostat.links", operation) for operation in HOME_TOPIC
    }
