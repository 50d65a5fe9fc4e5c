"""All links of the home: those that were made by API, and those that connectors are; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.config import ConfigFile
from heliostat.connect.connector import StoredConnector
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.link_maps import links_of
from heliostat.connect.store import connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey
from heliostat.definitions.home_links import Contents, contents_of
from heliostat.names import LinkName


@dataclass(frozen=True, slots=True)
class ConnectorLink:
    """A link that a connector is, and what `links:` would have of it."""

    connector: StoredConnector
    content: Mapping[str, Any]


def connector_links(
    file: ConfigFile, definitions: Mapping[DefinitionKey, Definition]
) -> dict[LinkName, ConnectorLink]:
    """Return the links that connectors are, but for one whose name a link by API has."""
    made = contents_of(definitions)
    names = [*(link.name for link in file.config.links), *made]
    connectors = connectors_in(definitions)
    derived = links_of(connectors.values(), FileClusters.of_config(file.config, names))
    copying = (c for c in connectors.values() if c.plugin is not None and c.plugin.makes_link)
    by_link = {
        link: connector for connector in copying for link in derived.of_connector[connector.name]
    }
    return {
        link: ConnectorLink(by_link[link], content)
        for link, content in derived.links.items()
        if link not in made
    }


def home_contents(file: ConfigFile, definitions: Mapping[DefinitionKey, Definition]) -> Contents:
    """Return what each has under `links:`; a link that was made by API keeps its name."""
    links = connector_links(file, definitions).items()
    return {**{name: link.content for name, link in links}, **contents_of(definitions)}
