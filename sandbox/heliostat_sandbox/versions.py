"""Kafka versions that a sandbox runs, and their differences that matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from heliostat.errors import SandboxError
from heliostat_sandbox.jars import KAFKA

KAFKA_4_3 = "4.3.0"
KAFKA_3_9 = "3.9.1"
"""The last line of 3.x; with KRaft here."""
KAFKA_2_8 = "2.8.2"
"""With ZooKeeper: its early KRaft has no producer ids and can't add partitions."""


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """One version of Kafka.

    Parameters
    ----------
    name
        Version number.
    jars
        Name of its set in the lock file.
    authorizer
        Class that checks ACLs.
    has_zookeeper
        Whether brokers need a ZooKeeper.
    has_signed_tokens
        Whether OAUTHBEARER accepts signed tokens (KIP-768, Kafka 3.1).
    """

    name: str
    jars: str
    authorizer: str
    has_zookeeper: bool = False
    has_signed_tokens: bool = True


_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

VERSIONS: Mapping[str, KafkaVersion] = MappingProxyType(
    {
        KAFKA_4_3: KafkaVersion(KAFKA_4_3, KAFKA, _STANDARD),
        KAFKA_3_9: KafkaVersion(KAFKA_3_9, f"kafka-{KAFKA_3_9}", _STANDARD),
        KAFKA_2_8: KafkaVersion(
            KAFKA_2_8,
            f"kafka-{KAFKA_2_8}",
            "kafka.security.authorizer.AclAuthorizer",
            has_zookeeper=True,
            has_signed_tokens=False,
        ),
    }
)


def kafka_version(name: str) -> KafkaVersion:
    """Return the version of that name.

    Raises
    ------
    SandboxError
        The sandbox does not know it.
    """
    if name not in VERSIONS:
        raise SandboxError(
            "the sandbox has no such version of Kafka", version=name, known=list(VERSIONS)
        )
    return VERSIONS[name]
