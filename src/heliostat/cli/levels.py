"""`heliostat limit` and `prefer`: how fast topics are copied, and which come first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heliostat.cli.known_links import known_config
from heliostat.cli.wishes import names_text, tell, wish_options

if TYPE_CHECKING:
    from heliostat.operate.levels import Asked, LevelAnswer


@click.command("limit")
@wish_options
@click.argument("rate", metavar="RATE|none")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Only this topic, by its name at the source; may be repeated, and each has the limit.",
)
def limit_command(
    *, link: str, rate: str, config_file: Path, topics: tuple[str, ...], as_json: bool, **how: Any
) -> None:
    r"""Limit how many bytes a second LINK, or each of its topics, reads from the source.

    RATE is a number with B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s or GiB/s; `none` lifts the limit. A
    link's limit holds for all its topics together, and a topic's for all its partitions. The wish
    lies on the target, as that of `pause` does, and holds until it is changed. Exit code 0 once the
    link's owner has carried it out, 1 while it waits.

    \b
    Examples:
      heliostat limit summit-to-usdf 20MB/s --why "the line is shared tonight"
      heliostat limit summit-to-usdf --topic lsst.sal.ESS.hvac 500kB/s
      heliostat limit summit-to-usdf none
    """
    from heliostat.operate.levels import limit
    from heliostat.operate.links import link_of
    from heliostat.wishes.rate import rate_of

    try:
        bytes_per_s = rate_of(rate)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="RATE") from error
    config = known_config(config_file, link)
    asked = _asked(**how)
    answer = limit(config, link_of(config, link), bytes_per_s, topics, asked=asked)
    tell(answer, [answer_line(answer)], as_json=as_json)


@click.command("prefer")
@wish_options
@click.argument("topics", nargs=-1, required=True)
@click.argument("level", type=click.Choice(["high", "normal", "low"]))
def prefer_command(
    *, link: str, topics: tuple[str, ...], level: str, config_file: Path, as_json: bool, **how: Any
) -> None:
    r"""Give TOPICS of LINK a priority: names at the source, or patterns in which * is anything.

    Topics of high priority keep their latency while others catch up: they are fetched over
    connections of their own, and served first. Those of low priority get smaller answers. The
    newest wish that names a topic counts, and covers topics that come later, too; `normal` takes a
    priority away.

    \b
    Examples:
      heliostat prefer summit-to-usdf 'lsst.sal.MTMount.*' lsst.sal.ESS.hvac high
      heliostat prefer summit-to-usdf 'lsst.backup.*' low
    """
    from heliostat.operate.levels import prefer
    from heliostat.operate.links import link_of
    from heliostat.records.copier.lane_limits import Priority

    config = known_config(config_file, link)
    asked = _asked(**how)
    answer = prefer(config, link_of(config, link), topics, Priority(level), asked=asked)
    tell(answer, [answer_line(answer)], as_json=as_json)


def _asked(*, why: str, by: str, within_s: float, dry_run: bool) -> Asked:
    from heliostat.operate.levels import Asked

    return Asked(by, why, within_s, dry_run)


def answer_line(answer: LevelAnswer) -> str:
    """Return what became of a limit or priority, for people."""
    is_link = answer.places == ("the link",)
    where = answer.link if is_link else f"{answer.link}: {names_text(answer.places)}"
    count = f"{answer.topics:,} {'topic' if answer.topics == 1 else 'topics'}"
    if answer.wished in {"high", "normal", "low"}:
        level = f"{answer.wished} priority"
    elif answer.bytes_per_s is None:
        level = "no limit"
    else:
        level = f"a limit of {answer.wished}"
    if answer.is_tried:
        change = "would have" if answer.changed else "already has"
        return f"{where} {change} {level} ({count}); nothing was changed"
    if answer.is_done:
        already = "" if answer.changed else "already "
        return f"{where} {already}has {level} ({count}, {answer.took_s:.1f} s)"
    return f"{where} is to have {level} ({count}), and waits: {answer.waits}"
