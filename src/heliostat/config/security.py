"""Protocol and credentials of a cluster. Secrets are named here, never written.

Messages show no value of this section, of a schema registry's or of an InfluxDB's, except of a few
keys (`SHOWN_KEYS`, `_INFLUX_SHOWN`, `urls`): it might be a secret that somebody put where it does
not belong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from heliostat.access import MechanismName, ProtocolName, Sasl, SecretRef, Security, TokenEndpoint
from heliostat.config.frozen import Frozen

SECRET_KEYS = frozenset({"password", "key_password", "token", "client_secret"})
"""Keys whose value is a reference; `${env:NAME}` would put the secret itself into the object."""
SHOWN_KEYS = frozenset({"protocol", "mechanism", "verify_hostname", "aws_region"})
"""Keys of these sections whose values messages may show."""
THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts whose connections nobody on the network can read."""
TLS_KEYS = ("ca_file", "certificate_file", "key_file", "key_password", "verify_hostname")
_SECTIONS = frozenset({"security", "schema_registry"})
_INFLUX = ("metrics", "influx")
_INFLUX_SHOWN = frozenset({"database", "retention_policy", "every_s", "keep_s"})
_NAME_IT = "a secret is never written here: say where it is, {file: /path} or {env: NAME}"
_PASSWORD_MECHANISMS: tuple[MechanismName, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_KEYS_OF = {
    "PLAIN and SCRAM": ("username", "password"),
    "OAUTHBEARER": ("token", "token_endpoint"),
    "AWS_MSK_IAM": ("aws_region", "aws_profile"),
}
_SASL_KEYS = ("mechanism", *(key for keys in _SASL_KEYS_OF.values() for key in keys))


def _check_reference(value: Any) -> Any:
    if isinstance(value, str | int | float):
        raise ValueError(_NAME_IT)  # noqa: TRY004  # pydantic reports ValueError only
    return value


def _check_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("must be an absolute path: tasks run in folders of their own")
    return path


def is_address(url: str) -> bool:
    """Whether a URL can be taken apart; Python's own errors might quote a password in it."""
    try:
        return urlsplit(url).port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return False


def _check_url(url: str) -> str:
    parts = urlsplit(url if is_address(url) else "")
    is_here = parts.hostname in THIS_MACHINE
    if not parts.hostname or parts.scheme not in ("https", "http" if is_here else "https"):
        raise ValueError("must be an https address (http only on this machine itself)")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must have no user and password: give client_id and client_secret")
    return url


FilePath: TypeAlias = Annotated[str, AfterValidator(_check_path)]


class SecretConfig(Frozen):
    """Where a secret is: `{file: /path}` or `{env: NAME}`; read whenever a connection is made."""

    file: Annotated[FilePath | None, Field(title="File")] = None
    """A file that holds nothing but the secret; white space around it is ignored."""
    env: Annotated[str | None, Field(title="Variable", min_length=1)] = None
    """An environment variable of the process that connects, Spark's workers included."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.file is None) == (self.env is None):
            raise ValueError("must have exactly one of file and env")
        return self

    def reference(self) -> SecretRef:
        """Return it as a plain value."""
        return SecretRef(self.file or "", self.env or "")


Secret: TypeAlias = Annotated[SecretConfig, BeforeValidator(_check_reference)]


class TokenEndpointConfig(Frozen):
    """Where access tokens are fetched (OAuth's client credentials)."""

    url: Annotated[str, Field(title="Address"), AfterValidator(_check_url)]
    """The token endpoint, such as `https://login.example.org/token`."""
    client_id: Annotated[str, Field(title="Client", min_length=1)]
    """Client id."""
    client_secret: Annotated[Secret, Field(title="Client secret")]
    """Client secret, by reference."""
    scope: Annotated[str, Field(title="Scope")] = ""
    """Scopes to request, separated by spaces."""
    ca_file: Annotated[FilePath | None, Field(title="Authorities")] = None
    """PEM file of the CAs that sign the endpoint's certificate; null = the system's."""

    def value(self) -> TokenEndpoint:
        """Return it as a plain value."""
        secret = self.client_secret.reference()
        return TokenEndpoint(self.url, self.client_id, secret, self.scope, self.ca_file or "")


def key_problems(
    certificate_file: str | None, key_file: str | None, key_password: SecretConfig | None
) -> Iterator[str]:
    """Yield what is missing of our own certificate, its key and the key's password."""
    if (certificate_file is None) != (key_file is None):
        yield "certificate_file and key_file belong together"
    if key_password is not None and key_file is None:
        yield "key_password needs key_file"


class SecurityConfig(Frozen):
    """Protocol of the listener, and credentials by reference."""

    protocol: Annotated[ProtocolName, Field(title="Protocol")] = "PLAINTEXT"
    """Security protocol of the brokers' listener."""
    ca_file: Annotated[FilePath | None, Field(title="Authorities")] = None
    """PEM file of the CAs that sign the brokers' certificates; null = the system's."""
    certificate_file: Annotated[FilePath | None, Field(title="Certificate")] = None
    """PEM file of our own certificate with its chain, for mutual TLS."""
    key_file: Annotated[FilePath | None, Field(title="Key")] = None
    """PEM file of that certificate's private key."""
    key_password: Annotated[Secret | None, Field(title="Password of the key")] = None
    """Where the key's password is, if it has one."""
    verify_hostname: Annotated[bool, Field(title="Verify host name")] = True
    """Whether a broker's certificate must match its host name."""
    mechanism: Annotated[MechanismName | None, Field(title="Mechanism")] = None
    """SASL mechanism."""
    username: Annotated[str | None, Field(title="User", min_length=1)] = None
    """User name, for PLAIN and SCRAM."""
    password: Annotated[Secret | None, Field(title="Password")] = None
    """Where the password is, for PLAIN and SCRAM."""
    token: Annotated[Secret | None, Field(title="Token")] = None
    """Where a token is, for OAUTHBEARER; read again for each connection, so that it may be
    renewed at any time."""
    token_endpoint: Annotated[TokenEndpointConfig | None, Field(title="Token endpoint")] = None
    """Where tokens are fetched, for OAUTHBEARER."""
    aws_region: Annotated[str | None, Field(title="Region", pattern=r"^[a-z0-9-]+$")] = None
    """The cluster's region, for AWS_MSK_IAM; null = as the brokers' host names say."""
    aws_profile: Annotated[str | None, Field(title="Profile", min_length=1)] = None
    """A profile of AWS's own files, for AWS_MSK_IAM; null = AWS's default chain of credentials:
    environment, files, the role of the machine or the pod."""

    principal: Annotated[str | None, Field(title="Principal", pattern=r"^[^:\s]+:.+$")] = None
    """Our name in the brokers' rules, such as `User:CN=mirror,O=example`; null = `User:` and the
    user name, if there is one. Rules that protect mirrors (`topics.protect`) leave it out."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        problems = [*self._tls_problems(), *self._sasl_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _tls_problems(self) -> Iterator[str]:
        if self.protocol not in ("SSL", "SASL_SSL"):
            yield from self._foreign(TLS_KEYS, "TLS: protocol SSL or SASL_SSL")
        yield from key_problems(self.certificate_file, self.key_file, self.key_password)

    def _sasl_problems(self) -> Iterator[str]:
        if not self.protocol.startswith("SASL_"):
            yield from self._foreign(_SASL_KEYS, "SASL: protocol SASL_PLAINTEXT or SASL_SSL")
        elif self.mechanism is None:
            mechanisms = ", ".join(get_args(MechanismName))
            yield f"{self.protocol} needs mechanism, one of {mechanisms}"
        else:
            kind = "PLAIN and SCRAM" if self.mechanism in _PASSWORD_MECHANISMS else self.mechanism
            for other, keys in _SASL_KEYS_OF.items():
                if other != kind:
                    yield from self._foreign(keys, other)
            yield from self._missing(self.mechanism)

    def _missing(self, mechanism: MechanismName) -> Iterator[str]:
        if mechanism == "OAUTHBEARER":
            if (self.token is None) == (self.token_endpoint is None):
                yield "OAUTHBEARER needs exactly one of token and token_endpoint"
        elif mechanism == "AWS_MSK_IAM":
            if self.protocol != "SASL_SSL":
                yield "AWS_MSK_IAM needs protocol SASL_SSL"
        else:
            missing = [key for key in ("username", "password") if getattr(self, key) is None]
            if missing:
                yield f"{mechanism} needs {' and '.join(missing)}"

    def _foreign(self, keys: tuple[str, ...], where: str) -> Iterator[str]:
        given = [key for key in keys if key in self.model_fields_set]
        if given:
            yield f"{', '.join(given)} only with {where}"

    @property
    def known_principal(self) -> str | None:
        """Our name in the brokers' rules, as far as it is known."""
        return self.principal or (f"User:{self.username}" if self.username else None)

    @property
    def sent_in_clear(self) -> str:
        """What others on the network can read with unencrypted SASL; empty for other protocols."""
        if self.protocol != "SASL_PLAINTEXT":
            return ""
        secret = {"PLAIN": "the password", "OAUTHBEARER": "the token"}.get(self.mechanism or "")
        return f"records and {secret}" if secret else "records"

    def access(self) -> Security:
        """Return it as a plain value, which can be sent to Spark's workers."""
        sasl = None
        if self.mechanism is not None:
            sasl = Sasl(
                self.mechanism,
                self.username or "",
                self.password.reference() if self.password else None,
                self.token.reference() if self.token else None,
                self.token_endpoint.value() if self.token_endpoint else None,
                self.aws_region or "",
                self.aws_profile or "",
            )
        return Security(
            protocol=self.protocol,
            ca_file=self.ca_file or "",
            certificate_file=self.certificate_file or "",
            key_file=self.key_file or "",
            key_password=self.key_password.reference() if self.key_password else None,
            verify_hostname=self.verify_hostname,
            sasl=sasl,
        )


def is_secret(where: tuple[str | int, ...]) -> bool:
    """Whether a value at this path of the file is, or should only name, a secret."""
    inside = where[3:] if _is_in_section(where) else where[2:] if where[:2] == _INFLUX else ()
    return bool(SECRET_KEYS & set(inside))


def may_be_shown(where: tuple[str | int, ...], value: object) -> bool:
    """Whether a message may quote the value at this path of the file."""
    if where[:1] == _INFLUX[:1]:  # a whole section might show a password under a misspelt key
        is_open = where[:2] != _INFLUX or where[-1] in _INFLUX_SHOWN
        return is_open and not isinstance(value, dict | list)
    if where[:1] != ("clusters",):
        return True
    if isinstance(value, dict | list):
        return False  # a whole cluster would show its security, also under a misspelt key
    if where[2:4] == ("schema_registry", "urls"):
        return isinstance(value, str) and is_address(value) and not set("@?#") & set(value)
    if _is_in_section(where):
        return where[-1] in SHOWN_KEYS
    return where[2:3] in (("bootstrap",), ("[key]",))  # the latter is pydantic's word for the alias


def _is_in_section(where: tuple[str | int, ...]) -> bool:
    return where[:1] == ("clusters",) and len(where) > 2 and where[2] in _SECTIONS
