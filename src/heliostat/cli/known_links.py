"""The configuration with all links that a verb may be asked about: those of the home, too."""

from __future__ import annotations

from pathlib import Path

import click

from heliostat.config import Config, read_config_file
from heliostat.errors import BrokerError, ConnectionLost


def known_config(config_file: Path, link_name: str | None = None) -> Config:
    """Return the file's configuration with the links that its home holds.

    Where the home does not answer, those of the file are known, and the rest is told.

    Parameters
    ----------
    link_name
        Which link is asked about: of the file's own the home is not asked.

    Raises
    ------
    ConfigError
        The file is refused.
    ConnectionLost, BrokerError
        That link is not in the file, and the home does not answer.
    """
    file = read_config_file(config_file)
    names = {link.name for link in file.config.links}
    if file.config.service.home is None or link_name in names:
        return file.config
    from heliostat.operate.home import whole_config

    try:
        return whole_config(file).config
    except (ConnectionLost, BrokerError) as error:
        if link_name is not None:
            raise
        click.echo(f"heliostat: links of the home are not known: {error.text}", err=True)
        return file.config
