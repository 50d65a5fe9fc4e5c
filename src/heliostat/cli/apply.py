"""`heliostat apply`: what `plan` says, done once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.changes import Change, Fate
from heliostat.cli.exit_codes import DIFFERENCE, HALTED, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, LinkTakenOver, Refused

if TYPE_CHECKING:
    from heliostat.operate.apply import ApplyAnswer, HowToApply

SHOWN_MAX = 200
"""Changes listed one by one; `--json` has all."""
_SIGNS = {
    Fate.DONE: "done",
    Fate.PLANNED: "would",
    Fate.HELD_BACK: "held back",
    Fate.WAITS: "waits",
}
_NOT_DONE = (ConnectionLost, BrokerError, Refused, LinkTakenOver)


@click.command("apply")
@click.argument("link_name", metavar="[LINK]", required=False)
@config_option
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@click.option(
    "--allow-delete",
    is_flag=True,
    help="Also unset settings that the source no longer has, and leave mirrors to other links.",
)
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--why", default="", metavar="TEXT", help="Why; a running link tells it.")
@by_option("Who wishes it")
@click.option(
    "--wait",
    "within_s",
    type=click.FloatRange(min=0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a running link to do it.",
)
@json_option
@click.pass_context
def apply_command(
    context: click.Context,
    *,
    link_name: str | None,
    config_file: Path,
    dry_run: bool,
    allow_delete: bool,
    yes: bool,
    why: str,
    by: str,
    within_s: float,
    as_json: bool,
) -> None:
    r"""Do once at the targets what `plan` says, of LINK or of all links, without copying a record.

    Creates and grows topics, sets their settings, and publishes offsets of groups where that is
    turned on. A link that runs does it itself: it is ordered to. One that does not is claimed for
    as long as this takes. Nothing is deleted or unset without --allow-delete; done again it changes
    nothing. Exit code 0 when nothing is left to do, or it was only tried; 1 when something failed,
    was held back, waits or is refused; 3 when a cluster does not answer.

    \b
    Examples:
      heliostat apply --dry-run
      heliostat apply summit-to-usdf --yes
      heliostat apply summit-to-usdf --allow-delete
    """
    from heliostat.operate.apply import HowToApply, apply_link
    from heliostat.operate.links import links_of
    from heliostat.other_links.same_file import ask_topics
    from heliostat.other_links.same_process import TopicNames

    config = known_config(config_file, link_name)
    how = HowToApply(by, why, within_s, dry_run, allow_delete)
    names = TopicNames(partial(ask_topics, config))
    answers: list[ApplyAnswer] = []
    failed: dict[str, HeliostatError] = {}
    for link in links_of(config, link_name):  # one after the other: each may ask
        agree = (lambda _: True) if yes else _asks(link.name, how)
        try:
            answers.append(apply_link(config, link, how, agree, names_of=names.of))
        except _NOT_DONE as error:
            failed[link.name] = error
    if as_json:
        rows = [answer.to_json() for answer in answers]
        rows += [{"link": name, "error": str(error)} for name, error in failed.items()]
        click.echo(json.dumps(rows, indent=2))
    else:
        for answer in answers:
            click.echo("\n".join(apply_lines(answer)))
    for name, why_not in failed.items():
        click.echo(f"heliostat: link {name}: {why_not}", err=True)
    if failed:
        context.exit(HALTED)
    context.exit(
        IN_SYNC if all(answer.is_done or answer.is_tried for answer in answers) else DIFFERENCE
    )


def _asks(link: str, how: HowToApply) -> Callable[[Sequence[Change]], bool]:
    def agree(changes: Sequence[Change]) -> bool:
        allowed = [change for change in changes if how.allow_delete or not change.is_deletion]
        for change in allowed[:SHOWN_MAX]:
            click.echo(f"  {change.text()}", err=True)
        if allowed[SHOWN_MAX:]:
            click.echo(f"  and {len(allowed) - SHOWN_MAX} more", err=True)
        return click.confirm(f"link {link}: do these {len(allowed)} changes?", err=True)

    return agree


def apply_lines(answer: ApplyAnswer) -> list[str]:
    """Return what became of it, for people: what is not done first."""
    rows = sorted(answer.outcomes, key=lambda outcome: outcome.fate is Fate.DONE)
    who = " by the running link" if answer.by_owner and not answer.is_tried else ""
    counts = [
        f"{len(some)} {word}"
        for fate, word in ((Fate.DONE, f"changes done{who}"), (Fate.FAILED, "failed"))
        if (some := answer.of(fate))
    ]
    counts += [
        f"{len(some)} {word}"
        for fate, word in (
            (Fate.PLANNED, "changes would be done"),
            (Fate.HELD_BACK, "held back (--allow-delete)"),
            (Fate.WAITS, "wait"),
        )
        if (some := answer.of(fate))
    ]
    counts += [f"{len(answer.refused)} topics refused"] if answer.refused else []
    said = ", ".join(counts) or "nothing to change"
    tried = "; nothing was changed" if answer.is_tried and answer.outcomes else ""
    lines = [f"link {answer.link}: {said}{tried}"]
    for outcome in rows[:SHOWN_MAX]:
        sign = _SIGNS.get(outcome.fate, outcome.fate.value)
        lines.append(
            f"  {sign}: {outcome.change.text()}" + (f" ({outcome.text})" if outcome.text else "")
        )
    if rows[SHOWN_MAX:]:
        lines.append(f"  and {len(rows) - SHOWN_MAX} more")
    lines += [f"  refused {name}: {why}" for name, why in answer.refused.items()]
    lines += [f"  differs: {line}" for line in answer.drift]
    return lines
