"""What rules leave open, judged by a second, plain reading of `StandardAuthorizer`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.clusters.acl import (
    EVERYBODY,
    AclBinding,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.fencing.authorizer import Authorizer
from heliostat.fencing.cannot import Why
from heliostat.fencing.deny_rules import DenyRules, Rights, Writer, fence_of, protection_of
from heliostat.fencing.patterns import WORTH
from heliostat.names import TopicName

LINK = "User:link"
PEOPLE = (LINK, "User:a", "User:b", "User:root")
HOSTS = ("10.0.0.1", "10.0.0.2")
MANY = [TopicName(f"x.{number}") for number in range(WORTH + 1)]
TOPICS = [*(TopicName(name) for name in ("a", "ab", "b")), *MANY]
CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def may(  # noqa: PLR0917  # reads as a sentence of rules
    bindings: Collection[AclBinding],
    authorizer: Authorizer,
    principal: str,
    host: str,
    operation: Operation,
    topic: str,
) -> bool:
    """Decide as `StandardAuthorizerData.authorize` does, for reading and writing."""
    if principal in (authorizer.super_users or ()):
        return True
    concerned = [
        each
        for each in bindings
        if each.rule.kind is ResourceKind.TOPIC
        and (
            each.rule.name in (topic, "*")
            if each.rule.pattern is PatternKind.LITERAL
            else topic.startswith(each.rule.name)
        )
    ]
    if not concerned:
        return bool(authorizer.opens_without_rules)
    matching = [
        each.permission
        for each in concerned
        if each.rule.principal in (principal, EVERYBODY)
        and each.host in ("*", host)
        and (
            each.rule.operation in (operation, Operation.ALL)
            or (operation is Operation.DESCRIBE and each.permission is Permission.ALLOW)
        )
    ]
    return bool(matching) and Permission.DENY not in matching


def rule(  # noqa: PLR0917  # reads as a sentence of rules
    principal: str,
    name: str,
    pattern: PatternKind = PatternKind.LITERAL,
    operation: Operation = Operation.WRITE,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> AclBinding:
    right = AclRule(principal, operation, ResourceKind.TOPIC, name, pattern)
    return AclBinding(right, permission, host)


RULES = st.builds(
    rule,
    st.sampled_from([*PEOPLE, EVERYBODY]),
    st.sampled_from(["a", "ab", "b", "x.0", "x.", "x"]),
    st.sampled_from([PatternKind.LITERAL, PatternKind.PREFIXED]),
    st.sampled_from([Operation.WRITE, Operation.READ, Operation.ALL]),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    st.sampled_from(["*", "*", *HOSTS]),
) | st.builds(
    rule,
    st.sampled_from([*PEOPLE, EVERYBODY]),
    st.just("*"),
    st.just(PatternKind.LITERAL),
    st.sampled_from([Operation.WRITE, Operation.READ, Operation.ALL]),
)
TRUTHS = st.builds(
    Authorizer,
    st.just(CLASS),
    st.frozensets(st.sampled_from(PEOPLE), max_size=2),
    st.booleans(),
)
SOME_TOPICS = st.sets(st.sampled_from(TOPICS), min_size=1, max_size=3) | st.sampled_from(
    [{*MANY}, {*MANY[:WORTH]}, {*TOPICS}]
)


def shown(truth: Authorizer, *, is_hidden: bool) -> Authorizer:
    return Authorizer(CLASS) if is_hidden else truth


def seen(bindings: Collection[AclBinding], truth: Authorizer) -> frozenset[TopicName]:
    """Return the topics that the link may see."""
    return frozenset(
        topic for topic in TOPICS if may(bindings, truth, LINK, HOSTS[0], Operation.DESCRIBE, topic)
    )


def changed(
    before: Collection[AclBinding], rules: frozenset[AclBinding], truth: Authorizer
) -> set[tuple[str, str, Operation]]:
    """Return who may no longer do what, or may now: principal, topic, operation."""
    after = [*before, *rules]
    return {
        (principal, topic, operation)
        for principal in PEOPLE
        for topic in TOPICS
        for operation in (Operation.READ, Operation.WRITE)
        for host in HOSTS
        if may(before, truth, principal, host, operation, topic)
        != may(after, truth, principal, host, operation, topic)
    }


def writers(bindings: Collection[AclBinding], truth: Authorizer, topic: str) -> set[str]:
    return {
        principal
        for principal in PEOPLE
        for host in HOSTS
        if may(bindings, truth, principal, host, Operation.WRITE, topic)
    }


@given(st.lists(RULES, max_size=8), TRUTHS, st.booleans(), SOME_TOPICS, st.booleans())
def test_nobody_but_the_link_can_write_into_mirrors(
    bindings: list[AclBinding],
    truth: Authorizer,
    is_hidden: bool,
    mirrors: set[TopicName],
    has_prefix: bool,
) -> None:
    """Given any rules / when protected / then all others are out or named, nothing else changes."""
    link = Writer(LINK, is_super=LINK in (truth.super_users or ()))
    rights = Rights(bindings, shown(truth, is_hidden=is_hidden), seen(bindings, truth), link)
    deny = protection_of(rights, link, mirrors, ("x.",) if has_prefix else ())
    after = [*bindings, *deny.rules]
    for topic in mirrors:
        others = writers(after, truth, topic) - {LINK} - (truth.super_users or frozenset())
        assert not others or topic in _left(deny), (topic, others, deny)
        assert topic in deny.topics or topic in _left(deny)
    for principal, topic, operation in changed(bindings, deny.rules, truth):
        assert principal != LINK
        assert topic in mirrors
        assert operation is Operation.WRITE
    left = (truth.super_users or frozenset()) - {LINK}
    told = {cannot.why for cannot in deny.cannot}
    assert not left or told & {Why.SUPER_USERS, Why.SUPER_USERS_HIDDEN}


@given(
    st.lists(RULES, max_size=8),
    TRUTHS,
    st.booleans(),
    SOME_TOPICS,
    st.sets(st.sampled_from([*PEOPLE, EVERYBODY]), min_size=1, max_size=2),
)
def test_a_fence_keeps_writers_out_and_readers_in(
    bindings: list[AclBinding],
    truth: Authorizer,
    is_hidden: bool,
    topics: set[TopicName],
    principals: set[str],
) -> None:
    """Given any rules / when fenced / then these write no more there, and read as before."""
    viewer = Writer(LINK, is_super=LINK in (truth.super_users or ()))
    rights = Rights(bindings, shown(truth, is_hidden=is_hidden), seen(bindings, truth), viewer)
    deny = fence_of(rights, principals, topics)
    after = [*bindings, *deny.rules]
    fenced = set(PEOPLE) if EVERYBODY in principals else principals
    for topic in topics:
        inside = writers(after, truth, topic) & fenced - (truth.super_users or frozenset())
        assert not inside or topic in _left(deny), (topic, inside, deny)
    for principal, topic, operation in changed(bindings, deny.rules, truth):
        assert principal in fenced
        assert topic in topics
        assert operation is Operation.WRITE


def _left(deny: DenyRules) -> set[TopicName]:
    return {topic for cannot in deny.cannot for topic in cannot.topics}


KNOWN = Authorizer(CLASS, frozenset({"User:root"}), opens_without_rules=False)
CASES: list[tuple[str, Authorizer, list[AclBinding], bool, set[tuple[str, str]], set[Why]]] = [
    ("one other", KNOWN, [rule(LINK, "a"), rule("User:a", "a")], False, {("User:a", "a")}, set()),
    (
        "by prefix, and by all",
        KNOWN,
        [rule(LINK, "a"), rule("User:a", "a", PatternKind.PREFIXED), rule("User:b", "*")],
        False,
        {("User:a", "a"), ("User:b", "a")},
        set(),
    ),
    ("everybody", KNOWN, [rule(LINK, "a"), rule(EVERYBODY, "a")], False, set(), {Why.EVERYBODY}),
    ("a super user", KNOWN, [rule(EVERYBODY, "a")], True, {(EVERYBODY, "a")}, set()),
    ("no rule", Authorizer(CLASS), [], False, set(), {Why.NO_RULE, Why.SUPER_USERS_HIDDEN}),
    (
        "open to all",
        Authorizer(CLASS, frozenset(), opens_without_rules=True),
        [],
        False,
        set(),
        {Why.OPEN},
    ),
    ("no authorizer", Authorizer(), [rule("User:a", "a")], False, set(), {Why.NO_AUTHORIZER}),
    ("unknown link", KNOWN, [rule("User:a", "a")], False, set(), {Why.NO_RULE_FOR_LINK}),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_what_is_denied_and_what_cannot_be(case: tuple) -> None:
    _, authorizer, bindings, is_super, expected, why = case
    deny = protection_of(Rights(bindings, authorizer), Writer(LINK, is_super), [TopicName("a")])
    assert {(each.rule.principal, each.rule.name) for each in deny.rules} == expected
    assert {each.why for each in deny.cannot} - {Why.SUPER_USERS} == why
    assert all(each.text() for each in deny.cannot)


def test_a_host_is_named_from_which_everybody_may_write() -> None:
    bindings = [rule(LINK, "a"), rule(EVERYBODY, "a", host="10.0.0.1")]
    deny = protection_of(Rights(bindings, KNOWN), Writer(LINK), [TopicName("a")])
    [cannot] = [each for each in deny.cannot if each.why is Why.EVERYBODY]
    assert "from 10.0.0.1" in cannot.text()


def test_a_denial_from_one_host_is_not_enough_and_one_from_all_is() -> None:
    for host, expected in (("10.0.0.1", {"User:a"}), ("*", set())):
        denied = rule("User:a", "a", permission=Permission.DENY, host=host)
        bindings = [rule(LINK, "a"), rule("User:a", "a"), denied]
        deny = protection_of(Rights(bindings, KNOWN), Writer(LINK), [TopicName("a")])
        assert {each.rule.principal for each in deny.rules} == expected


def test_thousands_of_topics_need_few_rules() -> None:
    """Given 3,300 topics that begin alike / when fenced / then one rule, or few."""
    topics = [TopicName(f"efd.{number:04}") for number in range(3300)]
    others = [TopicName("other"), TopicName("efe")]
    bindings = [rule("User:a", "efd", PatternKind.PREFIXED), rule(LINK, "*")]

    def fence() -> DenyRules:
        existing = frozenset([*topics, *others])
        return fence_of(Rights(bindings, KNOWN, existing, Writer(LINK)), [EVERYBODY], topics)

    deny = fence()
    assert [(each.rule.name, each.rule.pattern) for each in deny.rules] == [
        ("efd", PatternKind.PREFIXED)
    ]
    others.append(TopicName("efd.1000x"))
    deny = fence()
    assert len(deny.rules) < 40
    assert not any(
        "efd.1000x".startswith(each.rule.name)
        for each in deny.rules
        if each.rule.pattern is PatternKind.PREFIXED
    )


def test_a_prefix_is_taken_only_where_every_later_topic_has_a_rule() -> None:
    """A rule on a prefix would close later topics that `allow.everyone` opens."""
    topics = [TopicName(f"x.{number}") for number in range(WORTH)]
    allowed = [rule(who, name) for who in (LINK, "User:a") for name in topics]
    hidden = Rights(allowed, Authorizer(CLASS), frozenset(topics), Writer(LINK))
    deny = protection_of(hidden, Writer(LINK), topics, ["x."])
    assert {each.rule.name for each in deny.rules} == set(topics)
    of_a_super_user = replace(hidden, viewer=Writer(LINK, is_super=True))  # sees all there are
    assert not of_a_super_user.may_take("x.")
    assert replace(of_a_super_user, authorizer=KNOWN).may_take("x.")
    assert not replace(hidden, authorizer=KNOWN).may_take("x."), "there may be others, unseen"
    rules = [rule(LINK, "x.", PatternKind.PREFIXED), *allowed]
    wide = Rights(rules, Authorizer(CLASS), frozenset(topics), Writer(LINK))
    deny = protection_of(wide, Writer(LINK), topics, ["x."])
    assert {each.rule.name for each in deny.rules} == {"x."}


@pytest.mark.parametrize(
    ("authorizer", "bindings", "keeps_out"),
    [
        pytest.param(KNOWN, [rule("User:a", "a")], True, id="brokers are super users"),
        pytest.param(Authorizer(CLASS), [rule("User:a", "a")], True, id="hidden super users"),
        pytest.param(Authorizer(CLASS), [], False, id="no rule there"),
        pytest.param(Authorizer(), [rule("User:a", "a")], False, id="no authorizer"),
    ],
)
def test_a_fence_keeps_out_whom_rules_concern(
    authorizer: Authorizer, bindings: list[AclBinding], keeps_out: bool
) -> None:
    deny = fence_of(Rights(bindings, authorizer), [EVERYBODY], [TopicName("a")])
    assert deny.keeps_out([TopicName("a")]) is keeps_out
    assert deny.cannot
    assert not deny.keeps_out([TopicName("a"), TopicName("another")])
