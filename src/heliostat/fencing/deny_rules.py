"""Which rules keep whom from writing where, and whom none can; pure.

A rule that denies wins over every rule that allows, the link's own too. So mirrors are protected by
a rule for each other principal that may write there, and by one for everybody only where no rule
concerns the link. Where no rule is at all, none is laid: the first one ends
`allow.everyone.if.no.acl.found` for that topic, for readers as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from heliostat.clusters.acl import (
    ANY_HOST,
    EVERYBODY,
    AclBinding,
    AclRule,
    Operation,
    Permission,
    ResourceKind,
)
from heliostat.fencing.authorizer import Authorizer
from heliostat.fencing.cannot import ABOUT_SUPER_USERS, Cannot, Why, gathered
from heliostat.fencing.patterns import TopicPattern, patterns_for, shared_prefixes
from heliostat.fencing.rule_index import RuleIndex
from heliostat.names import TopicName

Problem = tuple[Why, str, TopicName]
_SEEING = frozenset(
    {
        *(Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
        *(Operation.DESCRIBE, Operation.ALL),
    }
)
"""Operations that imply Describe (`StandardAuthorizerData.IMPLIES_DESCRIBE`)."""
PrefixesOf = Callable[[Collection[TopicName]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class DenyRules:
    """Rules to lay, and what they leave open."""

    rules: frozenset[AclBinding] = frozenset()
    cannot: tuple[Cannot, ...] = ()
    topics: frozenset[TopicName] = frozenset()
    """Topics where nobody is left who may write but the link and super users."""

    def keeps_out(self, topics: Collection[TopicName]) -> bool:
        """Return whether these rules keep all out of topics but super users, if any."""
        return self.topics >= set(topics) and all(
            problem.why in ABOUT_SUPER_USERS for problem in self.cannot
        )


@dataclass(frozen=True, slots=True)
class Writer:
    """Who goes on writing: the link, as brokers name it.

    Parameters
    ----------
    principal
        With its type.
    is_super
        Whether no rule concerns it.
    """

    principal: str
    is_super: bool = False


@dataclass(frozen=True, slots=True)
class Rights:
    """What is known of a cluster's rights.

    Parameters
    ----------
    bindings
        All rules but our own.
    authorizer
        How brokers decide.
    existing
        All topics that the link may see: a prefix means none but those asked for.
    viewer
        Who sees them; None: nobody knows what is hidden, so no prefix is used.
    """

    bindings: Collection[AclBinding]
    authorizer: Authorizer
    existing: frozenset[TopicName] = frozenset()
    viewer: Writer | None = None
    index: RuleIndex = field(init=False)
    hiding: frozenset[str] = field(init=False)
    """Principals from whom a rule hides some topics."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", RuleIndex(self.bindings))
        hiding = frozenset(
            binding.rule.principal
            for binding in self.bindings
            if binding.permission is Permission.DENY
            and binding.rule.operation in (Operation.DESCRIBE, Operation.ALL)
        )
        object.__setattr__(self, "hiding", hiding)

    def no_rule(self, topic: TopicName) -> Why | None:
        """Return why a rule must not be laid on a topic because it has none; None: it may."""
        if self.authorizer.opens_without_rules is False or self.index.of(topic):
            return None
        return Why.OPEN if self.authorizer.opens_without_rules else Why.NO_RULE

    def may_take(self, prefix: str) -> bool:
        """Return whether a rule on a prefix concerns nothing unseen, and closes no later topic."""
        rules = self.index.of_all_under(prefix)
        is_closed = self.authorizer.opens_without_rules is False
        return (is_closed or bool(rules)) and self._sees(rules)

    def _sees(self, rules: Collection[AclBinding]) -> bool:
        """Return whether the viewer sees all topics that these rules concern."""
        if self.viewer is None or self.viewer.is_super:
            return self.viewer is not None
        names = (self.viewer.principal, EVERYBODY)
        if self.hiding & set(names):
            return False
        return any(
            binding.permission is Permission.ALLOW
            and binding.rule.principal in names
            and binding.host == ANY_HOST
            and binding.rule.operation in _SEEING
            for binding in rules
        )

    def super_users(self, but: str = "") -> tuple[Cannot, ...]:
        """Return that no rule holds for super users, if there are some."""
        users = self.authorizer.super_users
        if users is None:
            return (Cannot(Why.SUPER_USERS_HIDDEN),)
        others = sorted(users - {but})
        return (Cannot(Why.SUPER_USERS, ", ".join(others)),) if others else ()


def protection_of(
    rights: Rights, link: Writer, mirrors: Collection[TopicName], prefixes: Iterable[str] = ()
) -> DenyRules:
    """Return the rules that let nobody but the link write into its mirrors.

    Parameters
    ----------
    prefixes
        How all mirrors begin, such as a naming's prefix; used where nothing else begins so.
    """
    if not rights.authorizer.is_there:
        return DenyRules(cannot=(Cannot(Why.NO_AUTHORIZER),))
    denied = defaultdict[str, set[TopicName]](set)
    problems: list[Problem] = []
    for topic in sorted(mirrors):
        why = rights.no_rule(topic)
        if why is not None:
            problems.append((why, "", topic))
        elif link.is_super:
            denied[EVERYBODY].add(topic)
        else:
            problems += _excepted(rights, link, topic, denied)
    others = rights.existing - set(mirrors)
    rules = frozenset(_rules(rights, denied, others, lambda _: prefixes))
    left = {topic for _, _, topic in problems}
    cannot = (*gathered(problems), *rights.super_users(link.principal))
    return DenyRules(rules, cannot, frozenset(mirrors) - left)


def _excepted(
    rights: Rights, link: Writer, topic: TopicName, denied: dict[str, set[TopicName]]
) -> Iterator[Problem]:
    """Note who is to be denied on a topic; yield what can't be."""
    writers = rights.index.writers(topic)
    if EVERYBODY not in writers and link.principal not in writers:
        yield Why.NO_RULE_FOR_LINK, link.principal, topic
        return
    for principal, rule in writers.items():
        if principal == EVERYBODY:
            host = "" if rule.host == ANY_HOST else f" from {rule.host}"
            yield Why.EVERYBODY, f"{EVERYBODY}{host}", topic
        elif (
            principal != link.principal
            and principal not in (rights.authorizer.super_users or ())
            and not rights.index.is_denied(topic, principal)
        ):
            denied[principal].add(topic)


def fence_of(
    rights: Rights, principals: Collection[str], topics: Collection[TopicName]
) -> DenyRules:
    """Return the rules that keep principals (or `EVERYBODY`) from writing into topics.

    Only writing is denied: whoever reads goes on.
    """
    if not rights.authorizer.is_there:
        return DenyRules(cannot=(Cannot(Why.NO_AUTHORIZER),))
    denied = defaultdict[str, set[TopicName]](set)
    problems: list[Problem] = []
    for topic in sorted(topics):
        why = rights.no_rule(topic)
        if why is not None:
            problems.append((why, "", topic))
            continue
        for principal in principals:
            if not rights.index.is_denied(topic, principal):
                denied[principal].add(topic)
    others = rights.existing - set(topics)
    rules = _rules(rights, denied, others, lambda some: shared_prefixes(some, others))
    concerned = (rights.super_users() if EVERYBODY in principals else ()) or tuple(
        Cannot(Why.SUPER_USERS, user)
        for user in sorted(set(principals) & (rights.authorizer.super_users or frozenset()))
    )
    left = {topic for _, _, topic in problems}
    return DenyRules(frozenset(rules), (*gathered(problems), *concerned), frozenset(topics) - left)


def _rules(
    rights: Rights,
    denied: Mapping[str, set[TopicName]],
    others: frozenset[TopicName],
    prefixes: PrefixesOf,
) -> Iterator[AclBinding]:
    for principal, topics in denied.items():
        for pattern in patterns_for(topics, others, prefixes(topics), rights.may_take):
            yield deny_write(principal, pattern)


def deny_write(principal: str, pattern: TopicPattern) -> AclBinding:
    """Return the rule that denies a principal to write, from every host."""
    rule = AclRule(principal, Operation.WRITE, ResourceKind.TOPIC, pattern.name, pattern.kind)
    return AclBinding(rule, Permission.DENY)
