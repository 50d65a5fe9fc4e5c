"""Rules that protect a link's mirrors, kept in step with mirrors and others' rights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from heliostat.clock import Clock
from heliostat.clusters.acl import AclBinding, AclRule, PatternKind
from heliostat.clusters.kafka_codes import CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing.authorizer import Authorizer
from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.deny_rules import DenyRules, Rights, Writer, deny_write, protection_of
from heliostat.fencing.fence import Fence, Rules, Standing
from heliostat.fencing.patterns import TopicPattern
from heliostat.fencing.rule_book import PROTECTION, Purpose, RuleMemory
from heliostat.names import BrokerId, ClusterId, TopicName

SHOWN_CANNOT = 20
"""Most reasons in a report."""


class RightsAsked(Rules, Protocol):
    """What is asked of the cluster that is protected."""

    def all_rules(self) -> Mapping[BrokerId, frozenset[AclBinding] | HeliostatError]:
        """Return all rules of topics, as each broker shows them."""

    def authorizer(self) -> Authorizer:
        """Return how brokers decide."""

    def topics(self) -> frozenset[TopicName]:
        """Return all topics that we may see."""


@dataclass(frozen=True, slots=True)
class Protection:
    """How mirrors are protected now."""

    mirrors: int = 0
    protected: int = 0
    """Mirrors into which nobody may write but the link, and super users."""
    rules: int = 0
    """Rules of ours."""
    laid: tuple[str, ...] = ()
    """What was laid now, in words."""
    lifted: int = 0
    """How many rules were lifted now."""
    cannot: tuple[Cannot, ...] = ()
    behind: str = ""
    """Which brokers do not show a rule yet; empty: all do."""

    def report(self, at_ms: int) -> dict[str, Any]:
        """Return it for the driver's report."""
        return {
            "at_ms": at_ms,
            "mirrors": self.mirrors,
            "protected": self.protected,
            "rules": self.rules,
            "cannot": [problem.to_json() for problem in self.cannot[:SHOWN_CANNOT]],
            "cannot_count": len(self.cannot),
            "behind": self.behind,
        }

    def lines(self) -> list[str]:
        """Return lines for people, the first with the count."""
        return [
            f"{self.protected} of {self.mirrors} mirrors protected, by {self.rules} rules",
            *(f"can't be protected: {problem.text()}" for problem in self.cannot),
            *([self.behind] if self.behind else ()),
        ]


@dataclass(slots=True)
class ProtectionKeeper:
    """Lays, keeps and lifts the rules that protect a link's mirrors. For one thread.

    Every method raises `ConnectionLost` if the cluster does not answer, and `BrokerError` if it
    refuses what it should allow; the next call starts over.

    Parameters
    ----------
    cluster
        Requests to the target.
    cluster_id
        The target's id.
    memory
        Remembers which rules are ours.
    who
        Finds out who the link is to the brokers; asked once.
    prefixes
        How all mirrors begin.
    clock
        For time limits.
    """

    cluster: RightsAsked
    cluster_id: ClusterId
    memory: RuleMemory
    who: Callable[[], Writer | None]
    prefixes: tuple[str, ...]
    clock: Clock
    _writer: list[Writer | None] = field(default_factory=list)

    def step(self, mirrors: Collection[TopicName]) -> Protection:
        """Bring the rules in step with these mirrors."""
        fence = self._fence()
        views = self.cluster.all_rules()
        shown, problem = shown_by_any(views)
        if problem is not None:
            return Protection(len(mirrors), 0, len(fence.laid), cannot=(problem,))
        try:
            if not self._writer:
                self._writer.append(self.who())
        except BrokerError as error:
            if error.kafka_code != CLUSTER_AUTHORIZATION_FAILED:
                raise
            why = Cannot(Why.MAY_NOT_CHANGE)
            return Protection(len(mirrors), 0, len(fence.laid), cannot=(why,))
        deny = self._wanted(shown - self._ours(fence), mirrors)
        is_sure = deny is not None and not any(
            isinstance(view, HeliostatError) for view in views.values()
        )
        wanted = fence.laid if deny is None else deny.rules
        obsolete = fence.laid if deny is None else fence.laid - deny.rules
        if not is_sure:  # a broker that is silent may know why they are needed
            obsolete -= _covering(obsolete, mirrors)
        new = wanted - fence.laid
        # A broker that still shows what was lifted hides that it must be laid again.
        stand = frozenset.intersection(*(v for v in views.values() if isinstance(v, frozenset)))
        up = fence.put_up(wanted - obsolete if new or wanted - stand else ())
        down = fence.take_down(obsolete) if obsolete else Standing()
        return Protection(
            len(mirrors),
            0 if deny is None else len(deny.topics),
            len(fence.laid),
            laid=tuple(sorted(told(new))),
            lifted=len(obsolete),
            cannot=(Cannot(Why.WHO_WE_ARE),) if deny is None else deny.cannot,
            behind="; ".join(standing.text() for standing in (up, down) if standing.missing),
        )

    def lift_all(self) -> Standing:
        """Lift all rules that protect mirrors."""
        return self._fence().take_down()

    def _fence(self) -> Fence:
        purpose = Purpose(self.cluster_id, PROTECTION)
        return Fence(self.cluster, self.memory, purpose, self.clock)

    def _ours(self, fence: Fence) -> frozenset[AclBinding]:
        return fence.laid | self.memory.others(Purpose(self.cluster_id, PROTECTION))

    def _wanted(
        self, bindings: frozenset[AclBinding], mirrors: Collection[TopicName]
    ) -> DenyRules | None:
        """Return the rules that are wanted; None: it is not known who the link is."""
        [writer] = self._writer
        if writer is None:
            return None
        rights = Rights(bindings, self.cluster.authorizer(), self.cluster.topics(), writer)
        return protection_of(rights, writer, mirrors, self.prefixes)


def shown_by_any(
    views: Mapping[BrokerId, frozenset[AclBinding] | HeliostatError],
) -> tuple[frozenset[AclBinding], Cannot | None]:
    """Return the rules that any broker shows; or why none does.

    Raises
    ------
    HeliostatError
        No broker answers, or they refuse for another reason than rights.
    """
    shown = [view for view in views.values() if not isinstance(view, HeliostatError)]
    if shown:
        return frozenset().union(*shown), None
    for view in views.values():
        code = view.kafka_code if isinstance(view, BrokerError) else None
        if code == SECURITY_DISABLED:
            return frozenset(), Cannot(Why.NO_AUTHORIZER)
        if code == CLUSTER_AUTHORIZATION_FAILED:
            return frozenset(), Cannot(Why.MAY_NOT_SEE)
    for view in views.values():
        if isinstance(view, HeliostatError):
            raise view
    raise ConnectionLost("no broker says which rules there are")


def _covering(rules: Iterable[AclBinding], topics: Collection[TopicName]) -> frozenset[AclBinding]:
    """Return those of the rules that concern one of these topics."""
    names = set(topics)

    def concerns(rule: AclRule) -> bool:
        is_prefix = rule.pattern is PatternKind.PREFIXED
        return rule.name in names or (
            is_prefix and any(name.startswith(rule.name) for name in names)
        )

    return frozenset(binding for binding in rules if concerns(binding.rule))


def told(rules: Iterable[AclBinding]) -> list[str]:
    """Return rules as words, one line for each principal."""
    by: dict[str, int] = {}
    for rule in rules:
        by[rule.rule.principal] = by.get(rule.rule.principal, 0) + 1
    return [f"{who} may not write any more ({count} rules)" for who, count in by.items()]


def unprotect(
    fence: Fence, topics: Collection[TopicName], others: Collection[TopicName]
) -> Standing:
    """Lift what protects these topics, and wait until no broker shows it: they are promoted.

    Needs no owner, and may be called again. Rules on a prefix make room for one rule each on those
    of `others`, the mirrors that stay.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses: some may still be protected.
    """
    lifted = _covering(fence.laid, topics)
    left = set(others) - set(topics)
    standing = fence.put_up(
        [
            deny_write(rule.rule.principal, TopicPattern(topic))
            for rule in lifted
            if rule.rule.pattern is PatternKind.PREFIXED
            for topic in sorted(left)
            if topic.startswith(rule.rule.name)
        ]
    )
    if standing.missing:
        return standing
    return fence.take_down(lifted) if lifted else Standing()
