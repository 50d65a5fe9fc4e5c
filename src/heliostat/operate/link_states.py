"""All links that are defined, each with its state and its owner as its target tells."""

from __future__ import annotations

from dataclasses import replace

from heliostat.config import ConfigFile
from heliostat.config.defined import with_definitions
from heliostat.operate.link_definitions import (
    LinkDefinition,
    LinkListing,
    Origin,
    definition_of,
    list_definitions,
)
from heliostat.operate.status import statuses_apart
from heliostat.status.values import LinkStatus

OWNED = frozenset({"running", "paused", "stopped"})
"""States of links that have an owner."""


def list_links(file: ConfigFile) -> LinkListing:
    """Return all links that are defined, with their states; a dead cluster delays no other."""
    listing = list_definitions(file)
    return replace(listing, links=_with_states(file, listing.links))


def show_link(file: ConfigFile, name: str) -> LinkDefinition:
    """Return how a link is defined, with its state; raises as `definition_of`."""
    [link] = _with_states(file, (definition_of(file, name),))
    return link


def _with_states(file: ConfigFile, links: tuple[LinkDefinition, ...]) -> tuple[LinkDefinition, ...]:
    contents = {link.name: link.content for link in links if link.origin is not Origin.FILE}
    config = with_definitions(file, contents).config
    names = {link.name for link in links}
    config = config.model_copy(
        update={"links": tuple(link for link in config.links if link.name in names)}
    )
    statuses = {status.link: status for status, _ in statuses_apart(config)}
    return tuple(
        replace(link, state=status.state, owner=_owner(status))
        if (status := statuses.get(link.name)) is not None
        else link
        for link in links
    )


def _owner(status: LinkStatus) -> str:
    return str(status.owner.get("host", "")) if status.state in OWNED else ""
