"""The links that this process knows: those of its file, and those that the home holds; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.config import ConfigFile
from heliostat.config.defined import WholeConfig, with_definitions
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.names import LinkName

Contents = Mapping[LinkName, Mapping[str, Any]]
Rows = Mapping[DefinitionKey, Definition]


@dataclass(frozen=True, slots=True)
class HomeLook:
    """What a look at the home has come to."""

    whole: WholeConfig
    """The file's configuration with the home's links."""
    file: ConfigFile
    """The file that it was read with."""
    rows: Rows
    """What the home holds, and what was removed since the look before, as it was last."""


def links_in(definitions: Mapping[DefinitionKey, Definition]) -> dict[LinkName, Definition]:
    """Return the definitions of links that are not being deleted; what was written last is last."""
    rows = sorted(definitions.values(), key=lambda row: row.generation)
    return {
        LinkName(row.key.name): row
        for row in rows
        if row.key.kind is DefinitionKind.LINK and not row.is_leaving
    }


def contents_of(definitions: Mapping[DefinitionKey, Definition]) -> dict[LinkName, Any]:
    """Return what each of these links has under `links:`."""
    return {name: row.content for name, row in links_in(definitions).items()}


def said_of(rows: Rows) -> dict[LinkName, Definition]:
    """Return the row that last said something of each link: its own, or its connector's."""
    of_links = {
        LinkName(row.key.name): row for row in rows.values() if row.key.kind is DefinitionKind.LINK
    }
    of_connectors = {
        LinkName(str(link)): row
        for row in rows.values()
        if row.key.kind is DefinitionKind.CONNECTOR and (link := (row.extra or {}).get("link"))
    }
    return {**of_connectors, **of_links}


class HomeLinks:
    """The configuration as the home's topic goes on: a bad change of a link changes nothing."""

    def __init__(self) -> None:
        self._good: dict[LinkName, Mapping[str, Any]] = {}
        """What a link had when it last fitted."""

    def whole(self, file: ConfigFile, contents: Contents) -> WholeConfig:
        """Return the configuration with these definitions; of one that is wrong the one before."""
        now = with_definitions(file, contents)
        kept = {name: self._good[name] for name in now.waits if name in self._good}
        whole = with_definitions(file, {**contents, **kept}) if kept else now
        self._good = {
            name: kept.get(name, contents[name]) for name in contents if name not in whole.waits
        }
        return WholeConfig(whole.config, now.waits)
