"""Access rights in Kafka's terms (KIP-11, KIP-290): values only, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from typing_extensions import override

EVERYTHING = "*"
"""As a resource's name with a literal pattern: all resources."""
ANY_HOST = "*"
"""As a binding's host: all hosts."""
EVERYBODY = "User:*"
"""As a principal: every user, also one without a name (`User:ANONYMOUS`)."""
CLUSTER_NAME = "kafka-cluster"
"""The only name of the cluster resource (`Resource.CLUSTER_NAME`)."""


class ResourceKind(Enum):
    """The kind of resource that a right is for (`ResourceType`)."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105  # no secret
    USER = "user"
    UNKNOWN = "unknown"
    """One that a newer cluster has: listed, never made or deleted."""


class PatternKind(Enum):
    """How a name selects resources (`PatternType`)."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    UNKNOWN = "unknown"


class Operation(Enum):
    """The operation that is allowed or denied (`AclOperation`), as `kafka-acls` spells it."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"
    TWO_PHASE_COMMIT = "TwoPhaseCommit"
    UNKNOWN = "unknown"


class Permission(Enum):
    """What a binding does (`AclPermissionType`); a denial wins over everything that allows."""

    ALLOW = "Allow"
    DENY = "Deny"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=False)
class AclRule:
    """One right of one principal, from any host.

    Parameters
    ----------
    principal
        With its type, such as `User:heliostat`.
    """

    principal: str
    operation: Operation
    kind: ResourceKind
    name: str = EVERYTHING
    pattern: PatternKind = PatternKind.LITERAL


@dataclass(frozen=True, slots=True)
class AclBinding:
    """A rule as a cluster keeps it (`AclBinding`): allowed or denied, from a host or any."""

    rule: AclRule
    permission: Permission = Permission.ALLOW
    host: str = ANY_HOST

    @property
    def is_whole(self) -> bool:
        """Whether we know all its parts: only such a one can be made, or deleted by its parts."""
        rule = self.rule
        unknown = (
            ResourceKind.UNKNOWN,
            PatternKind.UNKNOWN,
            Operation.UNKNOWN,
            Permission.UNKNOWN,
        )
        parts = (rule.kind, rule.pattern, rule.operation, self.permission)
        return not any(part in unknown for part in parts)

    @property
    def sort_key(self) -> tuple[str, ...]:
        """For a stable order: by resource, then principal."""
        rule = self.rule
        return (
            rule.kind.value,
            rule.name,
            rule.pattern.value,
            rule.principal,
            self.host,
            self.permission.value,
            rule.operation.value,
        )

    @override
    def __str__(self) -> str:
        """Text for people: `Allow User:a Read on topic x`."""
        rule = self.rule
        prefixed = " prefixed" if rule.pattern is PatternKind.PREFIXED else ""
        host = "" if self.host == ANY_HOST else f" from {self.host}"
        return (
            f"{self.permission.value} {rule.principal} {rule.operation.value} on"
            f"{prefixed} {rule.kind.value} {rule.name}{host}"
        )


@dataclass(frozen=True, slots=True)
class AclListing:
    """The bindings that a broker answers with, as far as it shows them to us.

    Parameters
    ----------
    has_authorizer
        Whether the cluster checks rights at all; else there are no bindings.
    """

    bindings: frozenset[AclBinding] = frozenset()
    has_authorizer: bool = True
