"""What `heliostat switch --rolling` shows of merged topics while producers move."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC

if TYPE_CHECKING:
    from heliostat.config import Config, LinkConfig
    from heliostat.operate.crossing import Crossed, Crossing

TOLD_EVERY_S = 2.0
LACKING_MAX = 5
"""Partitions that are named in a line of progress."""


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


def wait_for_topics(
    config: Config,
    link: LinkConfig,
    topics: Collection[str],
    within_s: float,
    *,
    as_json: bool,
) -> None:
    """Wait until what merged topics have at the source now has crossed, and end the process."""
    from heliostat.operate.crossing import wait_until_crossed

    crossed = wait_until_crossed(config, link, topics, within_s, _Shown())
    if as_json:
        click.echo(json.dumps(crossed.to_json(), indent=2))
    else:
        click.echo("\n".join(_crossed_lines(crossed, link)))
    sys.exit(IN_SYNC if crossed.is_whole else DIFFERENCE)


class _Shown:
    """Shows how far partitions are, now and then, on standard error."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()

    def __call__(self, rows: Sequence[Crossing]) -> None:
        from heliostat.operate.crossing import Stage

        now_s = time.monotonic()
        left = [row for row in rows if row.stage is not Stage.PASSED]
        if not left or now_s - self._told_s < TOLD_EVERY_S:
            return
        self._told_s = now_s
        named = "; ".join(f"{row.partition}: {row.text}" for row in left[:LACKING_MAX])
        more = " …" if len(left) > LACKING_MAX else ""
        click.echo(f"{len(rows) - len(left)} of {len(rows)} have crossed; {named}{more}", err=True)


def _crossed_lines(crossed: Crossed, link: LinkConfig) -> list[str]:
    """Return what waiting came to, for people."""
    from heliostat.operate.crossing import Stage

    lines = [f"[{each.code}] {each.text} (hint: {each.hint})" for each in crossed.problems]
    for topic, rows in crossed.topics().items():
        ends = ", ".join(f"{row.partition.partition}: {row.end:,}" for row in rows)
        if all(row.stage is Stage.PASSED for row in rows):
            took_s = (max(row.passed_ms for row in rows) - crossed.asked_ms) / 1000
            lines.append(
                f"{topic}: all that {link.source} had is at {link.target}, {took_s:.1f} s after it "
                f"was asked (ends {ends}); who stopped before may go on there"
            )
        else:
            passed = sum(row.stage is Stage.PASSED for row in rows)
            lines.append(f"{topic}: {passed} of {len(rows)} partitions have crossed (ends {ends})")
    return lines
