"""Convert a Java client's connection settings into our `clusters` section.

Secrets are not copied: the section names a file for each, and the list of things to do says what
to put there. Key stores become PEM files, as Python can't read JKS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.errors import ConfigError
from heliostat.mm2.config_aws import asks_aws, aws_section
from heliostat.mm2.config_values import Client, Ledger, Setting

Section = dict[str, Any]
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SHELL_VARIABLE = re.compile(r"'?\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))'?")
"""Where a shell is to fill in a value, as in examples: `'${BROKER}'`."""
_PROTOCOL = re.compile(r"^[A-Za-z_]+://")
_OPTION = re.compile(
    r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
_REFERENCE = re.compile(r"\$\{(?P<provider>\w+):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
_INLINE = {
    "ca_file": "ssl.truststore.certificates",
    "certificate_file": "ssl.keystore.certificate.chain",
    "key_file": "ssl.keystore.key",
}
"""Properties that have the contents of a PEM file, or a reference to it."""
_TLS_AS_IT_IS = (
    *("ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.provider"),
    *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.engine.factory.class"),
    "ssl.secure.random.implementation",
)
_OAUTH_OPTIONS = frozenset(
    {
        *("clientId", "clientSecret", "scope", "oauth.token.endpoint.uri", "oauth.client.id"),
        *("oauth.client.secret", "oauth.scope", "oauth.access.token"),
        *("oauth.access.token.is.jwt", "oauth.max.token.expiry.seconds"),
    }
)
_OAUTH_ONLY_JAVA = ("sasl.oauthbearer.assertion.", "sasl.oauthbearer.jwt.retriever.class")


def cluster_section(client: Client, secrets: str, ledger: Ledger) -> Section:
    """Return one entry of `clusters`.

    Parameters
    ----------
    client
        Settings of the cluster's clients.
    secrets
        Folder in which secrets and PEM files are to be put.
    ledger
        Takes the outcome of each property.

    Raises
    ------
    ConfigError
        The cluster has no `bootstrap.servers`.
    """
    addresses = client.settings.get("bootstrap.servers")
    if addresses is None or not addresses.entries():
        raise ConfigError(f"cluster {client.alias} has no bootstrap.servers")
    if addresses.value.startswith("="):
        raise ConfigError(
            f"{addresses.origin.name} begins with '='",
            hint="MirrorMaker 2 can't connect there either: write one equals sign",
        )
    where = f"clusters.{client.key}"
    ledger.used(addresses, f"{where}.bootstrap")
    section: Section = {
        "bootstrap": [
            _PROTOCOL.sub("", address) for address in filled_in(addresses.entries(), ledger)
        ]
    }
    if client.security is not None:
        security = client.security
    else:
        what = (client.key, f"cluster {client.key}", f"{where}.security")
        security = SecurityDraft(client.settings, what, secrets, ledger).section()
    if security:
        section["security"] = security
    return section


def filled_in(entries: Iterable[str], ledger: Ledger) -> list[str]:
    """Return entries of a list, with variables of a shell as variables of our file."""
    filled_entries: list[str] = []
    for entry in entries:
        match = _SHELL_VARIABLE.fullmatch(entry)
        name = match and (match[1] or match[2])
        if name:
            ledger.must_do(f"set the environment variable {name}, or write its value into the file")
        filled_entries.append(f"${{env:{name}}}" if name else entry)
    return filled_entries


class SecurityDraft:
    """Builder of one section, of a cluster or of its schema registry.

    Parameters
    ----------
    given
        Settings by name.
    what
        What its files begin with, what it is called, and where its section is in our file.
    secrets
        Folder in which secrets and PEM files are to be put.
    ledger
        Takes the outcome of each property.
    """

    def __init__(
        self,
        given: Mapping[str, Setting],
        what: tuple[str, str, str],
        secrets: str,
        ledger: Ledger,
    ) -> None:
        self.beginning, self.name, self.where = what
        self.given = given
        self.ledger = ledger
        self.folder = secrets.rstrip("/")
        self.found: Section = {}

    def section(self) -> Section:
        """Return the section; empty for a plaintext listener without authentication."""
        protocol = self.given.get("security.protocol")
        name = "PLAINTEXT" if protocol is None else protocol.value.strip().upper()
        if protocol is not None:
            self.ledger.used(protocol, f"{self.where}.protocol")
        self.found["protocol"] = name
        if name in ("SSL", "SASL_SSL"):
            self.tls()
        else:
            self._unused("ssl.", f"the protocol is {name}, without TLS")
        if name.startswith("SASL_"):
            self._sasl()
        else:
            self._unused("sasl.", f"the protocol is {name}, without SASL")
        return {} if self.found == {"protocol": "PLAINTEXT"} else self.found

    def _unused(self, prefix: str, why: str) -> None:
        for name, setting in self.given.items():
            if name.startswith(prefix):
                self.ledger.without(setting, why)

    def _path(self, what: str) -> str:
        return f"{self.folder}/{self.beginning}-{what}"

    def _use(self, name: str, key: str) -> None:
        if name in self.given:
            self.ledger.used(self.given[name], f"{self.where}.{key}")

    # -- TLS -----------------------------------------------------------------------------------

    def tls(self) -> Section:
        """Return the section with what the `ssl.*` settings become."""
        self._store("truststore", ("ca_file",))
        self._store("keystore", ("certificate_file", "key_file"))
        identification = self.given.get("ssl.endpoint.identification.algorithm")
        if identification is not None:
            self._use("ssl.endpoint.identification.algorithm", "verify_hostname")
            if not identification.value.strip():
                self.found["verify_hostname"] = False
        if "ssl.key.password" in self.given:
            if "key_file" in self.found:
                self.found["key_password"] = self._secret("ssl.key.password", "key-password")
            self._use("ssl.key.password", "key_password")
        for name in _TLS_AS_IT_IS:
            if name in self.given:
                self.ledger.without(self.given[name], "Python's TLS decides: 1.2 or later")
        return self.found

    def _store(self, store: str, keys: tuple[str, ...]) -> None:
        """Convert a trust or key store: a PEM file is used as it is, others must be exported."""
        location = self.given.get(f"ssl.{store}.location")
        kind = self.given.get(f"ssl.{store}.type")
        inline = {_INLINE[key]: key for key in keys if _INLINE[key] in self.given}
        is_pem = kind is not None and kind.value.strip().upper() == "PEM"
        if location is None and not inline:
            return
        for key in keys:
            what = {"ca_file": "ca.pem", "certificate_file": "cert.pem", "key_file": "key.pem"}[key]
            usable = location is not None and is_pem and location.value.startswith("/")
            self.found[key] = location.value if location and usable else self._path(what)
        files = " and ".join(self.found[key] for key in keys)
        for name, key in inline.items():
            self._use(name, " and ".join(keys))
            if file := (self._known(self.given[name].value) or {}).get("file"):
                self.found[key] = file
            else:
                self.ledger.must_do(f"write the value of {name} of {self.name} into {files}")
        for name in (f"ssl.{store}.location", f"ssl.{store}.type"):
            self._use(name, " and ".join(keys))
        if location is not None and self.found[keys[0]] != location.value:
            self.ledger.must_do(
                f"export {location.value} ({store} of {self.name}) as PEM into {files} "
                "(keytool -importkeystore to PKCS12, then openssl pkcs12)"
            )
        password = f"ssl.{store}.password"
        if password in self.given:
            self.ledger.replaced(
                self.given[password], f"{' and '.join(keys)}: PEM files have no store password"
            )

    # -- SASL ----------------------------------------------------------------------------------

    def _sasl(self) -> None:
        mechanism = self.given.get("sasl.mechanism")
        name = "GSSAPI" if mechanism is None else mechanism.value.strip().upper()
        jaas = self.given.get("sasl.jaas.config")
        options = {} if jaas is None else _jaas_options(jaas.value)
        if name in PASSWORD_MECHANISMS:
            self._use("sasl.mechanism", "mechanism")
            self._use("sasl.jaas.config", "username and password")
            self.found["mechanism"] = name
            self.found["username"] = options.get("username") or self.missing(
                "username", "sasl.jaas.config"
            )
            self.found["password"] = self.secret_of(
                options.get("password", ""), "sasl.jaas.config", "password"
            )
        elif asks_aws(name, self.given):
            self.found |= aws_section(self.given, options, (self.beginning, self.name), self.ledger)
        elif name == "OAUTHBEARER":
            self._oauth(options)
        else:
            self._no_mechanism(name)
        for key, setting in self.given.items():
            if key.startswith("sasl."):
                self.ledger.unless_read(setting.origin, "our SASL client has no such setting")

    def missing(self, what: str, name: str) -> str:
        """Return a placeholder for what a property should have said."""
        self.ledger.must_do(
            f"write the {what} for {self.name} into the file: none was found in its {name}"
        )
        return "fill-in"

    def _no_mechanism(self, name: str) -> None:
        protocol = "SSL" if self.found["protocol"] == "SASL_SSL" else "PLAINTEXT"
        self.found["protocol"] = protocol
        for key, setting in self.given.items():
            if key.startswith("sasl."):
                self.ledger.without(setting, f"{name} is a mechanism that links do not support")
        self.ledger.must_do(
            f"give {self.name} a listener and a user with PLAIN, SCRAM or OAUTHBEARER: "
            f"{name} is not supported, and the file has protocol {protocol} instead"
        )
        self.ledger.differs(f"a link can't authenticate to {self.name} with {name}")

    def _oauth(self, options: Mapping[str, str]) -> None:
        """Read the names of Kafka, of Kafka 4.1 (KIP-1139), and of Strimzi's library."""
        self.found["mechanism"] = "OAUTHBEARER"
        self._tell_oauth(options)
        self._use("sasl.mechanism", "mechanism")
        self._use("sasl.jaas.config", "token or token_endpoint")
        url = self._value("sasl.oauthbearer.token.endpoint.url", "token_endpoint.url")
        url = url or options.get("oauth.token.endpoint.uri", "")
        identity = self._value(
            "sasl.oauthbearer.client.credentials.client.id", "token_endpoint.client_id"
        )
        identity = identity or options.get("clientId") or options.get("oauth.client.id", "")
        if url.startswith("file:/"):
            self.found["token"] = {"file": "/" + url.removeprefix("file:").lstrip("/")}
            return
        if not url or not identity:
            self.found["token"] = self.secret_of(
                options.get("oauth.access.token", ""), "sasl.jaas.config", "token"
            )
            return
        name = "sasl.oauthbearer.client.credentials.client.secret"
        if name in self.given:
            self._use(name, "token_endpoint.client_secret")
            secret = self._secret(name, "client-secret")
        else:
            text = options.get("clientSecret") or options.get("oauth.client.secret", "")
            secret = self.secret_of(text, "sasl.jaas.config", "client-secret")
        endpoint: Section = {"url": url, "client_id": identity, "client_secret": secret}
        scope = self._value("sasl.oauthbearer.scope", "token_endpoint.scope")
        scope = scope or options.get("scope") or options.get("oauth.scope", "")
        if scope:
            endpoint["scope"] = scope
        if "oauth.ssl.truststore.location" in options:
            endpoint["ca_file"] = self._path("endpoint-ca.pem")
            self.ledger.must_do(
                f"export {options['oauth.ssl.truststore.location']} (of the token endpoint of "
                f"{self.name}) as PEM into {endpoint['ca_file']}"
            )
        self.found["token_endpoint"] = endpoint

    def _tell_oauth(self, options: Mapping[str, str]) -> None:
        """Tell what a link lacks of OAuth: it has client credentials, or a token in a file."""
        for option in sorted(options.keys() - _OAUTH_OPTIONS):
            if not option.startswith("oauth.ssl.truststore."):
                self.ledger.differs(
                    f"{self.name}: sasl.jaas.config has the option {option}; a link has no such "
                    "setting"
                )
        for name, setting in self.given.items():
            if name.startswith(_OAUTH_ONLY_JAVA):
                self.ledger.unsupported(
                    setting,
                    "a link has client credentials, or a token in a file",
                    f"{self.name}: {name} decided how tokens are got; a link has client "
                    "credentials, or a token in a file",
                )

    def _value(self, name: str, key: str) -> str:
        self._use(name, key)
        return self.given[name].value.strip() if name in self.given else ""

    def _secret(self, name: str, what: str) -> Section:
        return self.secret_of(self.given[name].value, name, what)

    def secret_of(self, text: str, name: str, what: str) -> Section:
        """Return where to read a secret: as its reference says, or from a file still to write."""
        section = self._known(text)
        if section is not None:
            return section
        path = self._path(what)
        match = _REFERENCE.fullmatch(text.strip())
        origin = f" (there as {match[0]})" if match else ""
        self.ledger.must_do(
            f"put the {what.replace('-', ' ')} of {self.name} from {name}{origin} into "
            f"{path}, readable by the link's user only"
        )
        return {"file": path}

    def _known(self, text: str) -> Section | None:
        """As `referenced`; an item of a Kubernetes secret is where that is to be mounted."""
        match = _REFERENCE.fullmatch(text.strip())
        if match is None or match["provider"] != "strimzisecrets":
            return referenced(text)
        secret, item = (match["path"] or "").rpartition("/")[2], match["key"]
        path = f"{self.folder}/{secret}/{item}"
        self.ledger.must_do(
            f"mount secret {secret} (for {self.name}) so that its {item} is at {path}"
        )
        return {"file": path}


def referenced(text: str) -> Section | None:
    """Convert a reference of Connect's config providers; None unless it gives just the secret."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        return None
    if match["provider"] in ("env", "strimzienv"):
        return {"env": match["key"]}
    path = match["path"] or ""
    if match["provider"] in ("dir", "directory", "strimzidir") and path.startswith("/"):
        return {"file": f"{path.rstrip('/')}/{match['key']}"}
    return None


def _jaas_options(text: str) -> dict[str, str]:
    """Return the options of a JAAS entry: `Module required name="value" ...;`."""
    return {
        match[1]: re.sub(
            r"\\(.)", r"\1", next((g for g in match.groups()[1:] if g is not None), "")
        )
        for match in _OPTION.finditer(text)
    }
