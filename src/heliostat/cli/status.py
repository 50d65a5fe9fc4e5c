"""`heliostat status`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, HALTED, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.errors import HeliostatError
from heliostat.status.order import ORDERS, chosen, ordered
from heliostat.status.values import MAX_LAG_S

if TYPE_CHECKING:
    from heliostat.status.values import LinkStatus

ROWS = 20
"""Topics shown unless all are asked for."""


@click.command("status")
@config_option
@link_option
@click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="Only these; * is a wildcard."
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(list(ORDERS)),
    default="lag",
    show_default=True,
    help="Which topics come first.",
)
@click.option("--all", "shows_all", is_flag=True, help=f"All topics, not the first {ROWS} only.")
@click.option(
    "--max-lag",
    "max_lag_s",
    type=click.FloatRange(min=0),
    default=MAX_LAG_S,
    show_default=True,
    help="Greatest lag, in seconds, of a link that is in sync.",
)
@json_option
@click.option("--nagios", is_flag=True, help="Answer in one line, as a monitoring plugin.")
def status_command(
    *,
    config_file: Path,
    link_name: str | None,
    topics: tuple[str, ...],
    order: str,
    shows_all: bool,
    max_lag_s: float,
    as_json: bool,
    nagios: bool,
) -> None:
    r"""Show the state of links, from their state topics on the target; works on any machine.

    Topics with stopped partitions and those that lag come first. Lag is what is missing at the
    target, in records and as the age of the oldest of them; `?` is not known, `≥` is at least. What
    a link that does not run can't tell is read from both sides' logs. A line tells what would be
    lost if the source were gone now (heliostat exposure: by topic and group).

    Exit code 0 when every link runs and is in sync: the target has all records but those of the
    last seconds (--max-lag). 1 when a link lags by more, has stopped partitions or refused topics,
    does not run, or does not know its lag; each reason is printed. 3 when a target does not answer;
    the other links are shown nevertheless. With --nagios 0 OK, 1 WARNING (it lags), 2 CRITICAL (it
    does not run, or something is stopped or in trouble), 3 UNKNOWN.

    \b
    Examples:
      heliostat status -c heliostat.yaml
      heliostat status -c heliostat.yaml --topic 'ess.*' --all
      heliostat status -c heliostat.yaml --max-lag 60 --nagios
      heliostat status -c heliostat.yaml --json | jq '.[0].why_not_in_sync'
    """
    from heliostat.operate.status import statuses_apart

    if nagios:
        sys.exit(_plugin(config_file, link_name, max_lag_s))
    pairs = statuses_apart(known_config(config_file, link_name), link_name)
    statuses = [status for status, _ in pairs]
    is_fine = all(status.is_in_sync(max_lag_s) for status in statuses)
    if as_json:
        answer = [status.to_json(max_lag_s) for status in statuses]
        for row, status in zip(answer, statuses, strict=True):
            names = {topic.source for topic in chosen(status.topics, topics)}
            row["topics"] = [topic for topic in row["topics"] if topic["source"] in names]
        click.echo(json.dumps(answer, indent=2))
    else:
        for status in statuses:
            status.topics = ordered(chosen(status.topics, topics), order)
            _show(status, None if shows_all else ROWS, max_lag_s)
    for _, error in pairs:
        if error is not None:
            click.echo(f"heliostat: {error}", err=True)
    if any(error is not None for _, error in pairs):
        sys.exit(HALTED)
    sys.exit(IN_SYNC if is_fine else DIFFERENCE)


def _plugin(config_file: Path, link_name: str | None, max_lag_s: float) -> int:
    """Print the line of a monitoring plugin, whatever happens; return its exit code."""
    from heliostat.operate.status import statuses_apart
    from heliostat.status.nagios import Service, line_of, nagios_line

    try:
        pairs = statuses_apart(known_config(config_file, link_name), link_name)
    except HeliostatError as error:
        service, line = Service.UNKNOWN, line_of(Service.UNKNOWN, str(error))
    else:
        service, line = nagios_line([status for status, _ in pairs], max_lag_s)
    click.echo(line)
    return service.value


def _show(status: LinkStatus, rows: int | None, max_lag_s: float) -> None:
    """Print a link: as wide as the terminal, or as its text is where there is none."""
    from rich.console import Console

    from heliostat.cli import view

    sync = view.sync_lines(status, max_lag_s)
    shown = len(status.topics) if rows is None else rows
    console = Console()
    if console.is_terminal:
        console.print(view.headline(status))
        console.print(status.loss_in_words(), highlight=False)
        console.print(view.topic_table(status, shown))
        for line in view.problem_lines(status):
            console.print(line)
        console.print(sync)
        return
    why = [str(getattr(line, "plain", line)) for line in view.problem_lines(status)]
    for text in (
        view.plain_line(status),
        status.loss_in_words(),
        *_table(view.topic_rows(status, shown)),
        *why,
        sync.plain,
    ):
        click.echo(text)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as text, nothing cut: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *figures)).rstrip()
