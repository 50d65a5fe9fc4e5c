"""`heliostat tail`: records that never crossed before a mirror was given away."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.export import destination_of, destination_options
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.ops.shown import bytes_text, time_text

if TYPE_CHECKING:
    from heliostat.config import Config, LinkConfig
    from heliostat.operate.tail import TailReport, TailRow
    from heliostat.operate.tail_moves import TailMoved

SHOWN_CHARACTERS_MAX = 60
_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.argument("link"),
    config_option,
    click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="TOPIC",
        help="Only this topic, by its name at the source; may be repeated.",
    ),
    json_option,
)
_CHANGES = (
    by_option("Who does it"),
    click.option("--dry-run", is_flag=True, help="Only tell what would be done."),
    click.option("--yes", is_flag=True, help="Don't ask."),
)


def _with(options: Iterable[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    def added(command: _Command) -> _Command:
        for option in reversed(tuple(options)):
            command = option(command)
        return command

    return added


@click.group("tail")
def tail_group() -> None:
    r"""Show, export, append or drop what a lost source had and its mirrors never got.

    For a source that came back after `heliostat failover`. Verbs that change something first see
    that it rests: its log ends stand still for 10 s, and no transaction is open.

    \b
    Examples:
      heliostat tail show east-to-west
      heliostat tail export east-to-west --parquet rescued/
      heliostat tail append east-to-west --refused-to-parquet rescued/
      heliostat tail drop east-to-west --topic metrics --why "measured again since"
    """


@tail_group.command("show")
@_with(_OPTIONS)
@click.option(
    "--sample",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="How many records of each partition to show.",
)
def show_command(
    *, link: str, config_file: Path, topics: tuple[str, ...], as_json: bool, sample: int
) -> None:
    r"""Show how many records of LINK's promoted topics never crossed, and the first of them.

    Exit code 0 when there are none, 1 when there are, or when it can't be known.

    \b
    Examples:
      heliostat tail show east-to-west
      heliostat tail show east-to-west --topic orders --json | jq '.rows[].sample'
    """
    from heliostat.operate.tail import show_tail

    report = show_tail(*_link(config_file, link), topics, sample=sample)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in report_lines(report):
            click.echo(line)
    sys.exit(IN_SYNC if report.is_clear else DIFFERENCE)


@tail_group.command("export")
@_with(_OPTIONS)
@_with(_CHANGES)
@destination_options()
def export_command(
    *,
    link: str,
    config_file: Path,
    topics: tuple[str, ...],
    as_json: bool,
    by: str,
    dry_run: bool,
    yes: bool,
    folder: Path | None,
    to_topic: str | None,
    file_mb: int,
) -> None:
    r"""Write what never crossed to Parquet files, or to a topic of the target.

    \b
    Examples:
      heliostat tail export east-to-west --parquet rescued/
      heliostat tail export east-to-west --topic orders --to-topic orders.rescued --yes
    """
    from heliostat.operate.tail_moves import export_tail

    destination = destination_of(folder, to_topic, file_mb)
    if destination is None:
        raise click.UsageError("one of --parquet and --to-topic is needed")

    def move(dry_run: bool) -> TailMoved:
        config = _link(config_file, link)
        return export_tail(*config, topics, destination, by=by, dry_run=dry_run)

    _moved(move, "export", dry_run=dry_run, yes=yes, as_json=as_json)


@tail_group.command("append")
@_with(_OPTIONS)
@_with(_CHANGES)
@destination_options("--refused-to-")
def append_command(
    *,
    link: str,
    config_file: Path,
    topics: tuple[str, ...],
    as_json: bool,
    by: str,
    dry_run: bool,
    yes: bool,
    folder: Path | None,
    to_topic: str | None,
    file_mb: int,
) -> None:
    r"""Append what never crossed to the topics that were LINK's mirrors, each record once.

    Records keep partition, timestamp and headers, and get a header `heliostat.origin`: cluster,
    topic, partition and offset at the source. If this command dies, the next one goes on, and
    writes none again. Not appended but exported are records whose key was written at the target
    since, in a compacted topic, and records of another schema there.

    \b
    Examples:
      heliostat tail append east-to-west --dry-run
      heliostat tail append east-to-west --refused-to-parquet rescued/ --yes
    """
    from heliostat.operate.tail_moves import append_tail

    refused_to = destination_of(folder, to_topic, file_mb)

    def move(dry_run: bool) -> TailMoved:
        config = _link(config_file, link)
        return append_tail(*config, topics, refused_to, by=by, dry_run=dry_run)

    _moved(move, "append", dry_run=dry_run, yes=yes, as_json=as_json)


@tail_group.command("drop")
@_with(_OPTIONS)
@_with(_CHANGES)
@click.option("--why", required=True, metavar="TEXT", help="Why; it stays in the ledger.")
def drop_command(
    *,
    link: str,
    config_file: Path,
    topics: tuple[str, ...],
    as_json: bool,
    by: str,
    dry_run: bool,
    yes: bool,
    why: str,
) -> None:
    r"""Give up what never crossed: `heliostat gaps` shows who, why and how many.

    The source keeps its records.

    \b
    Example:
      heliostat tail drop east-to-west --topic metrics --why "measured again since"
    """
    from heliostat.operate.tail import drop_tail

    config = _link(config_file, link)
    tried = drop_tail(*config, topics, by=by, why=why, dry_run=True)
    if not dry_run and not yes:
        click.confirm(f"drop {tried.report.records:,} records?", abort=True, err=True)
    answer = tried if dry_run else drop_tail(*config, topics, by=by, why=why)
    if as_json:
        click.echo(json.dumps(answer.to_json(), indent=2))
        return
    words = "would be dropped" if dry_run else "were dropped, with a row in the ledger"
    click.echo(f"{answer.report.link}: {answer.report.records:,} records {words}")


def _link(config_file: Path, link: str) -> tuple[Config, LinkConfig]:
    from heliostat.operate.links import link_of

    config = known_config(config_file, link)
    return config, link_of(config, link)


def _moved(
    move: Callable[[bool], TailMoved], verb: str, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Tell what would be moved, ask, move it, and tell what was."""
    tried = move(True)
    if not dry_run and not yes:
        for line in _moved_lines(tried, verb):
            click.echo(line, err=True)
        click.confirm(f"{verb} {tried.report.records:,} records?", abort=True, err=True)
    answer = tried if dry_run else move(False)
    if as_json:
        click.echo(json.dumps(answer.to_json(), indent=2))
        return
    for line in _moved_lines(answer, verb):
        click.echo(line)


def _moved_lines(moved: TailMoved, verb: str) -> list[str]:
    if verb == "export":
        words = f"{moved.report.records:,} records would be exported"
        return [
            f"{moved.report.link}: "
            + (words if moved.is_tried else f"{moved.exported:,} records were exported")
        ]
    would = "would be" if moved.is_tried else "were"
    words = f"{moved.appended:,} records {would} appended, {moved.exported:,} {would} refused"
    return [
        f"{moved.report.link}: {words} and exported",
        *(f"  {count:,} refused: {why}" for why, count in sorted(moved.refused.items())),
    ]


def report_lines(report: TailReport) -> list[str]:
    """Return what a link's promoted topics have as a tail, for people."""
    count = sum(1 for row in report.rows if row.records)
    where = f"in {count} of {report.partitions} partitions"
    lines = [f"link {report.link}: {report.records:,} records never crossed, {where}"]
    for row in report.rows:
        lines += _row_lines(row)
    lines += [f"  NOT KNOWN {topic}: {why}" for topic, why in sorted(report.why_not.items())]
    lines += [f"  OPEN TRANSACTION {row.words()}" for row in report.open_transactions]
    return lines


def _row_lines(row: TailRow) -> list[str]:
    dealt = [
        f"{count:,} {word}"
        for count, word in (
            (row.appended, "appended"),
            (row.refused, "refused and exported"),
            (row.dropped, "dropped"),
            (row.deleted, "offsets deleted at the source before they were rescued"),
            (row.lost_at_source, "copied offsets lost at the source (unclean election)"),
        )
        if count
    ]
    span = ""
    if row.first_ms is not None and row.last_ms is not None:
        span = (
            f", offsets {row.first}..{row.last}, "
            f"{time_text(row.first_ms)} to {time_text(row.last_ms)}"
        )
    more = f" ({'; '.join(dealt)})" if dealt else ""
    cut = "  APPENDING, or cut short: append again" if row.is_open else ""
    lines = [f"  {row.source}  {row.records:,} records{span}{more}{cut}"]
    lines += [
        f"    {shown['offset']}  {_text(shown['key'])}: {_text(shown['value'])}"
        for shown in row.sample
    ]
    return lines


def _text(content: str | None) -> str:
    if content is None:
        return "null"
    text = bytes_text(base64.b64decode(content))
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
