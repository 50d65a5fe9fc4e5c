"""What a fence would not hold is told before, and what brokers still let us do afterwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from sim.sim_clock import SimClock
from support.simulated_rules import SimulatedRules

from heliostat.clusters.acl import EVERYBODY, AclBinding, AclRule, Operation, ResourceKind
from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing import Why, can_fence, still_lets_us_write
from heliostat.fencing.authorizer import Authorizer, authorizer_of
from heliostat.names import BrokerId, TopicName

ONE, TWO = BrokerId(1), BrokerId(2)
A, B = TopicName("a"), TopicName("b")
READS = AclBinding(AclRule("User:link", Operation.READ, ResourceKind.TOPIC, A))


@dataclass
class Asked(SimulatedRules):
    may: bool | BrokerError = True
    lets: dict[BrokerId, dict[TopicName, bool | BrokerError] | HeliostatError] = field(
        default_factory=dict
    )

    def may_alter(self) -> bool | BrokerError:
        return self.may

    def may_write(
        self, topics: Collection[TopicName]
    ) -> Mapping[BrokerId, Mapping[TopicName, bool | BrokerError] | HeliostatError]:
        return self.lets


@pytest.fixture
def asked() -> Asked:
    found = Asked(SimClock(0), {ONE: 0.0, TWO: 0.0}, existing=frozenset({A, B}))
    found.lay(READS)
    return found


def test_all_that_a_fence_would_not_hold_is_told_at_once(asked: Asked) -> None:
    asked.may = False
    deny = can_fence(asked, [EVERYBODY], [A, B])
    assert [each.why for each in deny.cannot] == [
        *(Why.MAY_NOT_CHANGE, Why.NO_RULE, Why.SUPER_USERS_HIDDEN)
    ]
    assert {each.rule.name for each in deny.rules} == {A}
    assert deny.topics == {A}


@pytest.mark.parametrize(("code", "why"), [(54, Why.NO_AUTHORIZER), (31, Why.MAY_NOT_SEE)])
def test_without_authorizer_or_right_nothing_can_be_fenced(
    asked: Asked, code: int, why: Why
) -> None:
    asked.refusal = code
    deny = can_fence(asked, [EVERYBODY], [A])
    assert [each.why for each in deny.cannot] == [why]
    assert not deny.rules


def test_a_known_super_user_is_named(asked: Asked) -> None:
    asked.decides = Authorizer("A", frozenset({"User:link"}), opens_without_rules=False)
    [cannot] = can_fence(asked, ["User:link"], [A]).cannot
    assert (cannot.why, cannot.who) == (Why.SUPER_USERS, "User:link")


def test_what_brokers_still_let_us_do(asked: Asked) -> None:
    """Given brokers that differ, one that does not tell / when asked / then each topic is left."""
    asked.lets = {ONE: {A: False, B: False}, TWO: {A: False, B: False}}
    assert not still_lets_us_write(asked, [A, B])
    asked.lets = {ONE: {A: False, B: True}, TWO: {B: False}}
    left = still_lets_us_write(asked, [A, B])
    assert left == {A: "broker 2 lets us write", B: "broker 1 lets us write"}
    asked.lets = {ONE: {A: False}, TWO: ConnectionLost("is silent")}
    assert still_lets_us_write(asked, [A]) == {A: "broker 2 does not say: is silent"}
    asked.lets = {}
    with pytest.raises(ConnectionLost):
        still_lets_us_write(asked, [A])


def _entry(value: str | None, *, is_sensitive: bool = False) -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.STATIC_BROKER, False, True, is_sensitive)


def test_how_brokers_decide_as_far_as_they_show_it() -> None:
    """Given brokers that hide, show, or differ / when read / then the weakest counts."""
    name = {"authorizer.class.name": _entry("A")}
    hidden = name | {
        "super.users": _entry(None, is_sensitive=True),
        "allow.everyone.if.no.acl.found": _entry(None, is_sensitive=True),
    }
    shown = name | {
        "super.users": _entry("User:a;User:CN=b,O=c;"),
        "allow.everyone.if.no.acl.found": _entry("TRUE"),
    }
    assert authorizer_of([hidden]) == Authorizer("A")
    assert authorizer_of([shown]) == Authorizer("A", frozenset({"User:a", "User:CN=b,O=c"}), True)
    assert authorizer_of([name]) == Authorizer("A", frozenset(), False)
    assert authorizer_of([hidden, shown]) == Authorizer("A", None, True)
    assert not authorizer_of([shown, {"authorizer.class.name": _entry("")}]).is_there
