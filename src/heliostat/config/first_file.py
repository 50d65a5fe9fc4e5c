"""The first configuration of somebody who has none: ten lines with comments; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from heliostat.config.model import ClusterConfig
from heliostat.names import Alias

WIDE = 10_000
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
_NOT_WRITTEN = "secrets stay where they are, this only names them"


@dataclass(frozen=True, slots=True)
class FirstCluster:
    """A cluster as it was given: its name, addresses, and the keys of its `security`."""

    alias: Alias
    addresses: str
    security: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstLink:
    """What the first link is to do.

    Parameters
    ----------
    include
        Expressions or names of topics.
    prefix
        Put before names at the target; empty: same names.
    groups
        Whether offsets of groups are published.
    count
        What the expressions select now, for a comment.
    """

    source: FirstCluster
    target: FirstCluster
    include: tuple[str, ...]
    prefix: str = ""
    groups: bool = False
    count: str = ""

    @property
    def name(self) -> str:
        """Name of the link."""
        return _NO_NAME.sub("-", f"{self.source.alias}-to-{self.target.alias}")

    def text(self, file: str) -> str:
        """Return the configuration in YAML.

        Parameters
        ----------
        file
            Its name, for a comment.
        """
        return "\n".join([*self._lines(file), ""])

    def _lines(self, file: str) -> Iterator[str]:
        yield f"# Next: heliostat check -c {file}. All keys: docs/reference/config.md"
        yield "clusters:"
        for cluster in (self.source, self.target):
            yield f"  {_flow(str(cluster.alias))}:"
            bootstrap = [address.strip() for address in cluster.addresses.split(",")]
            yield f"    bootstrap: {_flow(bootstrap)}"
            if cluster.security:
                yield f"    security: {_flow(dict(cluster.security))}  # {_NOT_WRITTEN}"
        yield "links:"
        yield f"  - name: {_flow(self.name)}"
        yield f"    source: {_flow(str(self.source.alias))}"
        yield f"    target: {_flow(str(self.target.alias))}"
        naming = {"naming": {"prefix": self.prefix}} if self.prefix else {}
        count = f"  # {self.count}" if self.count else ""
        yield f"    topics: {_flow({'include': list(self.include), **naming})}{count}"
        state = "follow at the target" if self.groups else "don't: groups begin anew there"
        yield f"    groups: {_flow({'sync': self.groups})}  # offsets of consumer groups {state}"


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=WIDE, sort_keys=False)
    return text.removesuffix("...\n").strip()


def proposed_aliases(source: ClusterConfig, target: ClusterConfig) -> tuple[Alias, Alias]:
    """Return names for two clusters: the first part of their hosts, if that tells them apart."""
    names = [
        cluster.bootstrap[0].rpartition(":")[0].partition(".")[0] for cluster in (source, target)
    ]
    usable = all(name and name[0].isalpha() and name.replace("-", "").isalnum() for name in names)
    if usable and names[0] != names[1] and "localhost" not in names:
        return Alias(names[0]), Alias(names[1])
    return Alias("source"), Alias("target")


def proposed_topics(names: list[str]) -> str:
    """Return an expression for topics: what they all begin with, up to a dot, or all."""
    heads = {name.partition(".")[0] for name in names}
    if len(heads) == 1 and all("." in name for name in names):
        return rf"{heads.pop()}\..*"
    return ".*"
