"""How the replicators connect to the two clusters: plaintext, or TLS with SCRAM; near or far.

The benchmark itself fills, clears and polls through the plaintext listener in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat_sandbox import Cluster, FarLine

USER = "link"
MECHANISM = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Far:
    """Which cluster is far from the replicators, and how far.

    Parameters
    ----------
    side
        `source`, `target`, or empty: both are near.
    round_trip_ms
        How long its answers take at least.
    """

    side: str = ""
    round_trip_ms: float = 0.0

    def line(self, side: str) -> FarLine | None:
        """Return the line before the brokers of one side."""
        return FarLine(self.round_trip_ms) if side == self.side else None

    def words(self) -> str:
        """Return it as a part of a title."""
        return f", {self.side} {self.round_trip_ms:g} ms away" if self.side else ""


NEAR = Far()


@dataclass(frozen=True, slots=True)
class Way:
    """One cluster as both replicators configure it.

    Parameters
    ----------
    bootstrap
        Address of the listener.
    properties
        Other properties that a Java client of Kafka needs.
    security
        The same as Heliostat's `security` section; empty for a plaintext listener.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)
    security: Mapping[str, Any] = field(default_factory=dict)


def offered() -> Any:
    """Return secured listeners for a cluster to be started."""
    from heliostat_sandbox.security import Mechanism, SandboxSecurity

    return SandboxSecurity(mechanisms=(Mechanism.SCRAM_SHA_512,))


def way(cluster: Cluster, *, secure: bool) -> Way:
    """Return how to connect to a cluster, by SASL_SSL with SCRAM-SHA-512 if `secure`.

    Through its long line if it has one.
    """
    if not secure:
        return Way(cluster.bootstrap_far or cluster.bootstrap)
    from heliostat_sandbox.security import Listener

    own = cluster.credentials
    bootstrap, password = own.bootstraps[Listener.SASL_SSL], own.security.passwords[USER]
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return Way(
        bootstrap,
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{login} required username="{USER}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(own.ca_file),
        },
        {
            "protocol": "SASL_SSL",
            "mechanism": MECHANISM,
            "username": USER,
            "password": {"file": str(own.folder / f"{USER}.password")},
            "ca_file": str(own.ca_file),
        },
    )
