from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.config import LinkConfig
from heliostat.config.interchange import HeartbeatsConfig
from heliostat.names import LinkName, TopicName
from heliostat.topics.naming import Naming, collisions, name_problem, naming_of

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
PARTS = st.from_regex(r"[a-zA-Z0-9._-]{0,8}", fullmatch=True)


def link(naming: object) -> LinkConfig:
    return LinkConfig.model_validate(
        {"name": "l", "source": "summit", "target": "usdf", "topics": {"naming": naming}}
    )


@pytest.mark.parametrize(
    ("naming", "expected"),
    [
        ("same", "a.b"),
        ({"prefix": "x."}, "x.a.b"),
        ({"format": "${source}.${topic}"}, "summit.a.b"),
        ({"format": "m-${topic}-copy"}, "m-a.b-copy"),
        ({"format": "${source}__${topic}"}, "summit__a.b"),
        ({"format": "${topic}__${source}"}, "a.b__summit"),
        ({"format": "${topic}heliostat."}, "a.bheliostat."),
        ({"format": "x${topic}${source}"}, "xa.bsummit"),
    ],
)
def test_namings(naming, expected):
    rule = naming_of(link(naming))
    assert rule.target_name(TopicName("a.b")) == expected
    assert rule.source_name(TopicName(expected)) == "a.b"


@given(st.lists(PARTS, min_size=2, max_size=4), NAMES)
def test_each_target_name_leads_back_to_its_source(parts, name):
    rule = Naming("${topic}".join(parts))
    assert rule.source_name(rule.target_name(TopicName(name))) == name


@given(PARTS, PARTS, NAMES)
def test_a_name_that_the_rule_never_makes_has_no_source(before, after, name):
    rule = Naming(f"{before}${{topic}}{after}")
    source = rule.source_name(TopicName(name))
    if source is None:
        inner = len(name) - len(before) - len(after)
        assert inner <= 0 or not (name.startswith(before) and name.endswith(after))
    else:
        assert rule.target_name(source) == name


@given(st.lists(NAMES, max_size=20), PARTS)
def test_a_naming_collides_only_where_dots_and_underscores_are_all_that_differs(names, before):
    clash = collisions(Naming(before + "${topic}"), map(TopicName, names))
    for name in set(names):
        others = {n for n in names if n != name and n.replace(".", "_") == name.replace(".", "_")}
        assert (name in clash) == bool(others)
        assert not others or clash[TopicName(name)] in others


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("a", True),
        ("a" * 249, True),
        ("a" * 250, False),
        ("", False),
        (".", False),
        ("..", False),
        ("...", True),
        ("a/b", False),
        ("ä", False),
        ("__a", False),
        ("heliostat.a", False),
        ("_a__", True),
        ("heliostat-a", True),
    ],
)
def test_invalid_mirror_names_are_refused(name, fine):
    assert (name_problem(name) is None) is fine


@given(st.sets(NAMES, max_size=10), st.sets(NAMES, max_size=10), st.sampled_from(["__", ".", "-"]))
def test_two_sources_collide_only_if_one_alias_begins_with_the_other(north, south, separator):
    """Fan-in: `a` and `a__b` may both make `a__b__c`, and nothing else."""
    rule = f"${{source}}{separator}${{topic}}"
    for aliases in (("north", "south"), ("a", f"a{separator}b")):
        made = {
            LinkName(alias): {
                Naming(rule.replace("${source}", alias)).target_name(TopicName(name))
                for name in names
            }
            for alias, names in zip(aliases, (north, south), strict=True)
        }
        one, other = made.values()
        assert all(name.startswith(f"a{separator}b{separator}") for name in one & other)
        if aliases[0] == "north":
            assert not one & other


@pytest.mark.parametrize(
    ("naming", "expected"),
    [
        ("same", "summit.heartbeats"),
        ({"prefix": "summit."}, "summit.heartbeats"),
        ({"prefix": "summit-"}, "summit-heartbeats"),
        ({"format": "m-${topic}-copy"}, "summit.heartbeats"),
    ],
)
def test_heartbeats_are_named_after_their_source_in_any_naming(naming, expected):
    wanted = link(naming).model_copy(update={"heartbeats": HeartbeatsConfig(emit=True)})
    rule = naming_of(wanted)
    assert rule.target_name(TopicName("heartbeats")) == expected
    assert rule.source_name(TopicName(expected)) == "heartbeats"
    plain = naming_of(link(naming))
    assert rule.target_name(TopicName("a.b")) == plain.target_name(TopicName("a.b"))


def test_heartbeats_from_further_upstream_keep_their_hops():
    rule = naming_of(link("same").model_copy(update={"heartbeats": HeartbeatsConfig(mirror=True)}))
    assert rule.target_name(TopicName("north.heartbeats")) == "summit.north.heartbeats"
    assert rule.source_name(TopicName("summit.north.heartbeats")) == "north.heartbeats"
