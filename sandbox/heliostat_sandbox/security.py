"""Secured listeners of a sandbox cluster: broker settings, and credentials for clients.

Beside the PLAINTEXT listener, which stays open and whose clients (`User:ANONYMOUS`) are super users
like the brokers themselves, each broker offers SSL, SASL_PLAINTEXT and SASL_SSL on ports of their
own, and SSL once more with a certificate for another host. A client with certificate, password or
token is `User:<name>` in each case, so that one set of ACLs fits all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from heliostat.access import ClusterAccess, ProtocolName, Sasl, SecretRef, Security
from heliostat.errors import SandboxError
from heliostat.names import BrokerId
from heliostat_sandbox.certificates import (
    TOKEN_AUDIENCE,
    TOKEN_ISSUER,
    TOKEN_LIFETIME_S,
    KeyPair,
    issue,
    make_authority,
    make_signing_key,
    sign_token,
    write_secret,
)
from heliostat_sandbox.ports import LOOPBACK

SUPER_USER = "admin"
"""A super user with a password and a certificate, for listeners that need them."""
BROKERS_PRINCIPAL = "User:ANONYMOUS"
"""Principal of PLAINTEXT connections, including those of the brokers."""
_MODULES = "org.apache.kafka.common.security"
_VALIDATOR = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Listener(Enum):
    """Kafka's name of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"
    WRONG_HOST = "WRONG_HOST"
    """SSL, with a certificate by the right authority but for another host."""
    FAR = "FAR"
    """PLAINTEXT, advertised at the other end of a long line."""

    @property
    def protocol(self) -> ProtocolName:
        """Kafka's `security.protocol`."""
        match self:
            case Listener.PLAINTEXT | Listener.FAR:
                return "PLAINTEXT"
            case Listener.SSL | Listener.WRONG_HOST:
                return "SSL"
            case Listener.SASL_PLAINTEXT:
                return "SASL_PLAINTEXT"
            case Listener.SASL_SSL:
                return "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether it uses TLS."""
        return "SSL" in self.protocol

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL")


SECURED = (Listener.SSL, Listener.SASL_PLAINTEXT, Listener.SASL_SSL, Listener.WRONG_HOST)


class Mechanism(Enum):
    """Kafka's name of a SASL mechanism."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class ClientAuth(Enum):
    """Whether clients of SSL listeners must show a certificate (`ssl.client.auth`)."""

    REQUIRED = "required"
    REQUESTED = "requested"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SandboxSecurity:
    """Security of a cluster's listeners beside PLAINTEXT.

    Parameters
    ----------
    users
        Passwords by user name; `admin` is added. The same users have certificates and tokens.
    client_auth
        Client authentication of the SSL listeners; SASL_SSL requests no certificate.
    mechanisms
        Mechanisms of both SASL listeners. Kafka 2.8 has no OAUTHBEARER with signed tokens.
    authorizer
        Whether ACLs are checked (`AclAuthorizer` with ZooKeeper, else `StandardAuthorizer`).
    super_users
        More super users, as `User:name`.
    open_without_acl
        `allow.everyone.if.no.acl.found`: everything is allowed on resources without an ACL.
    reauthenticate_ms
        `connections.max.reauth.ms` (KIP-368); 0 for never.
    """

    users: Mapping[str, str] = field(default_factory=lambda: {"link": "link-secret"}, repr=False)
    client_auth: ClientAuth = ClientAuth.REQUESTED
    mechanisms: tuple[Mechanism, ...] = tuple(Mechanism)
    authorizer: bool = False
    super_users: tuple[str, ...] = ()
    open_without_acl: bool = False
    reauthenticate_ms: int = 0

    @property
    def passwords(self) -> Mapping[str, str]:
        """Passwords of all users, including `admin`."""
        return {SUPER_USER: "admin-secret", **self.users}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files of a secured cluster: made before its brokers start, deleted with its folder.

    Parameters
    ----------
    security
        Security of the cluster.
    folder
        Folder of the files.
    bootstraps
        Addresses by listener, separated by commas.
    """

    security: SandboxSecurity
    folder: Path
    bootstraps: Mapping[Listener, str]

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that all sides trust."""
        return self.folder / "ca.pem"

    @property
    def stranger(self) -> KeyPair:
        """A client's certificate by an authority that no broker trusts (`stranger-ca.pem`)."""
        return KeyPair(self.folder / "stranger.pem", self.folder / "stranger.key")

    @property
    def stranger_ca_file(self) -> Path:
        """Certificate of an authority that signed none of the brokers' certificates."""
        return self.folder / "stranger-ca.pem"

    def access(
        self, user: str, listener: Listener, mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    ) -> ClusterAccess:
        """Return what a client needs to connect as `user`; secrets are given by their files.

        Raises
        ------
        SandboxError
            There is no such user.
        """
        if user not in self.security.passwords:
            known = sorted(self.security.passwords)
            raise SandboxError("the sandbox has no such user", user=user, known=known)
        shows_certificate = listener.has_tls and not listener.has_sasl
        security = Security(
            protocol=listener.protocol,
            ca_file=str(self.ca_file) if listener.has_tls else "",
            certificate_file=str(self.folder / f"{user}.pem") if shows_certificate else "",
            key_file=str(self.folder / f"{user}.key") if shows_certificate else "",
            sasl=self._sasl(user, mechanism) if listener.has_sasl else None,
        )
        return ClusterAccess(tuple(self.bootstraps[listener].split(",")), security)

    def _sasl(self, user: str, mechanism: Mechanism) -> Sasl:
        if mechanism is Mechanism.OAUTHBEARER:
            return Sasl(mechanism.value, token=SecretRef(file=str(self.folder / f"{user}.token")))
        password = SecretRef(file=str(self.folder / f"{user}.password"))
        return Sasl(mechanism.value, username=user, password=password)

    def token(self, user: str, lifetime_s: float = TOKEN_LIFETIME_S) -> str:
        """Return a new signed token; with a negative lifetime, an expired one."""
        return sign_token(self.folder / "token.key", user, lifetime_s)

    def renew_token(self, user: str, lifetime_s: float = TOKEN_LIFETIME_S) -> Path:
        """Replace the user's token file atomically by one with a new token."""
        path = self.folder / f"{user}.token"
        part = write_secret(path.with_suffix(".part"), self.token(user, lifetime_s))
        return part.replace(path)


def make_credentials(
    security: SandboxSecurity, folder: Path, bootstraps: Mapping[Listener, str]
) -> Credentials:
    """Write all certificates, passwords and tokens of a cluster into a new `folder`.

    Raises
    ------
    SandboxError
        There is no `openssl`, or it failed.
    """
    folder.mkdir()
    made = Credentials(security, folder, bootstraps)
    authority, stranger = make_authority(folder, "ca"), make_authority(folder, "stranger-ca")
    here = ("DNS:localhost", f"IP:{LOOPBACK}")
    broker = issue(folder, "broker", authority, subject="broker", hosts=here)
    broker.write_joined(folder / "broker-store.pem")
    other = ("DNS:elsewhere.example",)
    wrong = issue(folder, "wrong-host", authority, subject="elsewhere.example", hosts=other)
    wrong.write_joined(folder / "wrong-host-store.pem")
    issue(folder, "stranger", stranger, subject=next(iter(security.passwords)))
    tokens = Mechanism.OAUTHBEARER in security.mechanisms
    if tokens:
        make_signing_key(folder)
    for user, password in security.passwords.items():
        issue(folder, user, authority, subject=user)
        write_secret(folder / f"{user}.password", password)
        if tokens:
            made.renew_token(user)
    return made


def security_properties(
    credentials: Credentials, ports: Mapping[Listener, int], *, authorizer: str
) -> dict[str, str]:
    """Return broker settings of the secured listeners, except `listeners` and their map.

    Parameters
    ----------
    credentials
        Files of the cluster.
    ports
        Port of each secured listener.
    authorizer
        Kafka's authorizer class.
    """
    security, folder = credentials.security, credentials.folder
    mechanisms = ",".join(each.value for each in security.mechanisms)
    found = {
        # The same user names for certificates as for passwords and tokens.
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "connections.max.reauth.ms": str(security.reauthenticate_ms),
    }
    for listener in ports:
        prefix = f"listener.name.{listener.value.lower()}"
        if listener.has_tls:
            store = "wrong-host" if listener is Listener.WRONG_HOST else "broker"
            auth = ClientAuth.NONE if listener.has_sasl else security.client_auth
            found |= {
                f"{prefix}.ssl.keystore.type": "PEM",
                f"{prefix}.ssl.keystore.location": str(folder / f"{store}-store.pem"),
                f"{prefix}.ssl.truststore.type": "PEM",
                f"{prefix}.ssl.truststore.location": str(credentials.ca_file),
                f"{prefix}.ssl.client.auth": auth.value,
            }
        if listener.has_sasl:
            found[f"{prefix}.sasl.enabled.mechanisms"] = mechanisms
            for mechanism in security.mechanisms:
                found |= _sasl_properties(prefix, mechanism, credentials)
    if security.authorizer:
        allowed = (BROKERS_PRINCIPAL, f"User:{SUPER_USER}", *security.super_users)
        found["authorizer.class.name"] = authorizer
        found["super.users"] = ";".join(allowed)
        found["allow.everyone.if.no.acl.found"] = str(security.open_without_acl).lower()
    return found


def _sasl_properties(prefix: str, mechanism: Mechanism, credentials: Credentials) -> dict[str, str]:
    own = f"{prefix}.{mechanism.value.lower()}"
    login = f"{own}.sasl.jaas.config"
    match mechanism:
        case Mechanism.PLAIN:
            users = credentials.security.passwords.items()
            words = " ".join(f"user_{user}={_quoted(password)}" for user, password in users)
            return {login: f"{_MODULES}.plain.PlainLoginModule required {words};"}
        case Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
            return {login: f"{_MODULES}.scram.ScramLoginModule required;"}
        case Mechanism.OAUTHBEARER:
            return {
                login: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
                f"{own}.sasl.server.callback.handler.class": _VALIDATOR,
                f"{own}.sasl.oauthbearer.jwks.endpoint.url": _key_set_url(credentials),
                f"{own}.sasl.oauthbearer.expected.audience": TOKEN_AUDIENCE,
                f"{own}.sasl.oauthbearer.expected.issuer": TOKEN_ISSUER,
            }


def security_java_options(credentials: Credentials) -> Sequence[str]:
    """Return JVM options: since 3.9.1 brokers read only key sets that are allowed there."""
    if Mechanism.OAUTHBEARER not in credentials.security.mechanisms:
        return ()
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={_key_set_url(credentials)}",)


def _key_set_url(credentials: Credentials) -> str:
    return (credentials.folder / "jwks.json").as_uri()


def _quoted(text: str) -> str:
    """Quote a value in JAAS syntax (`StreamTokenizer`), which has C's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def bootstraps_of(ports: Mapping[BrokerId, Mapping[Listener, int]]) -> dict[Listener, str]:
    """Return the addresses of all brokers by listener."""
    listeners = next(iter(ports.values()))
    return {
        listener: ",".join(f"{LOOPBACK}:{own[listener]}" for own in ports.values())
        for listener in listeners
    }
