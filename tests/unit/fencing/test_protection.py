"""Rules that follow mirrors and others' rights, whoever dies, and leave nothing behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sim.sim_clock import SimClock
from support.simulated_rules import Died, Killer, MemoryOfRules, SimulatedRules

from heliostat.clusters.acl import (
    AclBinding,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.fencing.authorizer import Authorizer
from heliostat.fencing.cannot import Why
from heliostat.fencing.deny_rules import Writer
from heliostat.fencing.fence import Fence
from heliostat.fencing.patterns import WORTH
from heliostat.fencing.protection import Protection, ProtectionKeeper, unprotect
from heliostat.fencing.rule_book import PROTECTION, Purpose
from heliostat.names import BrokerId, ClusterId, TopicName

LINK, ONE, TWO = "User:link", BrokerId(1), BrokerId(2)
A, B = TopicName("m.a"), TopicName("m.b")


def allow(principal: str, name: str, pattern: PatternKind = PatternKind.LITERAL) -> AclBinding:
    return AclBinding(AclRule(principal, Operation.WRITE, ResourceKind.TOPIC, name, pattern))


OURS = allow(LINK, "m.", PatternKind.PREFIXED)


@dataclass
class Scene:
    """A target, and the keeper of a link that may be killed and begin again."""

    who: Writer | None = field(default_factory=lambda: Writer(LINK))
    clock: SimClock = field(default_factory=lambda: SimClock(0))
    killer: Killer = field(default_factory=Killer)

    def __post_init__(self) -> None:
        self.memory = MemoryOfRules(self.killer)
        self.cluster = SimulatedRules(
            self.clock,
            {ONE: 0.0, TWO: 0.05},
            self.killer,
            decides=Authorizer("A", frozenset(), opens_without_rules=False),
            existing=frozenset({A, B}),
        )
        self.cluster.lay(OURS)
        self.begin()

    def begin(self) -> None:
        self.keeper = ProtectionKeeper(
            *(self.cluster, ClusterId("c"), self.memory, lambda: self.who, ("m.",), self.clock)
        )

    def step(self, *mirrors: TopicName) -> Protection:
        return self.keeper.step(mirrors)

    def denied(self) -> set[tuple[str, str]]:
        return {
            (rule.rule.principal, rule.rule.name)
            for rule in self.cluster.rules
            if rule.permission is Permission.DENY
        }


def test_rules_follow_topics_and_rights() -> None:
    """Given a right / when it comes, a mirror comes, it goes, one is promoted / then in step."""
    scene = Scene()
    assert scene.step(A).rules == 0
    right = allow("User:other", "m.", PatternKind.PREFIXED)
    scene.cluster.lay(right)
    found = scene.step(A)
    assert scene.denied() == {("User:other", A)}
    assert found.laid == ("User:other may not write any more (1 rules)",)
    assert (found.protected, found.mirrors, found.behind) == (1, 1, "")
    scene.step(A, B)
    assert scene.denied() == {("User:other", A), ("User:other", B)}
    assert scene.step(A, B).laid == ()
    scene.step(B)  # A was promoted
    assert scene.denied() == {("User:other", B)}
    scene.cluster.revoke(right)
    assert scene.step(B).lifted == 1
    assert not scene.denied()
    scene.cluster.lay(right)
    scene.step(A, B)
    scene.keeper.lift_all()
    assert not scene.denied()


def test_a_stale_broker_lifts_no_protection() -> None:
    """Given a broker without rules, one that is silent / when a right seems gone / then kept."""
    scene = Scene()
    scene.cluster.lay(allow("User:other", A))
    scene.step(A)
    scene.cluster.lag_s = {ONE: 0.0, TWO: 1e12}  # it has loaded nothing yet
    scene.step(A)
    assert scene.denied() == {("User:other", A)}
    scene.cluster.lag_s = {ONE: 0.0, TWO: 0.0}
    scene.cluster.silent = {ONE}
    scene.cluster.revoke(allow("User:other", A))
    scene.step(A)
    assert scene.denied() == {("User:other", A)}
    scene.cluster.silent = set()
    scene.step(A)
    assert not scene.denied()


def test_what_cannot_be_protected_is_said() -> None:
    scene = Scene()
    scene.cluster.lay(allow("User:*", A))
    scene.cluster.decides = Authorizer("A")
    found = scene.step(A, B)
    assert {each.why for each in found.cannot} == {Why.EVERYBODY, Why.SUPER_USERS_HIDDEN}
    assert found.protected == 1
    assert any("m.a: a rule lets User:* write" in line for line in found.lines())
    assert found.report(5)["cannot_count"] == 2


@pytest.mark.parametrize(("code", "why"), [(54, Why.NO_AUTHORIZER), (31, Why.MAY_NOT_SEE)])
def test_without_authorizer_or_right_it_says_so(code: int, why: Why) -> None:
    scene = Scene()
    scene.cluster.refusal = code
    assert [each.why for each in scene.step(A).cannot] == [why]
    scene.cluster.refusal = 35
    with pytest.raises(BrokerError):
        scene.step(A)
    scene.cluster.refusal, scene.cluster.silent = 0, {ONE, TWO}
    with pytest.raises(ConnectionLost):
        scene.step(A)


def test_without_the_right_to_change_rules_it_says_so() -> None:
    scene = Scene()

    def refused() -> Writer:
        raise BrokerError("no", kafka_code=31)

    scene.keeper.who = refused
    assert [each.why for each in scene.step(A).cannot] == [Why.MAY_NOT_CHANGE]


def test_who_does_not_know_its_name_denies_nobody_and_leaves_what_is_there() -> None:
    scene = Scene()
    scene.cluster.lay(allow("User:other", "m.", PatternKind.PREFIXED))
    scene.step(A, B)
    scene.who = None
    scene.begin()
    found = scene.step(A)
    assert [each.why for each in found.cannot] == [Why.WHO_WE_ARE]
    assert scene.denied() == {("User:other", A)}


def test_a_super_user_denies_everybody() -> None:
    scene = Scene(Writer(LINK, is_super=True))
    found = scene.step(A, B)
    assert scene.denied() == {("User:*", A), ("User:*", B)}
    assert found.protected == 2


RIGHTS = [
    allow("User:a", "m.", PatternKind.PREFIXED),
    allow("User:a", A),
    allow("User:b", "*"),
    allow("User:b", B),
]


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(RIGHTS)), st.sets(st.sampled_from([A, B]))),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 30),
)
@example([({RIGHTS[1], RIGHTS[3]}, {A, B}), (set(), set()), ({RIGHTS[1], RIGHTS[3]}, {A, B})], 7)
def test_whoever_dies_its_successor_has_the_rules_right(
    turns: list[tuple[set[AclBinding], set[TopicName]]], dies_at: int
) -> None:
    """Given rights and mirrors that change, a death anywhere / then the end is as without it."""
    scene = Scene()
    scene.killer.at = dies_at
    for rights, mirrors in turns:
        scene.cluster.revoke(*RIGHTS)
        scene.cluster.lay(*rights)
        try:
            scene.step(*mirrors)
        except Died:
            scene.begin()
    scene.killer.at = 0
    rights, mirrors = turns[-1]
    scene.step(*mirrors)
    expected = {
        (right.rule.principal, mirror)
        for right in rights
        for mirror in mirrors
        if right.rule.name in ("*", "m.", mirror)
    }
    assert scene.denied() == expected
    assert scene.cluster.rules >= rights | {OURS}
    assert {rule for rows in scene.memory.rows.values() for rule in rows} == {
        rule for rule in scene.cluster.rules if rule.permission is Permission.DENY
    }


def test_what_is_promoted_is_open_and_the_rest_stays_closed() -> None:
    """Given one rule on a prefix / when one mirror is promoted / then one rule for each other."""
    scene = Scene()
    mirrors = [TopicName(f"m.{number}") for number in range(WORTH + 1)]
    scene.cluster.existing = frozenset(mirrors)
    scene.cluster.lay(allow("User:other", "m.", PatternKind.PREFIXED))
    scene.step(*mirrors)
    assert scene.denied() == {("User:other", "m.")}
    fence = Fence(scene.cluster, scene.memory, Purpose(ClusterId("c"), PROTECTION), scene.clock)
    assert unprotect(fence, mirrors[:1], mirrors).is_whole
    assert scene.denied() == {("User:other", name) for name in mirrors[1:]}
    assert not unprotect(fence, mirrors[:1], mirrors).missing
    unprotect(fence, mirrors, ())
    assert not scene.denied()


def test_nobody_is_let_in_before_the_rest_is_closed_again() -> None:
    """Given a broker that takes nothing / when one is promoted / then the prefix's rule stays."""
    scene = Scene()
    mirrors = [TopicName(f"m.{number}") for number in range(WORTH + 1)]
    scene.cluster.existing = frozenset(mirrors)
    scene.cluster.lay(allow("User:other", "m.", PatternKind.PREFIXED))
    scene.step(*mirrors)
    scene.cluster.silent = {TWO}
    fence = Fence(scene.cluster, scene.memory, Purpose(ClusterId("c"), PROTECTION), scene.clock)
    assert set(unprotect(fence, mirrors[:1], mirrors).missing) == {TWO}
    assert ("User:other", "m.") in scene.denied()
