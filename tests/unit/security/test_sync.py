"""ACLs and quotas follow the source, and nothing is removed by mistake."""

from __future__ import annotations

import pytest
from support.access_world import World, acl

from heliostat.clusters.acl import (
    AclListing,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.client_quota import QuotaEntity
from heliostat.config import LinkConfig
from heliostat.config.access import NameRule
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, ClusterId, TopicName
from heliostat.security.granting import grant_held, to_grant
from heliostat.security.rules import is_over, left_alone
from heliostat.security.sync import ALL_PROMOTED
from heliostat.security.wanted_acls import ALL_BUT_WRITE

A = QuotaEntity.of({"user": "a"})
PREFIXED = PatternKind.PREFIXED
GROUP = ResourceKind.GROUP


def many(count: int) -> set:
    return {acl(user=f"u{n}") for n in range(count)}


def test_what_is_removed_at_the_source_is_removed_here() -> None:
    world = World()
    world.source.acls = {acl(), acl(user="b"), acl(kind=ResourceKind.GROUP, name="g")}
    world.turn()
    assert world.target.acls == world.source.acls
    world.source.acls.discard(acl())
    _, done = world.turn()
    assert done.removed == 1
    assert world.target.acls == world.source.acls
    _, done = world.turn()
    assert (done.made, done.removed) == (0, 0)


def test_somebody_elses_equal_rule_is_never_ours() -> None:
    world = World()
    world.source.acls = {acl(), acl(user="b")}
    world.target.acls = {acl()}
    world.turn()
    world.source.acls.discard(acl())
    world.turn()
    assert acl() in world.target.acls
    assert not world.target.deleted


@pytest.mark.parametrize(("total", "gone", "asks"), [(20, 2, True), (21, 2, False), (5, 1, False)])
def test_a_tenth_gone_at_once_asks(total: int, gone: int, asks: bool) -> None:
    world = World()
    world.source.acls = many(total)
    world.turn()
    world.source.acls = many(total - gone)
    plan, _ = world.turn()
    assert bool(plan.asks) is asks
    assert len(world.target.acls) == (total if asks else total - gone)
    if asks:
        assert len(plan.removals) == gone
        world.confirm()
        world.turn()
        assert world.target.acls == world.source.acls
        assert "confirmed" not in world.rows.rows


def test_a_tenth_is_counted_by_kind() -> None:
    """Given nine limits beside a hundred ACLs / when eight limits are gone / then it is asked; of

    one that is gone it is not.
    """
    world = World()
    world.source.acls = many(100)
    limits = {QuotaEntity.of({"user": f"u{n}"}): {"producer_byte_rate": 1.0} for n in range(9)}
    world.source.quotas = dict(limits)
    world.turn()
    world.source.quotas = dict(list(limits.items())[:1])
    plan, _ = world.turn()
    assert plan.asks == "8 of 9 limits would go at once"
    assert world.target.quotas == limits
    world.source.quotas = dict(list(limits.items())[:8])
    plan, done = world.turn()
    assert (plan.asks, done.removed) == ("", 1)
    assert world.target.quotas == world.source.quotas


def test_confirmed_is_only_what_was_shown() -> None:
    world = World()
    world.source.acls = many(20)
    world.turn()
    world.source.acls = many(18)
    world.confirm()
    world.source.acls = many(10)
    world.turn()
    assert len(world.target.acls) == 20


def test_an_empty_answer_another_cluster_and_a_silent_broker_remove_nothing() -> None:
    world = World()
    world.source.acls = many(30)
    world.turn()
    world.source.acls = set()
    plan, _ = world.turn()
    assert plan.asks == "the source lists nothing any more"
    world.source.has_authorizer = False
    plan, _ = world.turn()
    assert "no authorizer" in plan.asks
    world.source.has_authorizer = True
    world.source.acls = many(29) | {acl(user="new")}
    world.source_id = ClusterId("other")
    plan, _ = world.turn()
    assert "another cluster" in plan.asks
    assert acl(user="new") not in world.target.acls
    world.source_id = ClusterId("source")
    world.source.others = {BrokerId(2): BrokerError("gone", kafka_code=13)}
    plan, _ = world.turn()
    assert not plan.may_remove
    assert not plan.asks
    assert acl(user="new") in world.target.acls
    world.source.others = {BrokerId(2): AclListing(frozenset(many(30)))}  # it lags
    world.turn()
    assert many(30) <= world.target.acls
    world.source.others = {}
    world.turn()
    assert world.target.acls == many(29) | {acl(user="new")}


def test_an_error_of_all_brokers_is_an_error() -> None:
    world = World()
    world.source.describe_acls_everywhere = lambda: {  # type: ignore[method-assign]  # refusing
        BrokerId(1): BrokerError("not you", kafka_code=31)
    }
    with pytest.raises(BrokerError, match="not you"):
        world.turn()


def test_write_on_mirrors_is_kept_ready_and_granted_at_promotion() -> None:
    world = World()
    world.source.acls = {
        acl(Operation.WRITE),
        acl(Operation.ALL, "t.2", "b"),
        acl(Operation.WRITE, "t.", "c", pattern=PREFIXED),
        acl(Operation.WRITE, "x", "d", ResourceKind.TRANSACTIONAL_ID),
    }
    world.turn()
    writing = {each for each in world.target.acls if each.rule.operation is Operation.WRITE}
    assert writing == {acl(Operation.WRITE, "x", "d", ResourceKind.TRANSACTIONAL_ID)}
    assert {acl(each, "t.2", "b") for each in ALL_BUT_WRITE} <= world.target.acls

    first, second = TopicName("t.1"), TopicName("t.2")
    foretold = set(to_grant(world.ledger(), [first], [second]))
    assert not foretold & world.target.acls, "it is only told"
    granted = grant_held(world.ledger(), world.target, [first], [second]).granted
    assert foretold == set(granted)
    assert {acl(Operation.WRITE), acl(Operation.WRITE, "t.1", "c")} <= world.target.acls
    assert acl(Operation.WRITE, "t.", "c", pattern=PREFIXED) not in world.target.acls
    world.source.acls -= {acl(Operation.WRITE)}
    world.turn()
    assert acl(Operation.WRITE) in world.target.acls, "nothing is synced after a promotion"

    grant_held(world.ledger(), world.target, [second], [])
    assert world.target.acls == {
        acl(Operation.WRITE),
        acl(Operation.ALL, "t.2", "b"),
        acl(Operation.WRITE, "t.", "c", pattern=PREFIXED),
        acl(Operation.WRITE, "x", "d", ResourceKind.TRANSACTIONAL_ID),
    }


def test_nothing_is_synced_from_the_promotion_on_before_rights_are_granted() -> None:
    world = World()
    world.source.acls = {acl(), acl(name="t.2"), acl(name="*", user="eye")}
    world.turn()
    world.source.acls = {acl(Operation.DESCRIBE), acl(name="t.2"), acl(name="g", kind=GROUP)}
    sync = world.sync()
    plan = sync.look(world.topics, [TopicName("t.1")])
    sync.carry_out(plan)
    assert world.target.acls == {
        acl(),
        acl(name="t.2"),
        acl(name="*", user="eye"),
        acl(name="g", kind=GROUP),
    }


def test_a_rule_of_its_own_stays_when_a_wider_one_is_granted() -> None:
    world = World()
    rules = {acl(Operation.WRITE, "t.2"), acl(Operation.WRITE, "*")}
    world.source.acls = set(rules)
    world.turn()
    grant_held(world.ledger(), world.target, [TopicName("t.2")], [TopicName("t.1")])
    grant_held(world.ledger(), world.target, [TopicName("t.1")], [])
    assert world.target.acls == rules


def test_denials_are_copied_but_for_those_that_would_hit_the_link() -> None:
    world = World()
    deny = {"permission": Permission.DENY}
    harmless = acl(Operation.WRITE, user="a", **deny)
    of_all = acl(Operation.WRITE, user="*", **deny)
    of_us = acl(Operation.ALL, user="link", **deny)
    of_groups = acl(user="*", kind=ResourceKind.GROUP, name="g", **deny)
    world.source.acls = {harmless, of_all, of_us, of_groups}
    plan, _ = world.turn()
    assert world.target.acls == {harmless}
    assert list(plan.refused) == [str(of_groups)]
    grant_held(world.ledger(), world.target, [TopicName("t.1")], [])
    assert world.target.acls == {harmless, of_all, of_us}


def test_names_and_principals_are_changed_and_what_has_no_like_is_named() -> None:
    rules = (
        NameRule(pattern="User:CN=([^,]+),.*", to=r"User:\1"),
        NameRule(pattern="User:secret", to=None),
    )
    world = World(rule="s.${topic}", principals=rules)
    world.source.acls = {
        acl(user="CN=a,O=x"),
        acl(user="secret"),
        acl(name="*", user="all"),
        acl(name="t", user="p", pattern=PREFIXED),
        acl(name="other", user="o"),
        acl(name="other.", user="o", pattern=PREFIXED),
        acl(kind=ResourceKind.CLUSTER, name="kafka-cluster"),
    }
    world.turn()
    assert world.target.acls == {
        acl(name="s.t.1"),
        acl(name="s.", user="all", pattern=PREFIXED),
        acl(name="s.t", user="p", pattern=PREFIXED),
    }
    world = World(rule="${topic}.mirror")
    world.source.acls = {acl(), acl(name="t.", pattern=PREFIXED), acl(name="*")}
    plan, _ = world.turn()
    assert world.target.acls == {acl(name="t.1.mirror")}
    assert len(plan.refused) == 2


def test_what_brokers_refuse_is_named_and_not_ours() -> None:
    world = World()
    world.source.acls = {acl(), acl(user="b")}
    world.target.refuses = {acl()}
    _, done = world.turn()
    assert list(done.failed) == [str(acl())]
    assert (done.made, world.target.acls) == (1, {acl(user="b")})
    world.target.acls.add(acl())  # somebody makes it
    world.source.acls.discard(acl())
    world.turn()
    assert acl() in world.target.acls


def test_without_an_authorizer_at_the_target_nothing_is_made_nor_lost() -> None:
    world = World()
    world.source.acls = {acl()}
    world.turn()
    world.target.has_authorizer = False
    plan, done = world.turn()
    assert (done.made, done.removed) == (0, 0)
    assert any("no authorizer" in note for note in plan.notes)


def test_quotas_follow_and_other_values_stay() -> None:
    world = World(principals=(NameRule(pattern="User:old", to="User:new"),))
    old, new = QuotaEntity.of({"user": "old"}), QuotaEntity.of({"user": "new"})
    ip = QuotaEntity.of({"ip": "10.0.0.1"})
    world.source.quotas = {
        A: {"producer_byte_rate": 1.0, "consumer_byte_rate": 5.0},
        old: {"request_percentage": 2.0},
        ip: {"connection_creation_rate": 1.0},
    }
    world.target.quotas = {A: {"consumer_byte_rate": 7.0}}
    plan, _ = world.turn()
    assert world.target.quotas == {
        A: {"producer_byte_rate": 1.0, "consumer_byte_rate": 7.0},
        new: {"request_percentage": 2.0},
    }
    assert len(plan.limits.foreign) == 1
    world.source.quotas[A]["producer_byte_rate"] = 3.0
    world.turn()
    assert world.target.quotas[A]["producer_byte_rate"] == 3.0
    world.target.quotas[new]["request_percentage"] = 9.0  # somebody's own value now
    del world.source.quotas[old]
    world.turn()
    assert world.target.quotas[new] == {"request_percentage": 9.0}
    del world.source.quotas[A]["producer_byte_rate"]
    world.turn()
    assert world.target.quotas[A] == {"consumer_byte_rate": 7.0}


def test_after_the_last_promotion_nothing_is_followed_any_more() -> None:
    """Given rights of topics, groups and quotas / when no mirror is left / then all stays."""
    world = World()
    group = acl(kind=GROUP, name="g")
    world.source.acls = {acl(), group}
    world.source.quotas = {A: {"producer_byte_rate": 5.0}}
    world.turn()
    there = set(world.target.acls)
    world.source.acls = {acl(user="b"), acl(kind=GROUP, name="h")}
    world.source.quotas = {A: {"producer_byte_rate": 9.0}}
    sync = world.sync()
    plan = sync.look(world.topics, [TopicName("t.1")], is_over=True)
    done = sync.carry_out(plan)
    assert (done.made, done.removed, plan.removals, plan.asks) == (0, 0, [], "")
    assert plan.is_in_step
    assert plan.lines() == [ALL_PROMOTED]
    assert plan.report(9)["is_over"]
    assert world.target.acls == there
    assert world.target.quotas == {A: {"producer_byte_rate": 5.0}}
    plan, _ = world.turn()
    assert plan.acls.make, "a way back makes mirrors again, and rights follow"


def test_a_link_whose_last_mirror_was_promoted_is_over() -> None:
    one = [TopicName("t")]
    assert [is_over([], one), is_over(one, one), is_over([], []), is_over(one, [])] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("naming", ["same", "merge"])
def test_rights_over_topics_that_both_sites_write_are_each_sites_own(naming: str) -> None:
    """Given rules for a topic and a group / when the topic is a mirror / then `Write` is kept

    ready; when it is merged / then nothing is done about it: what one site takes back the other
    would bring again. The group's rights follow in both cases.
    """
    settings = {"name": "l", "source": "a", "target": "b", "topics": {"naming": naming}}
    link = LinkConfig.model_validate(settings)
    world, group = World(), acl(kind=GROUP, name="g")
    write = acl(operation=Operation.WRITE)
    world.source.acls = {acl(), write, group}
    sync = world.sync()
    plan = sync.look(world.topics, left_alone(link, world.topics, []))
    sync.carry_out(plan)
    is_mirror = naming == "same"
    assert world.target.acls == ({acl(), group} if is_mirror else {group})
    assert (write in plan.hold) == is_mirror
