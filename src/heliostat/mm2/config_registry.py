"""A cluster's schema registry, from the settings of Confluent's registry clients."""

from __future__ import annotations

import re
from urllib.parse import unquote

from heliostat.mm2.config_draft import LinkDraft, Section
from heliostat.mm2.config_security import SecurityDraft, filled_in
from heliostat.mm2.config_values import Client, Ledger, Setting

_OPEN = re.compile(r"http://(?!([^@/]*@)?(localhost|127\.0\.0\.1|\[::1\])(:|/|$))")
"""An address that others on the network can read along."""
_USER_INFO = re.compile(r"(?P<user>\$\{env:[^}]*\}|[^:$]*):(?P<password>.*)", re.DOTALL)
_USER, _USER_FROM = "basic.auth.user.info", "basic.auth.credentials.source"
_BEARER, _BEARER_FROM = "bearer.auth.token", "bearer.auth.credentials.source"


def add_registry(draft: LinkDraft, cluster: Client, url: Setting, beginning: str) -> None:
    """Note a cluster's registry in the draft.

    Parameters
    ----------
    draft
        The link that needs it.
    cluster
        The cluster.
    url
        Addresses of the registry.
    beginning
        What the names of the registry client's other settings begin with.
    """
    new_section = _Registry(draft, cluster.key, url, beginning).section()
    section = draft.registries.setdefault(cluster.key, {})
    if section.get("urls", new_section["urls"]) != new_section["urls"]:
        _tell_different(cluster.key, draft.ledger)
    elif "urls" not in section:
        section |= new_section


def merged(key: str, first: Section, other: Section, ledger: Ledger) -> Section:
    """Return what two links say of a cluster's registry; of different addresses the first ones."""
    if "urls" in first and "urls" in other and first["urls"] != other["urls"]:
        _tell_different(key, ledger)
        return first
    return other | first


def completed(key: str, section: Section, ledger: Ledger) -> Section:
    """Return a registry's section, with a variable for its address if no file has it."""
    if "urls" in section:
        return {"urls": section["urls"], **section}
    variable = re.sub(r"[^A-Z0-9]", "_", key.upper()) + "_SCHEMA_REGISTRY"
    ledger.must_do(
        f"write the address of {key}'s schema registry into clusters.{key}.schema_registry.urls, "
        f"or set the environment variable {variable}: the link mirrors schemas, and no property "
        "names it"
    )
    return {"urls": [f"${{env:{variable}}}"], **section}


def _tell_different(key: str, ledger: Ledger) -> None:
    ledger.differs(
        f"there are different addresses for {key}'s schema registry; the first ones are used"
    )


class _Registry:
    """Builder of one registry's section."""

    def __init__(self, draft: LinkDraft, key: str, url: Setting, beginning: str) -> None:
        self.key = key
        self.ledger = draft.ledger
        self.url = url
        self.given = {
            name.removeprefix(beginning).removeprefix("schema.registry."): setting
            for name, setting in draft.given.items()
            if name.startswith(beginning) and setting is not url
        }
        what = (f"{key}-registry", f"{key}'s schema registry", f"clusters.{key}.schema_registry")
        self.security = SecurityDraft(self.given, what, draft.secrets, draft.ledger)

    def section(self) -> Section:
        """Return the section."""
        self.ledger.used(self.url, f"{self.security.where}.urls")
        users: list[str] = []
        urls: list[str] = []
        for entry in filled_in(self.url.entries(), self.ledger):
            before, at_sign, host = entry.partition("://")[2].rpartition("@")
            users += [before] if at_sign else []
            urls.append(entry.partition("://")[0] + "://" + host if at_sign else entry)
        section: Section = {"urls": urls}
        if any(not url.startswith("http:") for url in urls):
            section |= self.security.tls()
        else:
            for name, setting in self.given.items():
                if name.startswith("ssl."):
                    self.ledger.without(setting, "the registry's address is http, without TLS")
        return section | self._credentials(users)

    def _credentials(self, users: list[str]) -> Section:
        info, token = self.given.get(_USER), self.given.get(_BEARER)
        source, issuer = self.given.get(_USER_FROM), self.given.get(_BEARER_FROM)
        if source is not None:
            self.ledger.used(source, f"{self.security.where}.username and password")
        is_other = source is not None and source.value.strip().upper() == "SASL_INHERIT"
        if is_other or (issuer is not None and issuer.value.strip().upper() != "STATIC_TOKEN"):
            self.ledger.must_do(f"configure the authentication to {self.security.name}")
        if not (info or token or users):
            return {}
        if any(_OPEN.match(entry) for entry in self.url.entries()):
            self._refuse(info or token or self.url)
            return {}
        if token is not None and info is None:
            self.ledger.used(token, f"{self.security.where}.token")
            return {"token": self.security.secret_of(token.value, token.origin.name, "token")}
        return self._password(info, users)

    def _refuse(self, setting: Setting) -> None:
        difference = f"a link sends {self.security.name} no credentials by http; give it https"
        if setting is self.url:
            self.ledger.differs(difference)
        else:
            self.ledger.unsupported(setting, "credentials are sent only by https", difference)

    def _password(self, info: Setting | None, users: list[str]) -> Section:
        """Read `user:password`; in an address it is percent-encoded."""
        name = self.url.origin.name if info is None else info.origin.name
        if info is not None:
            self.ledger.used(info, f"{self.security.where}.username and password")
        match = _USER_INFO.fullmatch(users[0] if info is None else info.value.strip())
        user = "" if match is None else match["user"]
        password = "" if match is None else match["password"]
        if info is None:
            user, password = unquote(user), unquote(password)
        return {
            "username": user or self.security.missing("user name", name),
            "password": self.security.secret_of(password, name, "password"),
        }
