"""Options that several verbs share, so that names and help are the same."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from heliostat.cli.completion import DEFAULT_FILE, link_names
from heliostat.ops.events import LogFormat

_Command = TypeVar("_Command", bound=Callable[..., Any])

config_option = click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_FILE,
    show_default=True,
    help="The configuration file.",
)
link_option = click.option(
    "--link", "link_name", metavar="NAME", help="Only this link.", shell_complete=link_names
)
log_option = click.option(
    "--log",
    "log_form",
    type=click.Choice([form.value for form in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    help="Lines of the log for people, or as JSON objects.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def _whoever_runs_it(context: click.Context, option: click.Parameter, name: str | None) -> str:
    del context, option
    return name or f"{getpass.getuser()}@{socket.gethostname()}"


def by_option(what: str) -> Callable[[_Command], _Command]:
    """Return the option that says who does it, with the beginning of its help."""
    said = f"{what} (default: you, on this host)."
    return click.option("--by", metavar="NAME", callback=_whoever_runs_it, help=said)


def peer_options(command: _Command) -> _Command:
    """Add the options that identify the MirrorMaker 2 to take over from (`peer_of`)."""
    for option in reversed(_PEER_OPTIONS):
        command = option(command)
    return command


_PEER_OPTIONS = (
    click.option(
        "--alias", help="The source's alias in MirrorMaker 2; the link's source by default."
    ),
    click.option(
        "--offsets-topic",
        metavar="TOPIC",
        help="Connect's offset.storage.topic; mm2-offsets.<alias>.internal by default.",
    ),
    click.option(
        "--group", metavar="NAME", help="Connect's group.id at the target; <alias>-mm2 by default."
    ),
    click.option(
        "--workers-run-on",
        is_flag=True,
        help="The Connect workers keep running; only the source connector is stopped.",
    ),
)
