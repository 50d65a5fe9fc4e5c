"""Find the links of a configuration to which a verb applies."""

from __future__ import annotations

from heliostat.config import Config, LinkConfig
from heliostat.errors import ConfigError


def links_of(config: Config, link_name: str | None) -> tuple[LinkConfig, ...]:
    """Return the named link, or all.

    Raises
    ------
    ConfigError
        There is no such link.
    """
    if link_name is None:
        return config.links
    try:
        return (config.link(link_name),)
    except KeyError:
        names = ", ".join(link.name for link in config.links)
        raise ConfigError(f"there is no link {link_name}", hint=f"there are {names}") from None


def known_links(config: Config, link_name: str | None) -> tuple[LinkConfig, ...]:
    """Return the named link, or all; none where the home is to be asked for it."""
    names = {link.name for link in config.links}
    if config.service.home is not None and link_name is not None and link_name not in names:
        return ()
    return links_of(config, link_name)


def link_of(config: Config, link_name: str | None) -> LinkConfig:
    """Return the named link, or the only one there is.

    Raises
    ------
    ConfigError
        There is no such link, or there are several and none was named.
    """
    links = links_of(config, link_name)
    if len(links) > 1:
        names = ", ".join(link.name for link in links)
        raise ConfigError("there are several links", hint=f"name one with --link: {names}")
    return links[0]
