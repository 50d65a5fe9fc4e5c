"""Access rights in Kafka's terms (KIP-11, KIP-290): values only, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

EVERYTHING = "*"
"""As a resource's name with a literal pattern: all resources."""
CLUSTER_NAME = "kafka-cluster"
"""The only name of the cluster resource (`Resource.CLUSTER_NAME`)."""


class ResourceKind(Enum):
    """The kind of resource that a right is for (`ResourceType`)."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class PatternKind(Enum):
    """How a name selects resources (`PatternType`)."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Operation(Enum):
    """The allowed operation (`AclOperation`), as `kafka-acls` spells it."""

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
