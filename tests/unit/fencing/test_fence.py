"""A fence stands when every broker shows it; whoever dies, only its rules can be lifted."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.sim_clock import SimClock
from support.simulated_rules import Died, Killer, MemoryOfRules, SimulatedRules

from heliostat.fencing.deny_rules import Writer, deny_write
from heliostat.fencing.fence import Fence
from heliostat.fencing.patterns import TopicPattern
from heliostat.fencing.rule_book import Purpose, key_of, of_key
from heliostat.fencing.who_writes import WHO, who_writes
from heliostat.names import BrokerId, ClusterId, TopicName

CLUSTER = ClusterId("c")
SWITCH, OTHER = Purpose(CLUSTER, "switch"), Purpose(CLUSTER, "protect")
ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
RULES = [deny_write("User:a", TopicPattern(name)) for name in ("a", "b", "c")]


def cluster(clock: SimClock, lag_s: float = 0.0) -> SimulatedRules:
    return SimulatedRules(clock, {ONE: 0.0, TWO: lag_s, THREE: lag_s / 2})


def test_a_fence_stands_when_every_broker_shows_it() -> None:
    """Given brokers that take a second / when put up / then it waits for the last; then lifted."""
    clock = SimClock(0)
    rules, memory = cluster(clock, 1.0), MemoryOfRules()
    fence = Fence(rules, memory, SWITCH, clock)
    standing = fence.put_up(RULES)
    assert standing.is_whole
    assert 0.9 < standing.took_s < 1.5
    assert set(RULES) <= rules.view(TWO)
    assert fence.put_up(RULES).is_whole  # again: nothing more
    assert fence.laid == rules.rules == set(RULES)
    assert fence.take_down().is_whole
    assert not rules.view(TWO)
    assert not fence.laid


def test_brokers_are_named_that_do_not_show_it() -> None:
    """Given one that is late and one that is silent / when put up / then both are named."""
    clock = SimClock(0)
    rules = SimulatedRules(clock, {ONE: 0.0, TWO: 60.0, THREE: 0.0}, silent={THREE})
    fence = Fence(rules, MemoryOfRules(), SWITCH, clock)
    standing = fence.put_up(RULES, within_s=2.0)
    assert not standing.is_whole
    assert standing.brokers == (ONE,)
    assert set(standing.missing) == {TWO, THREE}
    assert "broker 2: 3 of 3 rules are not there" in standing.text()
    assert "broker 3: does not answer" in standing.text()
    lifted = fence.take_down(within_s=2.0)
    assert set(lifted.missing) == {THREE}
    assert fence.laid == set(RULES)  # still noted: who looks again lifts them
    rules.silent.clear()
    clock.sleep(100)
    assert fence.take_down().is_whole
    assert not fence.laid


def test_a_rule_of_somebody_else_stays() -> None:
    clock = SimClock(0)
    rules, memory = cluster(clock), MemoryOfRules()
    rules.lay(RULES[0])
    fence = Fence(rules, memory, SWITCH, clock)
    assert fence.put_up(RULES).is_whole
    assert fence.laid == set(RULES[1:])
    fence.take_down()
    assert rules.rules == {RULES[0]}


def test_a_rule_for_two_things_stays_until_both_have_lifted_it() -> None:
    clock = SimClock(0)
    rules, memory = cluster(clock), MemoryOfRules()
    one, two = Fence(rules, memory, SWITCH, clock), Fence(rules, memory, OTHER, clock)
    one.put_up(RULES[:2])
    two.put_up(RULES[1:])
    one.take_down()
    assert rules.rules == set(RULES[1:])
    two.take_down()
    assert not rules.rules


@given(st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_whoever_dies_leaves_nothing_that_another_cannot_lift(
    first: int, second: int, is_lifted_by_the_dead: bool
) -> None:
    """Given a death at any step, and another while cleaning / when lifted / then ours are gone."""
    clock, killer = SimClock(0), Killer(first)
    rules, memory = cluster(clock), MemoryOfRules(killer)
    rules.killer = killer
    stranger = deny_write("User:b", TopicPattern("a"))
    rules.lay(stranger)
    for at in (first, second, 0):
        killer.at, killer.steps = at, 0
        fence = Fence(rules, memory, SWITCH, clock)
        try:
            if at == first:
                fence.put_up([*RULES, stranger])
                if not is_lifted_by_the_dead:
                    continue
            fence.take_down()
        except Died:
            assert rules.rules - {stranger} <= memory.rules(SWITCH)
    assert rules.rules == {stranger}
    assert not memory.rules(SWITCH)


def test_rows_are_read_as_written() -> None:
    for rule in RULES:
        assert of_key(key_of(SWITCH, rule)) == (SWITCH, rule)
    for key in ("", "{}", "[1]", '["c","w","p","*","WRITE","DENY","TOPIC",7,"LITERAL"]'):
        with pytest.raises((ValueError, TypeError, KeyError)):
            of_key(key)


@pytest.mark.parametrize(
    ("real", "is_super", "configured", "expected"),
    [
        ("User:link", False, "User:link", Writer("User:link")),
        ("User:link", True, "User:link", Writer("User:link", is_super=True)),
        ("User:link", True, None, Writer("", is_super=True)),
        ("User:other", False, "User:link", None),
        ("User:link", False, None, None),
    ],
)
def test_who_the_link_is_to_the_brokers(
    real: str, is_super: bool, configured: str | None, expected: Writer | None
) -> None:
    """Given brokers that only tell what we may / when tried out / then known; nothing is left."""
    clock = SimClock(0)
    rules, memory = cluster(clock, 0.2), MemoryOfRules()
    own = TopicName("heliostat.x.rules")

    def may_write(topics: Collection[TopicName]) -> dict[BrokerId, dict[TopicName, bool]]:
        assert list(topics) == [own]
        return {
            broker: {
                own: is_super
                or not any(rule.rule.principal in (real, "User:*") for rule in rules.view(broker))
            }
            for broker in rules.lag_s
        }

    fence = Fence(rules, memory, Purpose(CLUSTER, WHO), clock)
    rules.create([deny_write("User:*", TopicPattern(own))])  # of a process that died
    memory.note(Purpose(CLUSTER, WHO), rules.rules, 0)
    assert who_writes(fence, own, configured, may_write) == expected
    assert not rules.rules
    assert not fence.laid
