"""Where the secrets of a link are for MirrorMaker 2: references only, never a secret itself."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from typing_extensions import override

from heliostat.config.security import SecretConfig
from heliostat.mm2.config_values import Ledger

_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_ITEM = re.compile(r"[A-Za-z0-9._-]{1,253}")
ITEMS = {
    "ca_file": "ca.crt",
    "certificate_file": "user.crt",
    "key_file": "user.key",
    "key_password": "key.password",
    "password": "password",
    "token": "token",
    "client_secret": "client-secret",
}
"""Names of items, by keys of a cluster's security, where the link's files don't have any."""


class Item(NamedTuple):
    """An item of a Kubernetes secret."""

    secret: str
    key: str


class References(Protocol):
    """Says in a property's value where a secret or PEM file is."""

    def of(self, secret: SecretConfig, cluster: str, key: str) -> str:
        """Return the reference.

        Parameters
        ----------
        secret
            Where the link has it.
        cluster, key
            The cluster's alias, and the key of its security.
        """
        ...


class FileReferences(References):
    """Of files and environment variables of the machines on which Connect runs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @override
    def of(self, secret: SecretConfig, cluster: str, key: str) -> str:
        """Return a reference to the same file or variable."""
        if secret.env is not None:
            self._ledger.must_do(f"set the variable {secret.env} for MirrorMaker 2 ({cluster})")
            return f"${{env:{secret.env}}}"
        file = str(secret.file)
        self._ledger.must_do(f"let MirrorMaker 2 read {file}, which has the {key} of {cluster}")
        folder, _, name = file.rpartition("/")
        return f"${{dir:{folder or '/'}:{name}}}"


class SecretReferences(References):
    """Of items of Kubernetes secrets.

    Parameters
    ----------
    folder
        Folder in which the link has secrets mounted, each under its own name.
    namespace
        Where the secrets are.
    ledger
        Takes what a person has to put there.
    """

    def __init__(self, folder: str, namespace: str, ledger: Ledger) -> None:
        self._folder = folder.rstrip("/")
        self.namespace = namespace
        self._ledger = ledger
        self._places: dict[Item, str] = {}
        """Where the contents are of items that are to be made."""

    @override
    def of(self, secret: SecretConfig, cluster: str, key: str) -> str:
        """Return a reference that Strimzi's own provider resolves."""
        item = self.item(secret, cluster, key)
        self._ledger.must_do(
            f"allow MirrorMaker 2's service account to get the secret {item.secret}"
        )
        return f"${{strimzisecrets:{self.namespace}/{item.secret}:{item.key}}}"

    def item(self, secret: SecretConfig, cluster: str, key: str) -> Item:
        """Return the item: that which is mounted for the link, or one to be item."""
        path = secret.file or ""
        parts = path.removeprefix(f"{self._folder}/").split("/")
        if len(parts) == 2 and _SECRET_NAME.fullmatch(parts[0]) and _ITEM.fullmatch(parts[1]):
            self._ledger.must_do(f"have the secret {parts[0]} with its item {parts[1]} ({cluster})")
            return Item(*parts)
        place, name = path or f"the variable {secret.env}", kubernetes_name(cluster)
        item = Item(f"{name}-credentials", ITEMS[key])
        while self._places.setdefault(item, place) != place:  # of a cluster with a like name
            item = Item(f"{item.secret}-2", item.key)
        self._ledger.must_do(
            f"make a secret {item.secret} whose item {item.key} has the contents of {place}"
        )
        return item


def kubernetes_name(text: str) -> str:
    """Return a name that Kubernetes takes for a resource."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:200] or "cluster"
