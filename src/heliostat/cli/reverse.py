"""`heliostat reverse`: fail back without a full copy."""

from __future__ import annotations

from pathlib import Path

import click

from heliostat.cli.changes import show
from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.operate.links import link_of
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import ReturnState, Reversal, Tail


@click.command("reverse")
@click.argument("link_name", metavar="LINK")
@click.argument("back_name", metavar="BACK")
@config_option
@click.option(
    "--topics",
    multiple=True,
    metavar="TOPIC",
    help="Only this topic, by its name at the old source; may be repeated.",
)
@click.option(
    "--tail",
    type=click.Choice([choice.value for choice in Tail]),
    default=Tail.REFUSE.value,
    show_default=True,
    help="What becomes of topics whose old source has records that never crossed.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@by_option("Who does it")
@json_option
@click.pass_context
def reverse_command(
    context: click.Context,
    link_name: str,
    back_name: str,
    config_file: Path,
    *,
    topics: tuple[str, ...],
    tail: str,
    dry_run: bool,
    yes: bool,
    by: str,
    as_json: bool,
) -> None:
    r"""Have link BACK copy to the old source of LINK what came to the new primary since.

    LINK's mirrors were promoted by `heliostat switch` or `failover`. Where the old source's log is
    equal to the new primary's up to the promotion, nothing is copied again: BACK goes on behind it.
    BACK must lead the other way; if it runs, it rests for some seconds, else start it afterwards.
    Records at the old source that never crossed are never cut away: with `--tail keep` they stay
    and offsets differ behind them, with `--tail leave` the topic is not copied back. With `--tail
    recreate` such a topic is deleted there, made again as it was, and copied whole, at equal
    offsets: once `heliostat tail` has nothing left to rescue, and only if the new primary still
    has all that it holds. Offsets of groups beyond the promotion are set back to it first.

    Exit code 0 when every topic is (or can be) copied back, 1 when one is refused or left.

    \b
    Examples:
      heliostat reverse summit-to-usdf usdf-to-summit --dry-run
      heliostat reverse summit-to-usdf usdf-to-summit --topics lsst.sal.MTM1M3.logevent_heartbeat
      heliostat reverse summit-to-usdf usdf-to-summit --tail keep --yes
      heliostat reverse summit-to-usdf usdf-to-summit --tail recreate --dry-run
    """
    config = known_config(config_file, link_name)
    link, back = link_of(config, link_name), link_of(config, back_name)

    def agree(reversal: Reversal) -> bool:
        if yes:
            return True
        _show(reversal, as_json=False)
        return click.confirm(f"Have {back.name} copy them back?", err=True)

    reversal = reverse(
        config, link, back, topics, tail=Tail(tail), dry_run=dry_run, agree=agree, by=by
    )
    if dry_run or yes or as_json:
        _show(reversal, as_json=as_json)
    if reversal.is_written and not as_json:
        click.echo(
            f"link {back.name} copies back {len(reversal.ready):,} topics: start it if it does not "
            "run"
        )
    whole = all(topic.state in {ReturnState.READY, ReturnState.DONE} for topic in reversal.topics)
    context.exit(IN_SYNC if whole else DIFFERENCE)


def _show(reversal: Reversal, *, as_json: bool) -> None:
    show(reversal, f"link {reversal.link}, back by {reversal.back}", as_json=as_json)
