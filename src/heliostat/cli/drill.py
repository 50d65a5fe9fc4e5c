"""`heliostat drill`: rehearse a switch on the real clusters, with made-up topics and groups."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.config import read_config_file

if TYPE_CHECKING:
    from heliostat.config import ConfigFile, LinkConfig
    from heliostat.handover.drill_report import DrillReport, DrillStep


@click.command("drill")
@click.argument("link")
@config_option
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    metavar="N",
    help="Of all made-up topics together.",
)
@click.option(
    "--records-a-second",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="What producers write.",
)
@click.option("--failover", is_flag=True, help="Rehearse a failover, too.")
@click.option(
    "--still-s",
    type=click.FloatRange(min=0),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long the source's ends must stand still.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be made, and what is missing.")
@click.option("--clean", is_flag=True, help="Only remove what drills have left that crashed.")
@click.option("--yes", is_flag=True, help="Do not ask for the link's name.")
@by_option("Who rehearses")
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the report there: JSON if it ends in .json, else Markdown.",
)
@json_option
def drill_command(
    *,
    link: str,
    config_file: Path,
    partitions: int,
    records_a_second: int,
    failover: bool,
    still_s: float,
    dry_run: bool,
    clean: bool,
    yes: bool,
    by: str,
    report_file: Path | None,
    as_json: bool,
) -> None:
    r"""Rehearse a switch of LINK and the way back on its clusters, with made-up topics and groups.

    Their names begin with `drill-`, and they have a link, producers and readers of their own; what
    LINK copies is only read. Each record and each offset is counted, times are scaled to LINK, and
    rights that are missing are named. Nothing is left; after a crash the next drill, or --clean,
    removes what it left. Exit code 0 if what was rehearsed went well, 1 if not.

    \b
    Examples:
      heliostat drill summit-to-usdf --dry-run
      heliostat drill summit-to-usdf --report drill.md
      heliostat drill summit-to-usdf --partitions 500 --records-a-second 2000 --failover
      heliostat drill summit-to-usdf --clean
    """
    from heliostat.handover.drill import DrillWish
    from heliostat.operate.drill import drill, plan_drill
    from heliostat.operate.links import link_of

    of = link_of(known_config(config_file, link), link)
    file = read_config_file(config_file)
    wish = DrillWish(partitions, records_a_second, failover, still_s, by=by)
    if dry_run:
        plan = plan_drill(file, of, wish)
        click.echo(json.dumps(plan.to_json(), indent=2) if as_json else "\n".join(plan.lines()))
        sys.exit(IN_SYNC if plan.is_possible else DIFFERENCE)
    if not yes:
        _confirm(link)
    if clean:
        _clean(file, of, as_json=as_json)
        return
    report = drill(file, of, wish, _show_step)
    _show(report, report_file, as_json=as_json)
    sys.exit(DIFFERENCE if report.verdict.value == "not_ready" else IN_SYNC)


def _confirm(link: str) -> None:
    typed = click.prompt(f"Type the link's name to drill {link}", default="", show_default=False)
    if typed != link:
        raise click.BadParameter("that is not the link's name; nothing was done")


def _clean(file: ConfigFile, link: LinkConfig, *, as_json: bool) -> None:
    from heliostat.operate.drill import clean_drills

    cleaned = clean_drills(file, link)
    if as_json:
        click.echo(json.dumps({"link": link.name, "cleaned": list(cleaned)}))
    else:
        click.echo(f"cleaned: {', '.join(cleaned)}" if cleaned else "no drill has left anything")


def _show_step(step: DrillStep) -> None:
    click.echo(step.line(), err=True)


def _show(report: DrillReport, report_file: Path | None, *, as_json: bool) -> None:
    text = json.dumps(report.to_json(), indent=2)
    if report_file is not None:
        is_json = report_file.suffix == ".json"
        report_file.write_text(text + "\n" if is_json else report.markdown(), encoding="utf-8")
    if as_json:
        click.echo(text)
        return
    for line in report.lines():
        click.echo(line)
