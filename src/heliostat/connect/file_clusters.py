"""Which cluster of the configuration file a connector means, by address or alias; pure.

A configuration from the network names clusters that we know, and no other: else who may write one
could have us connect, with our credentials, to wherever they like.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heliostat.config import Config
from heliostat.connect.connector import ConfigProblem
from heliostat.names import Alias

PRESERVE = "preserve"
"""A copy of the registry's topic keeps all ids."""
_PROTOCOL = re.compile(r"^[A-Za-z_]+://")
SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class FileClusters:
    """What the file says.

    Parameters
    ----------
    addresses
        Bootstrap addresses of each cluster, by its alias.
    links
        Names of the file's links.
    target
        The cluster that is meant where a connector names no target.
    registries
        Clusters that have a schema registry.
    strategy
        How schemas go that a connector names by their topic: as `defaults` say.
    """

    addresses: Mapping[Alias, frozenset[str]]
    links: frozenset[str] = frozenset()
    target: Alias | None = None
    registries: frozenset[Alias] = frozenset()
    strategy: str = PRESERVE

    @classmethod
    def of_config(cls, config: Config, links: Collection[str]) -> FileClusters:
        """Return what a configuration says; `links`: those of its links that the file has."""
        return cls(
            {
                alias: frozenset(address.lower() for address in cluster.bootstrap)
                for alias, cluster in config.clusters.items()
            },
            frozenset(links),
            config.service.connect.target,
            frozenset(a for a, cluster in config.clusters.items() if cluster.schema_registry),
            PRESERVE if (strategy := config.defaults.schemas.strategy) == "off" else strategy,
        )

    def alias_of(self, side: Side) -> Alias | ConfigProblem:
        """Return the cluster of one side of a connector, or what is wrong.

        The addresses count where they and the alias disagree: a connector works where it connects.
        """
        given = {_PROTOCOL.sub("", address).lower() for address in side.addresses}
        same = [alias for alias, addresses in self.addresses.items() if addresses & given]
        alias = Alias(side.alias)
        if alias in same:
            return alias
        if same:
            return same[0]
        if alias in self.addresses:
            return alias
        if not given and side.is_target and self.target is not None:
            return self.target
        aliases = ", ".join(sorted(self.addresses)[:SHOWN_MAX])
        called = f" or the alias {side.alias!r}" if side.alias else ""
        return ConfigProblem(
            side.field,
            f"no cluster of the configuration file has such addresses{called}: it has {aliases}; "
            "add the cluster under clusters, with its credentials",
        )


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a connector: what it calls the cluster, and where it is.

    Parameters
    ----------
    field
        The property to blame.
    """

    field: str
    alias: str
    addresses: frozenset[str]
    is_target: bool
