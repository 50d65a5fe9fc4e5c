"""What `heliostat switch --rolling` shows of merged topics while producers move."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from heliostat.config import Config, LinkConfig


def show_writers(
    config: Config, link: LinkConfig, topics: Collection[str], *, as_json: bool
) -> None:
    """Name who has written merged topics at the source lately."""
    from heliostat.operate.source_writers import writers_of

    found = writers_of(config, link, topics)
    if as_json:
        click.echo(json.dumps({"link": link.name, **found.to_json()}, indent=2))
        return
    for line in found.refused:
        click.echo(f"not known: {line}", err=True)
    for each in found.writers:
        click.echo(each.text())
    if not found.writers:
        click.echo("no producer with an id is remembered at the source, besides links'")
