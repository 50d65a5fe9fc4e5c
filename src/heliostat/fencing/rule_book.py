"""Which rules are ours: `heliostat.<link>.rules` at the link's target, compacted.

A row is written before its rule is laid and removed after it was lifted. So whatever dies between
leaves a row, by which anybody can lift that rule; and a rule without a row is somebody else's, and
never removed here. A rule belongs to a cluster, and to what it was laid for: one that two
need stays until both have lifted it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from heliostat.access import Reachable
from heliostat.clusters.acl import (
    AclBinding,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.names import ClusterId, LinkName, TopicName

CLIENT_ID = "heliostat-rules"
PROTECTION = "protect"
"""What rules are for that protect mirrors."""


def rules_topic(link: LinkName) -> str:
    """Name of the topic that holds which rules are the link's."""
    return f"{STATE_TOPIC_PREFIX}{link}.rules"


@dataclass(frozen=True, slots=True)
class Purpose:
    """Where rules were laid, and what for."""

    cluster: ClusterId
    what: str
    """`protect`, or what a verb calls its fence."""


Rows = dict[Purpose, frozenset[AclBinding]]


class RuleMemory(Protocol):
    """Remembers which rules are ours."""

    def rules(self, purpose: Purpose) -> frozenset[AclBinding]:
        """Return those laid for this."""

    def others(self, purpose: Purpose) -> frozenset[AclBinding]:
        """Return those laid for anything else at the same cluster."""

    def note(self, purpose: Purpose, rules: Collection[AclBinding], at_ms: int) -> None:
        """Note rules that are about to be laid; durable when it returns."""

    def forget(self, purpose: Purpose, rules: Collection[AclBinding]) -> None:
        """Forget rules that were lifted, durably."""


class RuleBook:
    """The rows, in memory and at the target. For one thread.

    Every method but `rules` and `others` raises `ConnectionLost` if the target does not answer,
    and `BrokerError` if it refuses.

    Parameters
    ----------
    target
        The cluster that keeps them.
    link
        Name of the link.
    replication_factor
        Of the topic; None: 3, or as many as there are brokers.
    foreign
        Told of records that are not the link's; they are ignored.
    """

    def __init__(
        self,
        target: Reachable,
        link: LinkName,
        replication_factor: int | None = None,
        foreign: ForeignRecords | None = None,
    ) -> None:
        own = OwnRows((), foreign or ForeignRecords())
        self._foreign = own.foreign
        self._topic = KeyedTopic(target, rules_topic(link), CLIENT_ID, own)
        self._replication_factor = replication_factor
        self._is_there = False
        self.rows: Rows = {}

    @property
    def topic(self) -> TopicName:
        """The topic's name."""
        return self._topic.topic

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def ensure(self) -> None:
        """Create the topic if this book has not seen it."""
        if not self._is_there:
            self._topic.ensure(self._replication_factor)
            self._is_there = True

    def read(self) -> None:
        """Read all rows; none if the topic does not exist."""
        rows: dict[Purpose, set[AclBinding]] = {}
        for key in self._topic.read_all():
            try:
                purpose, rule = of_key(key)
            except NOT_A_ROW as error:
                self._foreign.note(self._topic.topic, None, key, error)
                continue
            rows.setdefault(purpose, set()).add(rule)
        self.rows = {purpose: frozenset(rules) for purpose, rules in rows.items()}

    def rules(self, purpose: Purpose) -> frozenset[AclBinding]:
        """Return the rules laid for this."""
        return self.rows.get(purpose, frozenset())

    def now_at(self, cluster: ClusterId) -> frozenset[AclBinding]:
        """Read and return all rules of ours at a cluster: who follows rules leaves them out."""
        self.read()
        return frozenset().union(
            *(rules for purpose, rules in self.rows.items() if purpose.cluster == cluster)
        )

    def others(self, purpose: Purpose) -> frozenset[AclBinding]:
        """Return the rules laid for anything else at the same cluster."""
        return frozenset().union(
            *(
                rules
                for other, rules in self.rows.items()
                if other != purpose and other.cluster == purpose.cluster
            )
        )

    def note(self, purpose: Purpose, rules: Collection[AclBinding], at_ms: int) -> None:
        """Note rules that are about to be laid."""
        if rules:
            self.ensure()
            self._write(purpose, rules, {"at_ms": at_ms})
            self.rows[purpose] = self.rules(purpose) | frozenset(rules)

    def forget(self, purpose: Purpose, rules: Collection[AclBinding]) -> None:
        """Forget rules that were lifted."""
        if rules:
            self._write(purpose, rules, None)
            self.rows[purpose] = self.rules(purpose) - frozenset(rules)

    def _write(
        self, purpose: Purpose, rules: Collection[AclBinding], value: Mapping[str, Any] | None
    ) -> None:
        self._topic.write_many({key_of(purpose, rule): value for rule in rules})


def key_of(purpose: Purpose, rule: AclBinding) -> str:
    """Return a row's key."""
    right = rule.rule
    return json.dumps(
        [
            *(purpose.cluster, purpose.what, right.principal, rule.host),
            *(right.operation.name, rule.permission.name, right.kind.name),
            *(right.name, right.pattern.name),
        ]
    )


def of_key(key: str) -> tuple[Purpose, AclBinding]:
    """Read a row's key.

    Raises
    ------
    ValueError, KeyError, TypeError
        It is none of ours.
    """
    cluster, what, principal, host, operation, permission, kind, name, pattern = json.loads(key)
    for text in (cluster, what, principal, host, name):
        if not isinstance(text, str):
            raise TypeError("no text")
    rule = AclRule(principal, Operation[operation], ResourceKind[kind], name, PatternKind[pattern])
    return Purpose(ClusterId(cluster), what), AclBinding(rule, Permission[permission], host)
