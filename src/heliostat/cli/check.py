"""`heliostat check`: whether a configuration would run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, link_option

if TYPE_CHECKING:
    from heliostat.operate.finding import CheckReport, Finding

SIGNS = {"fine": "ok", "note": "note", "problem": "FAIL"}


@click.command("check")
@config_option
@link_option
@click.option(
    "--try",
    "tries",
    is_flag=True,
    help="Also try at the target what a link does, on a topic that is removed again.",
)
@click.option(
    "--spark/--no-spark",
    "starts_spark",
    default=True,
    help="Start Spark as `run` does, which takes 5 s; without it only its address is tried.",
)
@click.option("--problems", "only_problems", is_flag=True, help="Show no line that is fine.")
@json_option
def check_command(
    *,
    config_file: Path,
    link_name: str | None,
    tries: bool,
    starts_spark: bool,
    only_problems: bool,
    as_json: bool,
) -> None:
    r"""Say whether a configuration would run: clusters, rights, registries, Spark, service, files.

    Changes nothing, and says all problems at once, each with a code and a hint. Rights are those of
    `heliostat acls`: brokers are asked for each, by requests that could do nothing. All is asked at
    the same time; what hangs costs some seconds. With --try a topic is made at each target,
    written, read, changed and removed: restricted and managed clusters refuse some of that by
    policies which no right shows. A topic that a killed --try has left is removed by the next one.

    Exit code 0 if it would run, notes or not; 1 if there is a problem; 2 if the file is refused.

    \b
    Examples:
      heliostat check -c heliostat.yaml
      heliostat check -c heliostat.yaml --link summit-to-usdf --try
      heliostat check --no-spark --problems --json | jq '.findings[] | {subject, code, hint}'
    """
    from heliostat.operate.check import check
    from heliostat.operate.links import links_of
    from heliostat.serve.check_service import service_findings

    config = known_config(config_file, link_name)
    report = check(
        config,
        links_of(config, link_name),
        of_service=service_findings,
        starts_spark=starts_spark,
        tries=tries,
    )
    if only_problems:
        report = report.without_fine()
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        _show(report)
    sys.exit(IN_SYNC if report.would_run else DIFFERENCE)


def _show(report: CheckReport) -> None:
    subject = ""
    for finding in report.findings:
        if finding.subject != subject:
            click.echo(finding.subject)
            subject = finding.subject
        click.echo(_line(finding))
    count = len(report.problems)
    problems = "1 problem" if count == 1 else f"{count} problems"
    click.echo(
        "it would run" if report.would_run else f"it would not run as configured: {problems}"
    )


def _line(finding: Finding) -> str:
    code = f"[{finding.code}] " if finding.code else ""
    hint = f" (hint: {finding.hint})" if finding.hint else ""
    return f"  {SIGNS[finding.standing.value]:<5}{code}{finding.text}{hint}"
