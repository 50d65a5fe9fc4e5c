"""`heliostat restart`: what an operator orders of a link."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.wishes import names_text, tell, topics_option, wish_options

if TYPE_CHECKING:
    from heliostat.operate.orders import OrderAnswer


@click.command("restart")
@wish_options
@topics_option
def restart_command(
    *,
    link: str,
    config_file: Path,
    why: str,
    by: str,
    within_s: float,
    dry_run: bool,
    as_json: bool,
    topics: tuple[str, ...],
) -> None:
    r"""Let LINK begin anew, or try again what is stopped of its topics.

    Of a link all lanes begin anew, topics are reconciled now, and what is stopped is tried again.
    One that has halted begins again at once, and its restarts are counted from zero. The order lies
    on the target and is carried out once; one that was cut short says so, and is not repeated. Exit
    code 0 once it is done, 1 while it waits or if it was cut short.

    \b
    Examples:
      heliostat restart summit-to-usdf --why "its lanes hang"
      heliostat restart summit-to-usdf --topic lsst.sal.ESS.hvac --topic lsst.sal.MTM1M3-3
    """
    from heliostat.operate.links import link_of
    from heliostat.operate.orders import order_restart

    config = known_config(config_file, link)
    answer = order_restart(
        config,
        link_of(config, link),
        topics,
        by=by,
        why=why,
        within_s=within_s,
        dry_run=dry_run,
    )
    tell(answer, order_lines(answer), as_json=as_json)


def order_lines(answer: OrderAnswer) -> list[str]:
    """Return what became of an order, for people."""
    if answer.is_tried:
        lanes = f"{answer.lanes:,} lanes would begin anew, " if answer.lanes else ""
        places = names_text(answer.places)
        where = answer.link if answer.places == ("the link",) else f"{answer.link}: {places}"
        again = f"{answer.stopped:,} stopped partitions would be tried again"
        return [f"{where}: {lanes}{again}; nothing was changed"]
    lines = [
        f"{answer.link}: restart of {standing.order.place} {standing.stage.value.replace('_', ' ')}"
        + (f": {standing.ended.text}" if standing.ended is not None else "")
        for standing in answer.orders
    ]
    if answer.waits:
        lines.append(f"it is written, and waits: {answer.waits}")
    return lines
