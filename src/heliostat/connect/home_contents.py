"""All links of the home: those that were made by API, and those that connectors are; pure."""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.config import ConfigFile
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.link_maps import links_of
from heliostat.connect.store import connectors_in
from heliostat.definitions.definition import Definition, DefinitionKey
from heliostat.definitions.home_links import Contents, contents_of


def home_contents(file: ConfigFile, definitions: Mapping[DefinitionKey, Definition]) -> Contents:
    """Return what each has under `links:`; a link that was made by API keeps its name."""
    made = contents_of(definitions)
    names = [*(link.name for link in file.config.links), *made]
    own = FileClusters.of_config(file.config, names)
    return {**links_of(connectors_in(definitions).values(), own).links, **made}
