"""`heliostat config`: the configuration as it is in force."""

from __future__ import annotations

import json
from pathlib import Path

import click

from heliostat.cli.options import config_option, json_option, link_option
from heliostat.config import load_config
from heliostat.operate.configuration import settings_in_force
from heliostat.operate.links import link_of


@click.command("config")
@config_option
@link_option
@click.option("--all", "shows_all", is_flag=True, help="Also what nobody has set.")
@json_option
def config_command(
    config_file: Path, link_name: str | None, as_json: bool, *, shows_all: bool
) -> None:
    r"""Print the configuration as it is in force: defaults merged into links, no secrets.

    What may be a secret is `(not shown)`. Contacts no cluster.

    \b
    Examples:
      heliostat config -c heliostat.yaml
      heliostat config -c heliostat.yaml --link summit-to-usdf --all
      heliostat config -c heliostat.yaml --json | jq '.[] | select(.is_default | not)'
    """
    config = load_config(config_file)
    link = None if link_name is None else link_of(config, link_name)
    rows = settings_in_force(config, link)
    if not shows_all and not as_json:
        rows = [row for row in rows if not row.is_default]
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=2))
        return
    for row in rows:
        mark = "  # default" if row.is_default else ""
        click.echo(f"{row.path}: {json.dumps(row.value, ensure_ascii=False)}{mark}")
