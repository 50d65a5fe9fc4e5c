"""`heliostat export`: records of a topic as Parquet files, or in another topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.names import TopicName

if TYPE_CHECKING:
    from heliostat.operate.destination import Destination

MEBIBYTE = 1 << 20
_Command = TypeVar("_Command", bound=Callable[..., Any])
file_option = click.option(
    "--file-mb",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    help="After so many MiB of records another file begins.",
)


def destination_options(prefix: str = "") -> Callable[[_Command], _Command]:
    """Return the options that say where records go; `destination_of` reads them."""

    def added(command: _Command) -> _Command:
        named = prefix or "--to-"
        parquet = click.option(
            f"{prefix}parquet" if prefix else "--parquet",
            "folder",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="A folder of Parquet files.",
        )
        topic = click.option(
            f"{named}topic", "to_topic", metavar="TOPIC", help="A topic that is no mirror."
        )
        return parquet(topic(file_option(command)))

    return added


def destination_of(folder: Path | None, to_topic: str | None, file_mb: int) -> Destination | None:
    """Return where records go; None: nothing was said."""
    from heliostat.operate.destination import Destination

    if folder is not None and to_topic is not None:
        raise click.UsageError("files or a topic, not both")
    if folder is None and to_topic is None:
        return None
    topic = None if to_topic is None else TopicName(to_topic)
    return Destination(folder, topic, file_mb * MEBIBYTE)


@click.command("export")
@click.argument("topic")
@config_option
@click.option("--cluster", "alias", metavar="ALIAS", required=True, help="Where the topic is.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; may be repeated.",
)
@click.option("--from", "start", type=click.IntRange(0), metavar="OFFSET", help="First offset.")
@click.option("--to", "stop", type=click.IntRange(0), metavar="OFFSET", help="End, not included.")
@click.option("--uncommitted", is_flag=True, help="Records of open and aborted transactions, too.")
@destination_options()
@click.option("--dry-run", is_flag=True, help="Only tell which offsets.")
@json_option
def export_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    config_file: Path,
    alias: str,
    partitions: tuple[int, ...],
    start: int | None,
    stop: int | None,
    uncommitted: bool,
    folder: Path | None,
    to_topic: str | None,
    file_mb: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    r"""Write records of TOPIC, at any cluster, to Parquet files or to another topic there.

    The same offsets give files of the same names: whoever is cut short runs it again. In a topic
    each record has a header `heliostat.origin`, and is written once.

    \b
    Examples:
      heliostat export orders --cluster west --from 1200 --to 1300 --parquet rescued/
      heliostat export orders --cluster west --partition 3 --to-topic orders.kept
    """
    from heliostat.operate.export import ExportRange, export_topic

    destination = destination_of(folder, to_topic, file_mb)
    if destination is None:
        raise click.UsageError("one of --parquet and --to-topic is needed")
    what = ExportRange(partitions, start, stop, not uncommitted)
    answer = export_topic(
        known_config(config_file), alias, TopicName(topic), what, destination, dry_run=dry_run
    )
    if as_json:
        click.echo(json.dumps(answer.to_json(), indent=2))
        return
    for row in answer.partitions:
        words = "would be read" if dry_run else f"{row.records:,} records were written"
        click.echo(f"{row.partition} offsets {row.start}..{row.stop}: {words}")
