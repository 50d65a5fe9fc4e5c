"""`heliostat exposure`: what would be lost, and read again, if a source were gone this moment."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.completion import link_names
from heliostat.cli.exit_codes import DIFFERENCE, HALTED, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.ops.shown import time_text

if TYPE_CHECKING:
    from heliostat.operate.exposure import LinkExposure

ROWS = 20
"""Topics and groups shown unless all are asked for."""


@click.command("exposure")
@click.argument("link", required=False, shell_complete=link_names)
@config_option
@click.option("--topics", metavar="NAME", multiple=True, help="Only these topics; * is a wildcard.")
@click.option("--partitions", "has_partitions", is_flag=True, help="Partition by partition.")
@click.option("--all", "shows_all", is_flag=True, help=f"All rows, not the first {ROWS} only.")
@json_option
def exposure_command(
    *,
    link: str | None,
    config_file: Path,
    topics: tuple[str, ...],
    has_partitions: bool,
    shows_all: bool,
    as_json: bool,
) -> None:
    r"""Tell what would be lost if the source of LINK were gone now, and what groups read again.

    Lost would be the records that the source has and the target has not, to the end of the source's
    logs: those of open transactions, too. Again a group would read what lies between its offset at
    the target and where it stands at the source; nothing, where its offset is published exactly. A
    group without an offset at the target reads all from the first record on, or what its own
    auto.offset.reset says. A figure is exact, *at least* so much, or not known. Changes nothing.

    Exit code 0 if nothing would be lost, nor read again by groups that are synced; 1 if something
    would, or might; 3 if it is not known.

    \b
    Examples:
      heliostat exposure -c heliostat.yaml
      heliostat exposure summit-to-usdf --topics 'lsst.sal.ESS.*' --partitions
      heliostat exposure summit-to-usdf --json | jq '.[0].would_be_lost'
    """
    from heliostat.operate.exposure import exposures

    link_exposures = exposures(known_config(config_file, link), link, topics)
    if as_json:
        click.echo(json.dumps([exposure.to_json() for exposure in link_exposures], indent=2))
    else:
        for exposure in link_exposures:
            for line in _lines(
                exposure, None if shows_all else ROWS, has_partitions=has_partitions
            ):
                click.echo(line)
    if not all(exposure.is_known for exposure in link_exposures):
        sys.exit(HALTED)
    sys.exit(IN_SYNC if all(exposure.is_nothing for exposure in link_exposures) else DIFFERENCE)


def _lines(exposure: LinkExposure, rows: int | None, *, has_partitions: bool) -> Iterator[str]:
    yield exposure.text()
    yield from (
        f"  no mirror: {name}: {why}" for name, why in sorted(exposure.refused.items())[:rows]
    )
    of_topics = [
        (topic.source, topic.would_be_lost)
        for topic in exposure.topics
        if (topic.would_be_lost.records, topic.would_be_lost.truth) != (0, "exact")
    ]
    of_partitions = [
        (f"{partition.source}-{partition.partition} ({partition.state})", partition.would_be_lost)
        for partition in exposure.partitions
        if (partition.would_be_lost.records, partition.would_be_lost.truth) != (0, "exact")
    ]
    losses = of_partitions if has_partitions else of_topics
    yield from (f"  lost: {name}: {loss.text()}" for name, loss in losses[:rows])
    yield from _more(len(losses), rows)
    if exposure.groups_why:
        yield f"  groups are as the driver told them last: {exposure.groups_why}"
    if exposure.rereads is not None:
        yield f"  groups as of {time_text(exposure.rereads.at_ms)}"
    groups = [
        group for group in exposure.groups if (group.reread.records, group.reread.unknown) != (0, 0)
    ]
    for group in groups[:rows]:
        renamed = group.target_group not in {"", group.group}
        name = f"{group.group} → {group.target_group}" if renamed else group.group
        yield f"  read again: {name}: {group.text()}"
    yield from _more(len(groups), rows)


def _more(count: int, rows: int | None) -> Iterator[str]:
    if rows is not None and count > rows:
        yield f"  … {count - rows} more (--all)"
