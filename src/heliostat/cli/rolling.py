"""What `heliostat switch --rolling` shows of merged topics while producers move."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

import click

from heliostat.cli.changes import show
from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC

if TYPE_CHECKING:
    from heliostat.config import Config, LinkConfig


def show_rolling(config: Config, link: LinkConfig, *, as_json: bool) -> None:
    """Tell how far the rolling switch of a link is."""
    from heliostat.operate.rolling import rolling_of

    show(rolling_of(config, link), f"{link.name}:", as_json=as_json)


def turn(
    config: Config,
    link: LinkConfig,
    topics: Collection[str],
    by: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Merge mirrors in place and print their cuts; with a dry run tell what would be, and exit."""
    from heliostat.handover.opening import is_all_open
    from heliostat.operate.turning import turn_in_place

    turned = turn_in_place(config, link, topics, by, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(turned.to_json(), indent=2))
    else:
        for text in turned.refused.values():
            click.echo(text, err=True)
        click.echo(f"{link.name}: {turned.text()}", err=True)
        if not dry_run:
            click.echo("\n".join(turned.start_lines()))
    if dry_run or not is_all_open(turned.opening):
        is_whole = not turned.refused and is_all_open(turned.opening)
        sys.exit(IN_SYNC if is_whole else DIFFERENCE)


def show_writers(
    config: Config, link: LinkConfig, topics: Collection[str], *, as_json: bool
) -> None:
    """Name who has written merged topics at the source lately."""
    from heliostat.operate.source_writers import writers_of

    answer = writers_of(config, link, topics)
    if as_json:
        click.echo(json.dumps({"link": link.name, **answer.to_json()}, indent=2))
        return
    for line in answer.refused:
        click.echo(f"not known: {line}", err=True)
    for writer in answer.writers:
        click.echo(writer.text())
    if not answer.writers:
        click.echo("no producer with an id is remembered at the source, besides links'")


def wait_for_topics(
    config: Config,
    link: LinkConfig,
    topics: Collection[str],
    within_s: float,
    *,
    as_json: bool,
) -> None:
    """Wait until what merged topics have at the source now has crossed, and end the process."""
    from heliostat.clock import SystemClock
    from heliostat.operate.crossing import InLines, wait_until_crossed

    lines = InLines(partial(click.echo, err=True), SystemClock())
    crossed = wait_until_crossed(config, link, topics, within_s, lines)
    if as_json:
        click.echo(json.dumps(crossed.to_json(), indent=2))
    else:
        click.echo("\n".join(crossed.describe(link.source, link.target)))
    sys.exit(IN_SYNC if crossed.is_whole else DIFFERENCE)
