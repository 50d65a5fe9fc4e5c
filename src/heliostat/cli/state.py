"""`heliostat state`: rebuild what a link knows about its mirrors, if it was lost."""

from __future__ import annotations

import re
from pathlib import Path

import click

from heliostat.cli.changes import show
from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option
from heliostat.operate.links import link_of
from heliostat.operate.pipes_alone import pipes_alone
from heliostat.rebuild.plan import RebuildPlan
from heliostat.rebuild.state import plan_rebuild, rebuild_state


@click.group("state")
def state_group() -> None:
    r"""Rebuild what a link knows about its mirrors after its state was lost, whole or in part.

    \b
    Examples:
      heliostat state rebuild summit-to-usdf -c heliostat.yaml --dry-run
    """


@state_group.command("rebuild")
@click.argument("link_name", metavar="[LINK]", required=False)
@config_option
@click.option("--topics", metavar="REGEX", help="Only source topics whose full name matches.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@json_option
@click.pass_context
def rebuild_command(
    context: click.Context,
    *,
    link_name: str | None,
    config_file: Path,
    topics: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Take back mirrors that the link does not know as its own, if contents prove them.

    Those are the ones that heliostat.LINK.state does not list; that have stopped as FOREIGN_TAIL;
    and all, where the link's producer id is lost. The link must be stopped. Compares all records of
    both sides, through the mirror's offset map if it has one. If all records that both sides still
    have are equal and in order, the mirror belongs to the link again and continues where it ends; a
    lost offset map is rebuilt. Any other mirror stays refused, with the first offset that differs.
    Of a mirror with a pipeline, what it makes of the source's records now is compared; of a topic
    that both sites write (topics.naming merge) what the link itself has brought. If the last
    driver was killed, the command first waits until it can't send any more: a round and some
    seconds.

    Exit code 0 when every mirror was (or can be) taken back, 1 when one is refused.

    \b
    Examples:
      heliostat state rebuild summit-to-usdf -c heliostat.yaml --dry-run
      heliostat state rebuild summit-to-usdf -c heliostat.yaml --yes
      heliostat state rebuild -c heliostat.yaml --topics 'lsst[.].*' --yes --json
    """
    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    if topics is not None:
        try:
            re.compile(topics)
        except re.error as error:
            raise click.BadParameter(f"{topics}: {error}", param_hint="--topics") from error

    def agree(plan: RebuildPlan) -> bool:
        if yes:
            return True
        _show(plan, as_json=False)
        return click.confirm("Do it?", err=True)

    pipes = pipes_alone(config, link)
    if dry_run:
        outcome = plan_rebuild(config, link, pipes, topics)
    else:
        outcome = rebuild_state(config, link, pipes, topics, agree)
    if dry_run or yes or as_json or not outcome.taken:
        _show(outcome, as_json=as_json)
    context.exit(DIFFERENCE if outcome.has_refusals else IN_SYNC)


def _show(plan: RebuildPlan, *, as_json: bool) -> None:
    show(plan, f"link {plan.link}", as_json=as_json)
