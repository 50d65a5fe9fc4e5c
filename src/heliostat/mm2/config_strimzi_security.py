"""Read how Strimzi's resources say that a cluster is connected to: TLS, SASL and OAuth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heliostat.mm2.config_security import SecurityDraft
from heliostat.mm2.config_values import Fate, Ledger, Origin, Setting

IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_MECHANISMS = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
_OAUTH = {
    "audience": "names no audience in its token requests",
    "refreshToken": "has no refresh tokens, but clientSecret or accessToken",
    "clientAssertion": "has no client assertions, but clientSecret or accessToken",
    "clientAssertionLocation": "has no client assertions, but clientSecret or accessToken",
    "username": "has no password grant, but clientSecret or accessToken",
    "accessTokenLocation": "reads a token from a file: name it as security.token",
    "saslExtensions": "sends no SASL extensions",
    "grantType": "has the grant client_credentials only",
}
"""Fields of `type: oauth` that a link does not have, and what it does instead."""
_OAUTH_WITHOUT = frozenset(
    {
        *("accessTokenIsJwt", "connectTimeoutSeconds", "readTimeoutSeconds", "enableMetrics"),
        *("httpRetries", "httpRetryPauseMs", "includeAcceptHeader", "maxTokenExpirySeconds"),
        *("passwordSecret", "clientAssertionType"),
    }
)
Map = Mapping[str, Any]


class Place(NamedTuple):
    """A cluster in a file: where it is, its alias, and the folder for its secrets."""

    file: str
    path: str
    alias: str
    folder: str


def leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the values without fields of their own, each with its path."""
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from leaves(member, f"{path}.{key}")
    elif isinstance(value, list) and value and any(isinstance(element, dict) for element in value):
        for index, element in enumerate(value):
            yield from leaves(element, f"{path}[{index}]")
    else:
        yield path, value


class StrimziSecurity:
    """Reader of one cluster's fields."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.alias = place.alias
        self.ledger = ledger

    def section(self, cluster: Map, config: Mapping[str, Setting]) -> dict[str, Any]:
        """Return our section.

        Parameters
        ----------
        cluster
            The cluster's fields.
        config
            Its `config`, by name.
        """
        section: dict[str, Any] = {}
        tls = cluster.get("tls")
        authentication: Map = cluster.get("authentication") or {}
        kind = authentication.get("type")
        protocol = ("SASL_" if _is_sasl(authentication) else "") + (
            "PLAINTEXT" if tls is None else "SSL"
        )
        if protocol != "PLAINTEXT":
            section["protocol"] = protocol
        if tls is not None:
            text = f"clusters.{self.alias}.security.ca_file"
            self._tell_all(tls, "tls", Fate.USED, text)
            self._trust(section, "ca_file", tls.get("trustedCertificates"), "ca")
        self._hostname(section, config.get(IDENTIFICATION), has_tls=tls is not None)
        text = f"clusters.{self.alias}.security"
        self._tell_all(authentication, "authentication", Fate.USED, text)
        if kind == "tls":
            pair = authentication.get("certificateAndKey") or {}
            section["certificate_file"] = self._mounted(pair, "certificate")
            section["key_file"] = self._mounted(pair, "key")
        elif kind in _MECHANISMS:
            secret = authentication.get("passwordSecret") or {}
            section |= {
                "mechanism": _MECHANISMS[kind],
                "username": str(authentication.get("username")),
                "password": {"file": self._mounted(secret, "password")},
            }
        elif kind == "oauth":
            section |= self._oauth(authentication)
        elif kind == "custom":
            section |= self._custom(authentication, protocol)
        elif kind is not None:
            self._no_type(authentication, str(kind))
        return section

    def _hostname(self, section: dict[str, Any], setting: Setting | None, *, has_tls: bool) -> None:
        if setting is None:
            return
        if not has_tls:
            self.ledger.without(setting, "the cluster has no tls")
            return
        self.ledger.used(setting, f"clusters.{self.alias}.security.verify_hostname")
        if not setting.value.strip():
            section["verify_hostname"] = False

    def _no_type(self, authentication: Map, kind: str) -> None:
        text = "see to do"
        for leaf, _ in leaves(authentication, f"{self.place.path}.authentication"):
            self.ledger.tell(Origin(self.place.file, leaf), Fate.NOT_SUPPORTED, text)
        self.ledger.must_do(
            f"configure the authentication to cluster {self.alias}; it was of type {kind}"
        )
        self.ledger.differs(f"a link can't authenticate to cluster {self.alias} with type {kind}")

    def _custom(self, authentication: Map, protocol: str) -> dict[str, Any]:
        """Read `type: custom`, whose settings are those of Kafka's clients."""
        place = f"{self.place.path}.authentication"
        given = {
            str(name): Setting(str(value), Origin(self.place.file, f"{place}.config.{name}"))
            for name, value in (authentication.get("config") or {}).items()
        }
        given["security.protocol"] = Setting(protocol, Origin(self.place.file, f"{place}.type"))
        what = (self.alias, f"cluster {self.alias}", f"clusters.{self.alias}.security")
        return SecurityDraft(given, what, self.place.folder, self.ledger).section()

    def _trust(self, section: dict[str, Any], key: str, trusted: Any, what: str) -> None:
        """Set a file of certificates; several must be written into one file."""
        trusted = trusted or []
        if len(trusted) == 1 and "certificate" in trusted[0]:
            section[key] = self._mounted(trusted[0], "certificate")
        elif trusted:
            section[key] = f"{self.place.folder}/{self.alias}-{what}.pem"
            names = ", ".join(str(certificate.get("secretName")) for certificate in trusted)
            self.ledger.must_do(f"concatenate all certificates of {names} into {section[key]}")

    def _oauth(self, given: Map) -> dict[str, Any]:
        section: dict[str, Any] = {"mechanism": "OAUTHBEARER"}
        for field, instead in _OAUTH.items():
            if given.get(field):
                self._unsupported_oauth(given[field], field, instead)
        for field in sorted(_OAUTH_WITHOUT & given.keys()):
            for leaf, _ in leaves(given[field], f"{self.place.path}.authentication.{field}"):
                origin = Origin(self.place.file, leaf)
                self.ledger.tell(origin, Fate.NOT_SUPPORTED, "a link has no such setting")
        if given.get("disableTlsHostnameVerification") is True:
            self._unsupported_oauth(
                True, "disableTlsHostnameVerification", "always verifies the endpoint's host name"
            )
        if "tokenEndpointUri" not in given or "clientSecret" not in given:
            token = given.get("accessToken")
            if token:
                return section | {"token": {"file": self._mounted(token, "key")}}
            path = f"{self.place.folder}/{self.alias}-token"
            self.ledger.must_do(
                f"put a token for cluster {self.alias} into {path}, and renew it there: the link "
                "reads it for each connection"
            )
            return section | {"token": {"file": path}}
        endpoint: dict[str, Any] = {
            "url": given["tokenEndpointUri"],
            "client_id": str(given.get("clientId")),
            "client_secret": {"file": self._mounted(given["clientSecret"], "key")},
        }
        if given.get("scope"):
            endpoint["scope"] = given["scope"]
        self._trust(endpoint, "ca_file", given.get("tlsTrustedCertificates"), "endpoint-ca")
        return section | {"token_endpoint": endpoint}

    def _unsupported_oauth(self, value: object, field: str, instead: str) -> None:
        for leaf, _ in leaves(value, f"{self.place.path}.authentication.{field}"):
            self.ledger.tell(Origin(self.place.file, leaf), Fate.NOT_SUPPORTED, f"a link {instead}")
        self.ledger.differs(f"cluster {self.alias}: oauth's {field} is set; a link {instead}")

    def _tell_all(self, value: object, field: str, fate: Fate, text: str) -> None:
        for leaf, _ in leaves(value, f"{self.place.path}.{field}"):
            self.ledger.tell(Origin(self.place.file, leaf), fate, text)

    def _mounted(self, secret: Map, key: str) -> str:
        """Return the path at which an item of a Kubernetes secret must be mounted."""
        name, item = str(secret.get("secretName")), str(secret.get(key))
        path = f"{self.place.folder}/{name}/{item}"
        self.ledger.must_do(
            f"mount secret {name} (for cluster {self.alias}) so that its {item} is at {path}"
        )
        return path


def _is_sasl(authentication: Map) -> bool:
    """Whether the type, or the settings of `type: custom`, are of SASL."""
    kind = authentication.get("type")
    if kind == "custom":
        return authentication.get("sasl") is not False and "sasl.mechanism" in (
            authentication.get("config") or {}
        )
    return kind in _MECHANISMS or kind == "oauth"
