"""`heliostat verify`: compare source and target by content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.cli.progress_lines import ProgressLines
from heliostat.errors import HeliostatError, Refused
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.operate.links import links_of
from heliostat.operate.verify import to_verify, verify_links
from heliostat.verify.ranges import RangeSpec


@click.command("verify")
@config_option
@link_option
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this source topic.")
@json_option
@click.option("--from", "start", type=click.IntRange(min=0), help="First offset.")
@click.option("--until", type=click.IntRange(min=0), help="End offset, not included.")
@click.option(
    "--complete", is_flag=True, help="Count records missing at the end of the target as lost."
)
@click.option(
    "--rest-of",
    "rest_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    hidden=True,
    help="Topics, and first offsets as rows of topic, partition, offset: JSON of a switch.",
)
@click.option("--decode-all", is_flag=True, help="Decode equal batches, too.")
@click.option("--master", help="Spark master, instead of the configured one.")
@click.option(
    "--progress",
    "tells_progress",
    is_flag=True,
    hidden=True,
    help="Tell by JSON lines how far it is, and end when standard input does.",
)
@click.pass_context
def verify_command(
    context: click.Context,
    *,
    config_file: Path,
    link_name: str | None,
    topics: tuple[str, ...],
    as_json: bool,
    start: int | None,
    until: int | None,
    complete: bool,
    rest_file: Path | None,
    decode_all: bool,
    master: str | None,
    tells_progress: bool,
) -> None:
    r"""Compare source and target by content, on Spark, while the link may be running.

    Compares count, offsets, order, keys, values, headers and timestamps of each mirrored
    partition: all records that both sides have when it begins, or the given range. If offsets
    differ between the sides, each record must be at the offset that the link's offset map says.
    Records removed by compaction, on either side, do not count as lost. Where the link puts the
    target's schema ids into records, each must be what its id is by both registries as they are
    now. Records that go through a pipeline are compared with what it makes of the source's now. A
    topic that the link refuses is listed with the reason, and not compared.
    Exit code 0 when no difference was found, 1 when one was, when nothing or not everything could
    be compared, or when partitions are stopped with records missing, 3 when a cluster does not
    answer.

    \b
    Examples:
      heliostat verify -c heliostat.yaml
      heliostat verify -c heliostat.yaml --link summit-to-usdf --topic ESS-0 --json
      heliostat verify -c heliostat.yaml --complete      after the producers have stopped
    """
    config = known_config(config_file, link_name)
    rest = None if rest_file is None else json.loads(rest_file.read_text(encoding="utf-8"))
    if rest is not None:
        topics = tuple(rest["topics"])
    lines = ProgressLines() if tells_progress else None
    try:
        wanted = to_verify(config, links_of(config, link_name), topics)
        if unknown := wanted.not_mirrored(topics):
            raise click.BadParameter(f"not mirrored: {', '.join(unknown)}", param_hint="--topic")
        report = verify_links(
            wanted,
            _ranges(start, until, rest["starts"] if rest else (), is_complete=complete),
            master=master,
            decode_all=decode_all,
            counted=None if lines is None else lines.counted,
        )
    except HeliostatError as error:
        if lines is not None:
            lines.problem(error)
        raise
    if lines is not None:
        lines.result(report)
    elif as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in report.lines():
            click.echo(line)
    context.exit(IN_SYNC if report.is_clean else DIFFERENCE)


def _ranges(
    start: int | None,
    until: int | None,
    rows: Iterable[tuple[TopicName, PartitionId, int]],
    *,
    is_complete: bool,
) -> RangeSpec:
    starts = {TopicPartition(topic, partition): offset for topic, partition, offset in rows}
    try:
        return RangeSpec(start=start, until=until, is_complete=is_complete, starts=starts)
    except Refused as error:
        raise click.BadParameter(error.text, param_hint="--from/--until") from error
