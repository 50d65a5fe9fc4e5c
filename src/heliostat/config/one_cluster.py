"""A cluster that no configuration names: by its addresses, and a file for its security."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from heliostat.config.load import check
from heliostat.config.model import ClusterConfig
from heliostat.errors import ConfigError
from heliostat.names import Alias

_NO_ALIAS = re.compile(r"[^A-Za-z0-9._-]+")


def alias_of(address: str) -> Alias:
    """Return a name for the cluster at an address: its host."""
    host = address.split(",", maxsplit=1)[0].rpartition(":")[0]
    return Alias(_NO_ALIAS.sub("-", host).strip("-._") or "cluster")


def cluster_at(
    addresses: str, security: Mapping[str, Any] | None = None, alias: Alias | None = None
) -> ClusterConfig:
    """Return a cluster that is reached at `host:port`, several separated by commas.

    Parameters
    ----------
    security
        Keys as in `clusters.*.security`.

    Raises
    ------
    ConfigError
        An address or a key is none; all problems are listed.
    """
    name = alias or alias_of(addresses)
    bootstrap = [address.strip() for address in addresses.split(",")]
    cluster: dict[str, Any] = {"bootstrap": bootstrap}
    if security:
        cluster["security"] = dict(security)
    config, problems = check(
        {"clusters": {str(name): cluster}, "links": [], "service": {"home": str(name)}}
    )
    if config is None or problems:
        raise ConfigError(f"the cluster at {addresses} can't be used", problems=tuple(problems))
    return config.clusters[name]


def security_in(path: Path) -> dict[str, Any]:
    """Return what a file holds: the keys of `clusters.*.security`, in YAML, secrets by reference.

    Raises
    ------
    ConfigError
        It can't be read, or holds no such keys.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no YAML"
        raise ConfigError(
            f"{path} can't be read: {why}",
            hint="write the keys of clusters.*.security there, see docs/security.md",
        ) from None
    inner = raw.get("security", raw) if isinstance(raw, dict) else None
    if not isinstance(inner, dict):
        raise ConfigError(f"{path} holds no keys", hint="such as protocol: SASL_SSL")
    return inner
