"""Options that several verbs share, so that they are called and described alike."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default="heliostat.yaml",
    show_default=True,
    help="The configuration file.",
)
link_option = click.option("--link", "link_name", metavar="NAME", help="Only this link.")
json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
