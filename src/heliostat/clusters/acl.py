"""Access rights as Kafka writes them (KIP-11, KIP-290): values only, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

EVERYTHING = "*"
"""As the name of a resource with a literal pattern: all of them."""
CLUSTER_NAME = "kafka-cluster"
"""The one name of a cluster as a resource (`Resource.CLUSTER_NAME`)."""


class ResourceKind(Enum):
    """What a right is about (`ResourceType`)."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class PatternKind(Enum):
    """How a resource is named (`PatternType`)."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Operation(Enum):
    """What is allowed (`AclOperation`), as `kafka-acls` spells it."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    CLUSTER_ACTION = "ClusterAction"


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
