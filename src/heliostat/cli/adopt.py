"""`heliostat adopt`: take over copies of MirrorMaker 2 or another tool, or hand mirrors back."""

from __future__ import annotations

from pathlib import Path

import click

from heliostat.cli.changes import show
from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import config_option, json_option, peer_options
from heliostat.mm2.adopt import adopt, plan_adoption
from heliostat.mm2.adopt_plan import AdoptionPlan, HandbackPlan, peer_of
from heliostat.mm2.hand_back import hand_back, plan_handback
from heliostat.operate.links import link_of


@click.command("adopt")
@click.argument("link_name", metavar="[LINK]", required=False)
@config_option
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--back", is_flag=True, help="Hand back, so that MirrorMaker 2 continues.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option(
    "--connector",
    metavar="NAME",
    help="Name of the source connector; MirrorSourceConnector by default, as in dedicated mode.",
)
@peer_options
@click.option(
    "--by-contents",
    is_flag=True,
    help="Any tool has made the copies: find by contents alone where they end.",
)
@json_option
@click.pass_context
def adopt_command(
    context: click.Context,
    link_name: str | None,
    config_file: Path,
    *,
    dry_run: bool,
    back: bool,
    yes: bool,
    alias: str | None,
    connector: str | None,
    offsets_topic: str | None,
    group: str | None,
    workers_run_on: bool,
    by_contents: bool,
    as_json: bool,
) -> None:
    r"""Take over the topics that a MirrorMaker 2 has copied, in place; or hand them back.

    MirrorMaker 2 must be stopped. Its committed offsets lag behind what it has written, so both
    logs are compared by content: each partition continues with the first source record that is not
    at the target yet. If that can't be determined, the topic is refused, with the reason, and stays
    as it is. With --back the link must be stopped; MirrorMaker 2 then continues where it ended.

    With --by-contents copies of any other tool are taken over, such as Confluent Replicator or
    uReplicator: records with the source's keys, values, headers and timestamps, in its partitions
    and its order. That tool must be stopped, and no position of it is read.

    Exit code 0 when every topic was (or can be) taken over, 1 when one is refused.

    \b
    Examples:
      heliostat adopt summit-to-usdf -c heliostat.yaml --dry-run
      heliostat adopt summit-to-usdf -c heliostat.yaml --yes
      heliostat adopt summit-to-usdf -c heliostat.yaml --back --yes
      heliostat adopt --connector copy --offsets-topic connect-offsets --group connect --alias S
      heliostat adopt summit-to-usdf -c heliostat.yaml --by-contents --dry-run
    """
    if by_contents and (back or workers_run_on or alias or connector or offsets_topic or group):
        raise click.UsageError(
            "--by-contents reads no positions: without --back and options of MirrorMaker 2"
        )
    config = known_config(config_file, link_name)
    link = link_of(config, link_name)
    peer = peer_of(
        link,
        alias=alias,
        connector=connector,
        topic=offsets_topic,
        group=group,
        workers_run_on=workers_run_on,
    )

    def agree(plan: AdoptionPlan | HandbackPlan) -> bool:
        if yes:
            return True
        _show(plan, as_json=False)
        return click.confirm("Do it?", err=True)

    outcome: AdoptionPlan | HandbackPlan
    if back:
        outcome = (
            plan_handback(config, link, peer) if dry_run else hand_back(config, link, peer, agree)
        )
    else:
        tool = None if by_contents else peer
        outcome = plan_adoption(config, link, tool) if dry_run else adopt(config, link, tool, agree)
    if dry_run or yes or as_json:
        _show(outcome, as_json=as_json)
    refused = isinstance(outcome, AdoptionPlan) and outcome.has_refusals
    context.exit(DIFFERENCE if refused else IN_SYNC)


def _show(plan: AdoptionPlan | HandbackPlan, *, as_json: bool) -> None:
    by = (
        "contents"
        if plan.peer is None
        else f"MirrorMaker 2's positions in {plan.peer.offsets_topic}"
    )
    show(plan, f"link {plan.link}, by {by}", as_json=as_json)
