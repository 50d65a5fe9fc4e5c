"""Which rules concern a topic, for thousands of topics and rules; pure.

As `StandardAuthorizer` finds them: literal rules of its name, those of `*`, and prefixed ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from heliostat.clusters.acl import (
    ANY_HOST,
    EVERYBODY,
    EVERYTHING,
    AclBinding,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)
from heliostat.names import TopicName

WRITING = frozenset({Operation.WRITE, Operation.ALL})
"""Operations of rules that let somebody append, or deny it."""


class RuleIndex:
    """The rules of a cluster's topics.

    Parameters
    ----------
    bindings
        All rules; those of other resources are left out.
    """

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        self._literal = defaultdict[str, list[AclBinding]](list)
        self._prefixed = defaultdict[str, list[AclBinding]](list)
        for binding in bindings:
            if binding.rule.kind is ResourceKind.TOPIC:
                is_prefixed = binding.rule.pattern is PatternKind.PREFIXED
                (self._prefixed if is_prefixed else self._literal)[binding.rule.name].append(
                    binding
                )
        self._lengths = sorted({len(prefix) for prefix in self._prefixed})

    def of(self, topic: TopicName) -> list[AclBinding]:
        """Return all rules that concern a topic, whatever they say."""
        return [*self._literal.get(topic, ()), *self.of_all_under(topic)]

    def of_all_under(self, prefix: str) -> list[AclBinding]:
        """Return the rules that concern every topic whose name begins so."""
        rules = list(self._literal.get(EVERYTHING, ()))
        for length in self._lengths:
            if length <= len(prefix):
                rules += self._prefixed.get(prefix[:length], ())
        return rules

    def writers(self, topic: TopicName) -> dict[str, AclBinding]:
        """Return who is allowed to write there by a rule, with one such rule each."""
        return {
            binding.rule.principal: binding
            for binding in self.of(topic)
            if binding.permission is Permission.ALLOW and binding.rule.operation in WRITING
        }

    def is_denied(self, topic: TopicName, principal: str) -> bool:
        """Return whether a rule denies this principal to write there, from every host."""
        return any(
            binding.permission is Permission.DENY
            and binding.rule.operation in WRITING
            and binding.host == ANY_HOST
            and binding.rule.principal in (principal, EVERYBODY)
            for binding in self.of(topic)
        )
