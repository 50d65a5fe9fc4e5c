"""How the replicators connect to the two clusters: plaintext, or TLS with SCRAM.

The benchmark itself fills, clears and polls through the plaintext listener in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat_sandbox import Cluster

USER = "link"
MECHANISM = "SCRAM-SHA-512"


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
    """Return how to connect to a cluster, by SASL_SSL with SCRAM-SHA-512 if `secure`."""
    if not secure:
        return Way(cluster.bootstrap)
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
