"""Versions of Kafka that a sandbox runs, and in what they differ for it."""

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
"""With ZooKeeper: its early KRaft hands out no producer ids and grows no topics."""


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """One version.

    Parameters
    ----------
    name
        Its number.
    jars
        Its set in the lock file.
    authorizer
        Class that looks at rights.
    has_zookeeper
        Whether brokers need a ZooKeeper.
    has_signed_tokens
        Whether OAUTHBEARER takes signed tokens (KIP-768, Kafka 3.1).
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
    """The version of that name.

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
