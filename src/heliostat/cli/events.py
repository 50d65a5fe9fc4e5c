"""`heliostat events`: what has happened to links, and what happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.history import Duration
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.cli.stop_signal import STOP
from heliostat.ops.shown import time_text

if TYPE_CHECKING:
    from heliostat.errors import HeliostatError
    from heliostat.operate.events import LinkEvent

ALL = "all"


@click.command("events")
@click.argument("link", metavar=f"LINK|{ALL}")
@click.option(
    "--since", "since_s", type=Duration(), default="1h", show_default=True, help="How far back."
)
@click.option(
    "--level",
    type=click.Choice(["info", "warn"]),
    default="info",
    show_default=True,
    help="Only events of this level or above.",
)
@click.option(
    "--topic", metavar="NAME", help="Of this topic, by its name at the source; * is a wildcard."
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@config_option
@json_option
def events_command(
    link: str,
    since_s: int,
    level: str,
    topic: str | None,
    config_file: Path,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    r"""Show what has happened to a LINK, or to all: wishes, changes, what failed and is over.

    The link's driver writes it to the target, with who and why, within two seconds; it is there for
    a day, on any machine. With --follow it ends with Ctrl-C and exit code 0. With --json each event
    is an object in a line of its own.

    \b
    Examples:
      heliostat events summit-to-usdf --since 6h --level warn
      heliostat events all --follow
      heliostat events summit-to-usdf --topic 'lsst.sal.MT*' --follow
      heliostat events all --since 1d --json | jq 'select(.code != "")'
    """
    from heliostat.operate.events import EventChoice, follow_events, past_events

    name = None if link == ALL else link
    config = known_config(config_file, name)
    choice = EventChoice(level.upper(), topic)

    def show(event: LinkEvent) -> None:
        of_link = f"{event.link}: " if name is None else ""
        line = f"{time_text(event.at_ms)} {event.level} {of_link}{event.text}"
        click.echo(json.dumps(event.to_json(), ensure_ascii=False) if as_json else line)

    if not follow:
        for event in past_events(config, name, since_s, choice):
            show(event)
        return

    def tell(error: HeliostatError) -> None:
        click.echo(f"heliostat: {error}; it is tried again", err=True)

    STOP.install()
    for event in follow_events(
        config, name, since_s, choice, is_ending=STOP.is_set.is_set, tell=tell
    ):
        show(event)
