"""`heliostat failover`: mirrors are given away as they are, the source dead or half dead."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.errors import Refused

if TYPE_CHECKING:
    from heliostat.handover.failover import FailoverReport


@click.command("failover")
@click.argument("link")
@config_option
@click.option(
    "--topics", metavar="NAME", multiple=True, help="Only these, by names at the source; * works."
)
@click.option(
    "--drain",
    "drain_s",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="First wait so long at most for what the link still copies.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done, and be missing.")
@click.option(
    "--last", is_flag=True, help="Only tell again what was failed over, as the target knows it."
)
@click.option("--yes", is_flag=True, help="Do not ask for the link's name.")
@click.option("--why", default="", metavar="TEXT", help="Why; kept with the mirrors' ends.")
@by_option("Who does it")
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the whole report there: JSON if it ends in .json, else Markdown.",
)
@json_option
def failover_command(
    *,
    link: str,
    config_file: Path,
    topics: tuple[str, ...],
    drain_s: float,
    dry_run: bool,
    last: bool,
    yes: bool,
    why: str,
    by: str,
    report_file: Path | None,
    as_json: bool,
) -> None:
    r"""Give the mirrors of LINK away as they are: its source is gone, or can't be waited for.

    The link is kept out of them first: its driver gives them up, or else its leases are waited out.
    Then the report tells where each partition ended, what is known to be missing, and what groups
    read again. Rights that were held back are granted, and the target's registry is opened to
    producers. Nothing asks the source. There is no way back but `heliostat reverse`; call it again
    if it was cut short: it goes on, and tells the same.

    Exit code 0 once the mirrors may be written; 1 if it was refused, or they are given away but a
    right or the registry could not be opened: call it again; 3 if the target does not answer.

    \b
    Examples:
      heliostat failover summit-to-usdf --dry-run
      heliostat failover summit-to-usdf --why "fire on the summit" --report failover.md
      heliostat failover summit-to-usdf --topics 'lsst.sal.ESS.*' --drain 60 --yes
    """
    from heliostat.operate.failover import failover, last_failover
    from heliostat.operate.links import link_of

    config = known_config(config_file, link)
    chosen = link_of(config, link)
    if last:
        report = last_failover(config, chosen)
        if report is None:
            raise Refused(f"link {link} was never failed over", hint="leave out --last")
        _show(report, report_file, as_json=as_json)
        sys.exit(IN_SYNC)
    if not dry_run and not yes:
        typed = click.prompt("Type the link's name to give its mirrors away", err=True)
        if typed != link:
            raise click.BadParameter(f"{typed!r} is not {link!r}: nothing was done")
    report = failover(
        config,
        chosen,
        topics,
        by=by,
        why=why,
        drain_s=drain_s,
        dry_run=dry_run,
        tell=lambda text: click.echo(text, err=True),
    )
    _show(report, report_file, as_json=as_json)
    sys.exit(IN_SYNC if dry_run or report.is_target_open else DIFFERENCE)


def _show(report: FailoverReport, report_file: Path | None, *, as_json: bool) -> None:
    if report_file is not None:
        is_json = report_file.suffix == ".json"
        text = json.dumps(report.to_json(), indent=2) if is_json else report.markdown()
        report_file.write_text(text, encoding="utf-8")
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in report.lines():
            click.echo(line)
