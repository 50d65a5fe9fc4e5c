"""Which ACLs the target should have for those of the source: pure.

A mirror must not be written by anybody but its link, so `Write` on it is kept ready instead of
granted, and `All` is granted as all operations but that. Denials are copied as they are, except
those that would deny the link its own work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from heliostat.clusters.acl import (
    EVERYBODY,
    AclBinding,
    AclRule,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.config.access import NameRule
from heliostat.names import TopicName
from heliostat.security.names import Pattern, ResourceNames, renamed

ALL_BUT_WRITE = (
    Operation.READ,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""What `All` on a topic is, without `Write`."""
NO_PATTERN = "no pattern of Kafka's selects the names that it has at the target"
DENIES_US = "it would deny the link its own work"
KEPT_READY = "Write on mirrors is granted when they are promoted"


@dataclass(frozen=True, slots=True)
class AclRules:
    """How a link follows ACLs.

    Parameters
    ----------
    topics, groups
        Selection and names.
    principals
        What principals are at the target.
    own
        The link's own principals at the target.
    """

    topics: ResourceNames
    groups: ResourceNames
    principals: tuple[NameRule, ...] = ()
    own: frozenset[str] = frozenset()

    def names_of(self, kind: ResourceKind) -> ResourceNames | None:
        """Names of a kind; None for kinds that are not followed."""
        if kind is ResourceKind.TRANSACTIONAL_ID:
            return ResourceNames("${id}", "${id}")
        return {ResourceKind.TOPIC: self.topics, ResourceKind.GROUP: self.groups}.get(kind)


@dataclass(slots=True)
class WantedAcls:
    """Bindings that the target should have, each with those of the source that want it."""

    granted: dict[AclBinding, list[AclBinding]] = field(default_factory=dict)
    held: dict[AclBinding, list[AclBinding]] = field(default_factory=dict)
    """Kept ready until the topics are promoted."""
    refused: dict[AclBinding, str] = field(default_factory=dict)
    """Bindings of the source that have no like at the target, with the reason."""

    def only_for(self, everything: AclBinding) -> list[AclBinding]:
        """What is granted only in place of a held `All`: it goes when that is granted."""
        wanting = self.held[everything]
        return [
            binding
            for binding in parts_of_all(everything)
            if set(self.granted.get(binding, ())) <= set(wanting) and binding in self.granted
        ]


def pattern_of(binding: AclBinding) -> Pattern:
    """Which resources of its kind a binding is for."""
    return Pattern(binding.rule.name, binding.rule.pattern)


def parts_of_all(binding: AclBinding) -> list[AclBinding]:
    """The bindings that together allow what `All` on a topic does, but for `Write`."""
    return [
        replace(binding, rule=replace(binding.rule, operation=operation))
        for operation in ALL_BUT_WRITE
    ]


def wanted_acls(
    source: Iterable[AclBinding], rules: AclRules, topics: Iterable[TopicName]
) -> WantedAcls:
    """Return what the target should have.

    Parameters
    ----------
    topics
        The source's topics that the link selects, and those that it has mirrored: a pattern that
        is for none of them does not concern the link.
    """
    wanted, selected = WantedAcls(), frozenset(topics)
    for binding in sorted(source, key=lambda acl: acl.sort_key):
        names = rules.names_of(binding.rule.kind)
        if names is None or not binding.is_whole or not _concerns(binding, names, selected):
            continue
        principal = renamed(binding.rule.principal, rules.principals)
        if principal is None:
            continue
        pattern = names.target_pattern(pattern_of(binding))
        if pattern is None:
            wanted.refused[binding] = NO_PATTERN
            continue
        rule = AclRule(
            principal, binding.rule.operation, binding.rule.kind, pattern.name, pattern.kind
        )
        for part, is_held in _as_parts(replace(binding, rule=rule), rules.own):
            if is_held is None:
                wanted.refused[binding] = DENIES_US
            else:
                into = wanted.held if is_held else wanted.granted
                into.setdefault(part, []).append(binding)
    return wanted


def _concerns(binding: AclBinding, names: ResourceNames, topics: frozenset[TopicName]) -> bool:
    pattern = pattern_of(binding)
    if pattern.name.startswith(STATE_TOPIC_PREFIX):
        return False  # rights of links, on what is their own
    if pattern.kind is PatternKind.LITERAL and not pattern.is_everything:
        return names.selects(pattern.name)
    if binding.rule.kind is not ResourceKind.TOPIC:
        return True
    return any(pattern.covers(topic) for topic in topics)


def _as_parts(binding: AclBinding, own: frozenset[str]) -> Iterator[tuple[AclBinding, bool | None]]:
    """Yield what is granted (False), kept ready (True) or refused (None) for one binding."""
    is_topic = binding.rule.kind is ResourceKind.TOPIC
    if binding.permission is Permission.DENY:
        hits_us = binding.rule.principal in own | {EVERYBODY}
        yield binding, (True if is_topic else None) if hits_us else False
        return
    operation = binding.rule.operation
    yield binding, is_topic and operation in {Operation.WRITE, Operation.ALL}
    if is_topic and operation is Operation.ALL:
        for part in parts_of_all(binding):
            yield part, False
