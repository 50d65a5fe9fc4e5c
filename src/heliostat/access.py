"""How clusters and registries are reached: where they and the secrets are, never the secrets.

These values travel in Spark's jobs, are printed and compared. A secret is named by its file or its
environment variable and read when a connection is dialed, in the process that dials
(`heliostat.clusters.credentials`), so that no value can land in a job, a log or a state topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from heliostat.names import Endpoint

ProtocolName: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
MechanismName: TypeAlias = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"
]


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Where a secret is: exactly one of a file and an environment variable."""

    file: str = ""
    env: str = ""

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.env):
            raise ValueError("a secret is named by its file or by an environment variable")


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where OAUTHBEARER tokens come from (client credentials grant, RFC 6749 section 4.4)."""

    url: str
    client_id: str
    client_secret: SecretRef
    scope: str = ""
    ca_file: str = ""
    """Certificate authorities for an `https` endpoint; empty: those that the machine trusts."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """Our identity at a broker: user and password, a token, or credentials of AWS."""

    mechanism: MechanismName
    username: str = ""
    password: SecretRef | None = None
    token: SecretRef | None = None
    """OAUTHBEARER: a ready token, read again for each connection."""
    token_endpoint: TokenEndpoint | None = None
    aws_region: str = ""
    """AWS_MSK_IAM: the cluster's region; empty: as the brokers' names say."""
    aws_profile: str = ""
    """AWS_MSK_IAM: a profile of AWS's own files; empty: the default chain of credentials."""


@dataclass(frozen=True, slots=True)
class Security:
    """A listener's protocol and our credentials for it; files are named, not read."""

    protocol: ProtocolName = "PLAINTEXT"
    ca_file: str = ""
    """Authorities that sign brokers' certificates; empty: those that the machine trusts."""
    certificate_file: str = ""
    """Our own certificate, for mutual TLS."""
    key_file: str = ""
    key_password: SecretRef | None = None
    verify_hostname: bool = True
    sasl: Sasl | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol in ("SSL", "SASL_SSL")


PLAINTEXT = Security()


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How clients connect to a cluster.

    Parameters
    ----------
    bootstrap
        Addresses `host:port` of some brokers; the others are learned from them.
    security
        Protocol and credentials, by reference.
    alias
        The cluster's name in the configuration, for messages; empty if it has none.
    """

    bootstrap: tuple[str, ...]
    security: Security = PLAINTEXT
    alias: str = field(default="", compare=False)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The bootstrap addresses as hosts and ports, IPv6 without its brackets."""
        return tuple(parse_endpoint(address) for address in self.bootstrap)

    @property
    def addresses(self) -> str:
        """The bootstrap addresses as one text, for messages."""
        return ",".join(self.bootstrap)

    @property
    def described(self) -> str:
        """Alias and addresses, for messages."""
        return f"{self.alias} ({self.addresses})" if self.alias else self.addresses


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How a schema registry is reached; secrets by reference, as for clusters.

    Parameters
    ----------
    urls
        Addresses of its nodes, each with the API's path (`https://registry:8081`,
        `http://localhost:8080/apis/ccompat/v7`): if one fails, the next is asked.
    username, password
        Basic authentication.
    token, token_endpoint
        Bearer authentication: a ready token, or where tokens are issued.
    security
        For `https`: authorities, our own certificate, and its key.
    alias
        The registry's name for messages; empty if it has none.

    Raises
    ------
    ValueError
        An address is none, or holds a secret; or there are two ways to authenticate.
    """

    urls: tuple[str, ...]
    username: str = ""
    password: SecretRef | None = None
    token: SecretRef | None = None
    token_endpoint: TokenEndpoint | None = None
    security: Security = Security("SSL")
    alias: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("a registry needs an address")
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("a registry's address begins with http:// or https:// and a host")
            if parts.username is not None or parts.password is not None:
                raise ValueError("a registry's address has no user and password: they are secrets")
            if parts.query or parts.fragment:
                raise ValueError("a registry's address ends with its path")
        ways = (self.password, self.token, self.token_endpoint)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("a registry takes one of password, token and token_endpoint")
        if bool(self.username) != (self.password is not None):
            raise ValueError("user and password belong together")

    def at_only(self, url: str) -> RegistryAccess:
        """Return an access to one address."""
        return replace(self, urls=(url,))

    @property
    def described(self) -> str:
        """Alias and addresses, for messages."""
        addresses = ",".join(self.urls)
        return f"{self.alias} ({addresses})" if self.alias else addresses


class HasAccess(Protocol):
    """Connections to a cluster, or whatever else knows how it is reached."""

    @property
    def access(self) -> ClusterAccess:
        """How it is reached."""


Reachable: TypeAlias = ClusterAccess | HasAccess | str | Iterable[str]
"""An access, or addresses alone (comma separated or several), which mean PLAINTEXT."""


def access_of(cluster: Reachable) -> ClusterAccess:
    """Return the access, without security if only addresses are given."""
    if isinstance(cluster, ClusterAccess):
        return cluster
    if not isinstance(cluster, str | Iterable):
        return cluster.access
    parts = cluster.split(",") if isinstance(cluster, str) else cluster
    return ClusterAccess(tuple(part.strip() for part in parts if part.strip()))


def parse_endpoint(text: str) -> Endpoint:
    """Parse `host:port` or `[v6]:port`."""
    host, _, port = text.strip().rpartition(":")
    return Endpoint(host.strip("[]"), int(port))
