"""Whatever happens at the source, and whenever the driver dies: only what is ours ever goes."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.access_world import World, acl

from heliostat.clusters.acl import AclBinding, Operation, PatternKind, Permission, ResourceKind
from heliostat.errors import ConnectionLost
from heliostat.names import ClusterId, TopicName
from heliostat.security.granting import grant_held

BINDINGS = st.builds(
    acl,
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE]),
    st.sampled_from(["t.1", "t.2", "other", "*", "t.", "t.1x"]),
    st.sampled_from(["a", "b", "*", "link"]),
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER]),
    pattern=st.sampled_from([PatternKind.LITERAL, PatternKind.PREFIXED]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
RULES = st.frozensets(BINDINGS, max_size=25)
TURNS = st.lists(
    st.tuples(RULES, st.integers(0, 6), st.booleans(), st.booleans()), min_size=1, max_size=6
)


def opens_a_mirror(binding: AclBinding) -> bool:
    rule = binding.rule
    return (
        binding.permission is Permission.ALLOW
        and rule.kind is ResourceKind.TOPIC
        and rule.operation in {Operation.WRITE, Operation.ALL}
    )


def in_step(world: World) -> set[AclBinding]:
    """Confirm until nothing is left to be done, and return what the target has."""
    for _ in range(4):
        world.confirm()
        world.turn()
    plan = world.look()
    assert not plan.acls.make
    assert not plan.removals
    return world.target.acls


@settings(max_examples=40, deadline=None)
@given(foreign=RULES, turns=TURNS)
def test_a_driver_that_dies_anywhere_leaves_no_rule_and_takes_none(
    foreign: frozenset[AclBinding], turns: list[Any]
) -> None:
    world = World()
    world.target.acls = set(foreign)
    for rules, writes, arrives, is_other in turns:
        world.source.acls = set(rules)
        world.source_id = ClusterId("other" if is_other else "source")
        world.power.writes_left, world.power.arrives = writes, arrives
        with contextlib.suppress(ConnectionLost):
            world.turn()
        assert foreign <= world.target.acls
        assert not any(opens_a_mirror(each) for each in world.target.acls - foreign)
    world.power.writes_left, world.source_id = -1, ClusterId("source")
    in_step(world)
    world.source.acls = set()
    assert in_step(world) == foreign
    assert world.ledger().owned == 0


@settings(max_examples=40, deadline=None)
@given(before=RULES, after=RULES)
def test_nothing_goes_without_a_person_if_a_tenth_would(
    before: frozenset[AclBinding], after: frozenset[AclBinding]
) -> None:
    world = World()
    world.source.acls = set(before)
    world.turn()
    owned = world.look()
    had, items = set(world.target.acls), set(world.rows.rows)
    world.source.acls = set(after)
    plan, done = world.turn()
    gone = had - world.target.acls
    assert len(plan.removals) <= 1 or 10 * len(plan.removals) < len(items) or not gone
    assert owned.removals == []
    if plan.asks:
        assert not gone
        assert done.removed == 0


@settings(max_examples=40, deadline=None)
@given(
    rules=RULES,
    foreign=RULES,
    deaths=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=3),
    order=st.permutations(["t.1", "t.2"]),
)
def test_a_promotion_grants_what_the_source_had_whenever_it_is_cut_short(
    rules: frozenset[AclBinding],
    foreign: frozenset[AclBinding],
    deaths: list[tuple[int, bool]],
    order: list[str],
) -> None:
    world = World()
    world.source.acls, world.target.acls = set(rules), set(foreign)
    world.turn()
    names = [TopicName(name) for name in order]
    for topics, rest in ((names[:1], names[1:]), (names[1:], [])):
        for writes, arrives in deaths:
            world.power.writes_left, world.power.arrives = writes, arrives
            with contextlib.suppress(ConnectionLost):
                grant_held(world.ledger(), world.target, topics, rest)
        world.power.writes_left = -1
        answer = grant_held(world.ledger(), world.target, topics, rest)
        assert not answer.failed
        assert foreign <= world.target.acls
        for binding in world.target.acls - foreign:
            if opens_a_mirror(binding) and rest:
                rule = binding.rule
                assert rule.name in order[:1] or rule.name == "t.1x", binding
    followed = {
        each
        for each in rules
        if each.rule.kind is ResourceKind.TOPIC
        and (each.rule.name in {"t.1", "t.2"} or each.rule.name in {"*", "t."})
        and not (each.rule.name == "*" and each.rule.pattern is PatternKind.PREFIXED)
        and not (each.rule.name == "t." and each.rule.pattern is PatternKind.LITERAL)
    }
    assert followed <= world.target.acls
