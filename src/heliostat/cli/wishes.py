"""`heliostat pause`, `resume`, `stop` and `start`: what an operator wishes of a link."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import click

from heliostat.cli.completion import link_names
from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option

if TYPE_CHECKING:
    from heliostat.operate.wishes import WishAnswer

NAMES_MAX = 20
_Command = TypeVar("_Command", bound=Callable[..., Any])


def wish_options(command: _Command) -> _Command:
    """Add what all these verbs have in common."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.argument("link", shell_complete=link_names),
    config_option,
    click.option("--why", default="", metavar="TEXT", help="Why; shown wherever it matters."),
    by_option("Who wishes it"),
    click.option(
        "--wait",
        "within_s",
        type=click.FloatRange(min=0),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait until the link's owner has carried it out.",
    ),
    click.option("--dry-run", is_flag=True, help="Only tell what would change."),
    json_option,
)
topics_option = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[-PARTITION]",
    help="Only this topic, by its name at the source, or this partition; may be repeated.",
)


@click.command("pause")
@wish_options
@topics_option
def pause_command(**options: Any) -> None:
    r"""Let LINK, or topics of it, copy nothing until `resume`.

    What is under way is finished. Topics, schemas and groups are still kept in step, and the lag is
    measured all the while. The wish lies on the target: it outlasts drivers, and any machine may
    write it. Exit code 0 once the link's owner has carried it out, 1 while it waits.

    \b
    Examples:
      heliostat pause summit-to-usdf --why "disk of usdf is full"
      heliostat pause summit-to-usdf --topic lsst.sal.ESS.hvac --topic lsst.sal.MTM1M3-3
    """
    _wish("paused", **options)


@click.command("resume")
@wish_options
@topics_option
def resume_command(**options: Any) -> None:
    r"""Let LINK, or topics of it, go on after `pause` or `stop`.

    Topics that were paused by name stay paused until they are resumed by name.

    \b
    Examples:
      heliostat resume summit-to-usdf
      heliostat resume summit-to-usdf --topic lsst.sal.ESS.hvac
    """
    _wish("running", **options)


@click.command("stop")
@wish_options
def stop_command(**options: Any) -> None:
    r"""Let LINK do nothing at either cluster until `start`; its driver stays, and owns it.

    Records, topics, groups and schemas stay as they are. To end the driver itself, end its process.

    \b
    Example:
      heliostat stop summit-to-usdf --why "usdf is moved to new machines"
    """
    _wish("stopped", **options)


@click.command("start")
@wish_options
def start_command(**options: Any) -> None:
    r"""Let LINK go on after `stop` or `pause`. A link without a driver needs `heliostat run`.

    \b
    Example:
      heliostat start summit-to-usdf
    """
    _wish("running", **options)


def _wish(
    wished: str,
    *,
    link: str,
    config_file: Path,
    why: str,
    by: str,
    within_s: float,
    dry_run: bool,
    as_json: bool,
    topics: tuple[str, ...] = (),
) -> None:
    from heliostat.operate.links import link_of
    from heliostat.operate.wishes import make_wish
    from heliostat.wishes.wish import WishedState

    config = known_config(config_file, link)
    answer = make_wish(
        config,
        link_of(config, link),
        WishedState(wished),
        topics,
        by=by,
        why=why,
        within_s=within_s,
        dry_run=dry_run,
    )
    tell(answer, answer_lines(answer), as_json=as_json)


class OwnerAnswer(Protocol):
    """What became of what a link's owner is to carry out."""

    @property
    def is_done(self) -> bool:
        """Whether it is carried out."""
        ...

    @property
    def is_tried(self) -> bool:
        """Whether it was only asked what would be done."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        ...


def tell(answer: OwnerAnswer, lines: Sequence[str], *, as_json: bool) -> NoReturn:
    """Print what became of it, and end: with 0 once it is done, or was only tried."""
    click.echo(json.dumps(answer.to_json(), indent=2) if as_json else "\n".join(lines))
    sys.exit(IN_SYNC if answer.is_done or answer.is_tried else DIFFERENCE)


def answer_lines(answer: WishAnswer) -> list[str]:
    """Return what became of a wish, for people."""
    where = (
        answer.link
        if answer.places == ("the link",)
        else f"{answer.link}: {names_text(answer.places)}"
    )
    concerned = f"{answer.partitions:,} partitions"
    if answer.is_tried:
        change = "would be" if answer.changed else "is already wished to be"
        lines = [f"{where} {change} {answer.wished.value} ({concerned}); nothing was changed"]
    elif answer.is_done:
        already = "" if answer.changed else "already "
        lines = [f"{where} is {already}{answer.wished.value} ({concerned}, {answer.took_s:.1f} s)"]
    else:
        lines = [f"{where} is to be {answer.wished.value} ({concerned}), and waits: {answer.waits}"]
    if answer.still_paused:
        lines.append(f"still paused by name: {names_text(answer.still_paused)}")
    return lines


def names_text(names: tuple[str, ...]) -> str:
    """Return names, or the first of many."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
