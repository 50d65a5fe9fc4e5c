"""`heliostat sandbox stop|start|pause|resume`: outages of named clusters, to be rehearsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from heliostat_sandbox import named
from heliostat_sandbox.shown_clusters import show

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _of_brokers(command: _Command) -> _Command:
    """Add what each of these verbs takes: a cluster, and which of its brokers."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
        click.option(
            "--broker", "brokers", type=int, multiple=True, help="Only this broker; repeatable."
        ),
        click.argument("name"),
    ):
        command = option(command)
    return command


@click.command("stop")
@_of_brokers
@click.option("--kill", is_flag=True, help="As a crash: without a controlled shutdown.")
def stop_command(name: str, brokers: tuple[int, ...], *, kill: bool, as_json: bool) -> None:
    r"""Stop brokers of a cluster, all by default; their data is kept, and `start` brings them back.

    \b
    Examples:
      heliostat sandbox stop summit
      heliostat sandbox stop big --broker 2 --kill
    """
    named.stop(name, brokers, kill=kill)
    show(named.status([name]), as_json=as_json)


@click.command("start")
@_of_brokers
def start_command(name: str, brokers: tuple[int, ...], *, as_json: bool) -> None:
    r"""Start brokers that were stopped or have died, with their data; what runs is left alone.

    \b
    Examples:
      heliostat sandbox start summit
      heliostat sandbox start big --broker 2
    """
    named.start(name, brokers)
    show(named.status([name]), as_json=as_json)


@click.command("pause")
@_of_brokers
def pause_command(name: str, brokers: tuple[int, ...], *, as_json: bool) -> None:
    r"""Freeze brokers: connections stay open and nothing answers, until `resume`.

    \b
    Examples:
      heliostat sandbox pause summit
      heliostat sandbox pause big --broker 1
    """
    named.pause(name, brokers)
    show(named.status([name]), as_json=as_json)


@click.command("resume")
@_of_brokers
def resume_command(name: str, brokers: tuple[int, ...], *, as_json: bool) -> None:
    r"""Let frozen brokers go on.

    \b
    Examples:
      heliostat sandbox resume summit
    """
    named.resume(name, brokers)
    show(named.status([name]), as_json=as_json)
