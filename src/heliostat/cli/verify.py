"""`heliostat verify`: compare source and target by content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.config import Config, LinkConfig, load_config
from heliostat.errors import Refused
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.offsets.look import read_map_view
from heliostat.operate.links import links_of
from heliostat.operate.plan import NotCopied, not_copied
from heliostat.operate.status import link_statuses
from heliostat.operate.topics import TopicPreview, preview_topics
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.verify.ranges import NotMirrored, RangeSpec, TopicPair
from heliostat.verify.report import VerifyReport, joined
from heliostat.verify.schema_ids import NO_IDS, MirroredIds

if TYPE_CHECKING:
    from heliostat.verify.pipeline import OpenPipes


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
@click.option("--decode-all", is_flag=True, help="Decode equal batches, too.")
@click.option("--master", help="Spark master, instead of the configured one.")
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
    decode_all: bool,
    master: str | None,
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
    config = load_config(config_file)
    links = links_of(config, link_name)
    rows, left_out = _looked_at(config, links)
    pairs = {link.name: _pairs(rows[link.name], topics) for link in links}
    _check_topics(topics, pairs)
    try:
        ranges = RangeSpec(start=start, until=until, is_complete=complete)
    except Refused as error:
        raise click.BadParameter(error.text, param_hint="--from/--until") from error
    from heliostat.verify.pipeline import verify_pair  # Spark, only when the rest is in order

    reports: list[VerifyReport] = [
        verify_pair(
            master or config.spark.master,
            config.clusters[link.source].access(),
            config.clusters[link.target].access(),
            pairs[link.name],
            ranges=ranges,
            read_blocked=partial(_blocked, config, link),
            not_copied=_not_copied(left_out[link.name]),
            decode_all=decode_all,
            conf=config.spark.conf,
            read_map=partial(read_map_view, config, link),
            read_ids=partial(_ids, config, link),
            open_pipes=_pipes(config, link, rows[link.name], pairs[link.name]),
        )
        for link in links
    ]
    for one, link in zip(reports, links, strict=True):
        one.refused = _refused(left_out[link.name], pairs[link.name])
    report = joined(reports)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in report.lines():
            click.echo(line)
    context.exit(IN_SYNC if report.is_clean else DIFFERENCE)


def _looked_at(
    config: Config, links: Sequence[LinkConfig]
) -> tuple[dict[LinkName, list[TopicPreview]], dict[LinkName, NotCopied]]:
    """Return the topics of links, and which of them are not copied; all asked at once."""
    rows = PendingAnswer(
        partial(
            asked_at_once, {link.name: partial(preview_topics, config, link.name) for link in links}
        ),
        "topics of links",
    )
    left_out = asked_at_once({link.name: partial(not_copied, config, link) for link in links})
    return rows.answer(), left_out


def _check_topics(topics: Sequence[str], pairs: Mapping[LinkName, Sequence[TopicPair]]) -> None:
    found = {pair.source for some in pairs.values() for pair in some}
    if unknown := sorted(set(topics) - found):
        raise click.BadParameter(f"not mirrored: {', '.join(unknown)}", param_hint="--topic")


def _refused(left_out: NotCopied, pairs: Sequence[TopicPair]) -> dict[str, str]:
    """Return compared topics that the link, which has no state, would refuse if it ran."""
    compared = {pair.source for pair in pairs}
    return {name: why for name, why in left_out.would_refuse.items() if name in compared}


def _pairs(rows: Sequence[TopicPreview], topics: tuple[str, ...]) -> list[TopicPair]:
    return [
        TopicPair(row.topic, row.target, row.slot)
        for row in rows
        if row.target is not None and (not topics or row.topic in topics)
    ]


def _pipes(
    config: Config, link: LinkConfig, rows: Sequence[TopicPreview], pairs: Sequence[TopicPair]
) -> OpenPipes | None:
    """Return how the link's pipelines are made ready; None if none of these topics needs any."""
    if not any(pipeline_of(link, pair.source) for pair in pairs):
        return None
    mirrors = {row.topic: row.target for row in rows if row.target is not None}
    from heliostat.operate.verified_pipelines import open_pipes  # loads Arrow

    return partial(open_pipes, config, link, mirrors)


def _ids(config: Config, link: LinkConfig) -> MirroredIds:
    """Return which schema ids the link's mirrors have instead of the source's."""
    if link.schemas.strategy != "rewrite":
        return NO_IDS
    from heliostat.operate.schemas import mirrored_ids  # its HTTP client takes long to load

    return mirrored_ids(config, link)


def _blocked(config: Config, link: LinkConfig) -> Mapping[TopicPartition, NotMirrored]:
    """Return partitions that the link reports as not copied, and why; none if it never ran.

    What is retried is copied later; what is stopped needs a person.
    """
    [status] = link_statuses(config, link.name)
    return {
        TopicPartition(TopicName(one.source), PartitionId(one.partition)): NotMirrored(
            f"{one.state}: {one.reason}", is_problem=one.is_stopped
        )
        for one in status.problems
    }


def _not_copied(found: NotCopied) -> dict[TopicName, NotMirrored]:
    """Return topics that the link refuses, or leaves out as they come from its target."""
    refused = (
        (name, NotMirrored(f"the link refuses it: {why}", is_problem=True))
        for name, why in found.refused.items()
    )
    left_out = (
        (name, NotMirrored(f"the link leaves it out: {why}", is_problem=False))
        for name, why in found.left_out.items()
    )
    return dict((*left_out, *refused))
