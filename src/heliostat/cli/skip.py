"""`heliostat offsets skip`: a mirror of a stopped link goes on at a later source offset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option, link_option
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition

if TYPE_CHECKING:
    from heliostat.operate.skip import PartitionSkip


@click.command("skip")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.option(
    "--to",
    "to",
    type=click.IntRange(min=0),
    required=True,
    metavar="OFFSET",
    help="The source offset to copy next.",
)
@config_option
@link_option
@by_option("Who decides it")
@click.option("--dry-run", is_flag=True, help="Only tell what would be left out.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
def skip_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    partition: int,
    to: int,
    config_file: Path,
    link_name: str | None,
    by: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Have the mirror of TOPIC PARTITION go on at a later source offset; what is between is lost.

    For a stopped link (`heliostat stop`): the records up to OFFSET are never copied, and are
    recorded as a gap. The mirror goes on behind it once the link starts. Names and offsets are the
    source's. Backwards is refused, as records would be copied twice.

    \b
    Examples:
      heliostat offsets skip orders 0 --to 1200 --dry-run
      heliostat offsets skip orders 0 --to 1200 --link east-to-west --by ops --yes
    """
    from heliostat.operate.links import link_of
    from heliostat.operate.skip import skip

    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    place = TopicPartition(TopicName(topic), PartitionId(partition))
    answer = skip(config, link, {place: Offset(to)}, by=by, dry_run=True)
    [item] = answer.items
    if item.row is not None and not dry_run:
        if not yes:
            for line in _lines(item, is_tried=True):
                click.echo(line, err=True)
            click.confirm(f"leave out {item.row.text}?", abort=True, err=True)
        answer = skip(config, link, {place: Offset(to)}, by=by)
        [item] = answer.items
    if as_json:
        click.echo(json.dumps(answer.to_json(), indent=2))
        return
    for line in _lines(item, is_tried=dry_run):
        click.echo(line)


def _lines(item: PartitionSkip, *, is_tried: bool) -> list[str]:
    if item.row is None:
        return [f"{item.source}: goes on at source offset {item.to} anyway"]
    verb = "would be left out" if is_tried else "are left out, once the link starts"
    return [
        f"{item.source}: {item.row.text} {verb}",
        f"  consumers see: {item.consumers}",
    ]
