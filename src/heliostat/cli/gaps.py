"""`heliostat gaps` and `heliostat resolve`: lost records, open decisions, and their choices."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.ops.shown import time_text

if TYPE_CHECKING:
    from heliostat.gaps.choices import Facts
    from heliostat.gaps.ledger import GapRow
    from heliostat.operate.gaps import GapReport, PendingDecision
    from heliostat.operate.resolve import DecisionOptions

CHOICES = ("continue", "dead_letter", "restart", "wait")


@click.command("gaps")
@config_option
@link_option
@json_option
def gaps_command(config_file: Path, link_name: str | None, as_json: bool) -> None:
    r"""List lost records, why they were lost, who decided, and which partitions are stopped.

    Reads the links' ledgers at the targets, so it works on any machine. Exit code 0 when nothing
    waits for a decision, 1 when something does.

    \b
    Examples:
      heliostat gaps -c heliostat.yaml
      heliostat gaps -c heliostat.yaml --json | jq '.[].rows[] | select(.count == null)'
    """
    from heliostat.operate.gaps import gap_reports

    reports = gap_reports(known_config(config_file, link_name), link_name)
    if as_json:
        click.echo(json.dumps([report.to_json() for report in reports], indent=2))
    else:
        for report in reports:
            for line in _lines(report):
                click.echo(line)
    sys.exit(DIFFERENCE if any(report.stopped for report in reports) else IN_SYNC)


def _lines(report: GapReport) -> list[str]:
    lost = sum(row.count or 0 for row in report.rows)
    unknown = sum(1 for row in report.rows if row.count is None)
    lines = [
        f"link {report.link}: {len(report.rows)} gaps recorded, {lost} records lost"
        + (f", and {unknown} gaps of unknown size" if unknown else "")
        + f"; {len(report.stopped)} waiting for a decision; policy {report.policy}"
    ]
    lines += [f"  {_row_line(row)}" for row in report.rows]
    for item in report.stopped:
        lines.append(f"  WAITS {name_of(item)} {item.state} [{item.code}] {item.reason}")
        if item.decision is not None:
            said = item.decision
            lines.append(
                f"    decided: {said.choice.value}, by {said.decided_by} at {time_text(said.at_ms)}"
            )
        else:
            lines.append(f"    decide: heliostat resolve {_words(item)} --link {report.link}")
    return lines


def _row_line(row: GapRow) -> str:
    last = "?" if row.last is None else str(row.last)
    count = "unknown" if row.count is None else str(row.count)
    offsets = f"{row.first}..{last}" if row.last is None or row.last >= row.first else "-"
    pending = "" if row.is_done else " (not carried out yet)"
    return (
        f"{time_text(row.at_ms)}  {row.source}  offsets {offsets}  records lost {count}  "
        f"{row.cause.words}; {row.choice.value}, decided by {row.decided_by}{pending}"
    )


def name_of(item: PendingDecision) -> str:
    """Return the name of the topic or partition."""
    return item.topic if item.partition is None else str(TopicPartition(item.topic, item.partition))


def _words(item: PendingDecision) -> str:
    return item.topic if item.partition is None else f"{item.topic} {item.partition}"


@click.command("resolve")
@click.argument("topic")
@click.argument("partition", type=int, required=False)
@config_option
@link_option
@click.option(
    "--choose", type=click.Choice(CHOICES), default=None, help="The decision; omit it to explain."
)
@click.option("--by", "user", default=None, metavar="NAME", help="Who decides (default: you).")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
def resolve_command(  # noqa: PLR0917 - click passes them by name
    topic: str,
    partition: int | None,
    config_file: Path,
    link_name: str | None,
    choose: str | None,
    user: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Show what each choice means for a stopped TOPIC [PARTITION], and decide.

    Contacts both clusters and shows offsets, records and what consumers of the mirror would see.
    With --choose the decision is written to the target; a running link carries it out within a
    refresh interval, a stopped one after its next start.

    \b
    Examples:
      heliostat resolve ESS-0 --link summit-to-usdf
      heliostat resolve ESS-0 3 --link summit-to-usdf --choose continue
      heliostat resolve ESS-0 --choose restart --by ops --yes
    """
    from heliostat.gaps.choices import GapChoice
    from heliostat.operate.links import link_of
    from heliostat.operate.resolve import decide, explain

    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    number = None if partition is None else PartitionId(partition)
    explained = explain(config, link, TopicName(topic), number)
    if as_json and choose is None:
        click.echo(json.dumps([item.to_json() for item in explained], indent=2))
        return
    if not as_json:
        for line in _explanation(explained, choose):
            click.echo(line)
    if choose is None:
        return
    if not yes:
        click.confirm(f"{choose}?", abort=True, err=True)
    decisions = decide(config, link, explained, GapChoice(choose), user or getpass.getuser())
    if as_json:
        click.echo(json.dumps([item.to_json() for item in decisions], indent=2))
        return
    click.echo(
        f"decided: {choose} for {len(decisions)} of {topic}; the link carries it out within "
        f"{link.topics.refresh_interval_s:g} s, once it runs"
    )


def _at_target(facts: Facts) -> str:
    if not facts.is_merged:
        held = f"offsets {facts.target_start} to {facts.target_end - 1}"
    elif facts.own_end_unknown:
        held = f"an unknown number of the link's records: {facts.own_end_unknown}"
    else:
        held = f"{facts.target_end} records that the link has brought there"
    return f"  target {facts.target} has {held}"


def _explanation(explained: Sequence[DecisionOptions], choose: str | None) -> list[str]:
    lines: list[str] = []
    for item in explained:
        facts = item.facts
        lines += [
            f"{facts.source}: {item.stopped.state} [{item.stopped.code}] {item.stopped.reason}",
            f"  source has offsets {facts.source_start} to {facts.source_end - 1}",
            f"  next source offset of the mirror: {facts.position}",
            _at_target(facts),
        ]
        for option in item.options:
            if choose not in {None, option.choice.value}:
                continue
            if option.effect is None:
                lines.append(f"  {option.choice.value}: not possible, {option.why_not}")
                continue
            lines += [
                f"  {option.choice.value}:",
                f"    records lost: {option.effect.records}",
                f"    consumers see: {option.effect.consumers}",
            ]
    return lines
