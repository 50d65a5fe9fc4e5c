"""`heliostat switch`: move producers and consumers to the target, as planned."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from heliostat.cli.exit_codes import DIFFERENCE, IN_SYNC
from heliostat.cli.known_links import known_config
from heliostat.cli.options import by_option, config_option, json_option
from heliostat.cli.rolling import show_rolling, show_writers, turn, wait_for_topics
from heliostat.errors import Refused

if TYPE_CHECKING:
    from heliostat.config import Config, LinkConfig
    from heliostat.handover.run import Run
    from heliostat.operate.switch import SwitchPlan

NAMES_MAX = 20
_Command = TypeVar("_Command", bound=Callable[..., Any])
_SECONDS = click.FloatRange(min=0)


def _wait(name: str, default: float, what: str) -> Callable[[_Command], _Command]:
    return click.option(
        name, type=_SECONDS, default=default, show_default=True, metavar="SECONDS", help=what
    )


@click.command("switch")
@click.argument("link")
@config_option
@click.option("--topics", metavar="A,B", help="Only these, by their names at the source.")
@click.option(
    "--dry-run", is_flag=True, help="Only tell what would happen, and what is in the way."
)
@click.option("--back", "goes_back", is_flag=True, help="Take back a run that was left behind.")
@click.option("--resume", "takes_over", is_flag=True, help="Take over a run of another process.")
@click.option(
    "--last",
    is_flag=True,
    help="Only tell how the last run went, or is going; with --rolling alone, which topics are "
    "merged.",
)
@click.option(
    "--rolling",
    is_flag=True,
    help="Only turn the mirrors into merged topics, in place: both sites may be written from then "
    "on. There is no way back.",
)
@click.option(
    "--finish",
    "finishes",
    is_flag=True,
    help="With --rolling: end it, in steps as a planned switch. The source is fenced, the rest "
    "copied, and then both links leave the topics to the target, the one that leads back first.",
)
@click.option(
    "--wait",
    "waited",
    multiple=True,
    metavar="TOPIC",
    help="With --rolling: only wait until all that this merged topic has at the source now is at "
    "the target, --records-wait at most; may be repeated, or A,B. Who stopped before may go on "
    "there then.",
)
@click.option(
    "--writers",
    is_flag=True,
    help="With --rolling: only name the producers, and their transactional ids, that have written "
    "merged topics at the source lately.",
)
@click.option("--yes", is_flag=True, help="Do not ask for the link's name.")
@click.option(
    "--lag-threshold",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Records that may be missing when producers are fenced.",
)
@_wait("--lag-wait", 600, "How long to wait for that.")
@_wait("--still-s", 10, "How long the source's ends must stand still.")
@_wait("--producers-wait", 60, "How long producers may take to end where no rule keeps them out.")
@_wait("--transactions-wait", 120, "How long open transactions may take to end.")
@_wait("--records-wait", 300, "How long the last records may take.")
@_wait("--groups-wait", 300, "How long groups may go on reading at the source.")
@_wait("--watch-s", 10, "How long the source is watched afterwards.")
@click.option(
    "--verify",
    type=click.Choice(["none", "all"]),
    default="none",
    show_default=True,
    help="Whether all contents are compared: before the fence, and then what came since.",
)
@click.option("--accept", "accepted", multiple=True, metavar="CODE", help="Accept such a problem.")
@by_option("Who switches")
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report there: JSON if it ends in .json, else Markdown.",
)
@json_option
def switch_command(**options: Any) -> None:
    r"""Move the producers and consumers of LINK, or of topics of it, to the target.

    In steps, which are kept on the target: whatever dies, the same command goes on, and until the
    mirrors are given away --back takes all back. The source's producers are kept out by rules where
    the link may lay them, else stop them when you are asked to; one that goes on writing is named,
    and the run goes back. Groups move when they have read what is there and end at the source.
    Exit code 0 once it is done (or would begin, with --dry-run), 1 if it failed or went back.

    \b
    Examples:
      heliostat switch summit-to-usdf --dry-run
      heliostat switch summit-to-usdf --report switch.md
      heliostat switch summit-to-usdf --topics orders,payments --lag-threshold 100
      heliostat switch summit-to-usdf --back
      heliostat switch summit-to-usdf --rolling --dry-run
      heliostat switch summit-to-usdf --rolling --topics orders > cuts.txt
      heliostat switch summit-to-usdf --rolling --finish --dry-run
      heliostat switch summit-to-usdf --rolling --wait orders
      heliostat switch summit-to-usdf --rolling --writers
    """
    _switch(**options)


def _switch(
    *,
    link: str,
    config_file: Path,
    topics: str | None,
    dry_run: bool,
    goes_back: bool,
    takes_over: bool,
    last: bool,
    rolling: bool,
    finishes: bool,
    waited: Sequence[str],
    writers: bool,
    yes: bool,
    by: str,
    report_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    from heliostat.operate.links import link_of
    from heliostat.operate.switch import SwitchWish, last_run, plan_switch, switch

    config = known_config(config_file, link)
    of = link_of(config, link)
    names = _names([topics or ""])
    if finishes and not rolling:
        raise click.BadParameter("--finish ends a rolling switch: --rolling --finish")
    if rolling and not finishes:
        if goes_back or takes_over or report_file is not None:
            raise click.BadParameter("--back, --resume and --report go with --finish there")
        if sum(map(bool, (waited, writers, last, dry_run))) > 1:
            raise click.BadParameter("--wait, --writers, --last and --dry-run do not go together")
        if waited and (names or not _names(waited)):
            raise click.BadParameter("--wait names its topics, and does nothing else")
        way = "wait" if waited else "writers" if writers else "last" if last else "turn"
        _roll(
            way,
            config,
            of,
            names or _names(waited),
            by,
            within_s=options["records_wait"],
            dry_run=dry_run,
            is_agreed=yes,
            as_json=as_json,
        )
        return
    if waited or writers:
        raise click.BadParameter("--wait and --writers go with --rolling, and without --finish")
    wish = SwitchWish(names, _options(**options), by, goes_back, takes_over, finishes)
    if last:
        before = last_run(config, of)
        if before is None:
            raise Refused(f"link {link} was never switched", hint="leave out --last")
        _show_steps(before)
        _show_end(before, link, report_file, as_json=as_json)
        sys.exit(IN_SYNC if before.state.value == "done" else DIFFERENCE)
    if dry_run:
        plan = plan_switch(config, of, wish)
        click.echo(json.dumps(plan.to_json(), indent=2) if as_json else "\n".join(_planned(plan)))
        sys.exit(IN_SYNC if plan.is_possible else DIFFERENCE)
    if not yes:
        _confirm(link)
    run = switch(config, of, wish, _Shown())
    _show_end(run, link, report_file, as_json=as_json)
    wanted = "went_back" if goes_back else "done"
    sys.exit(IN_SYNC if run.state.value == wanted else DIFFERENCE)


def _roll(
    way: str,
    config: Config,
    link: LinkConfig,
    topics: tuple[str, ...],
    by: str,
    *,
    within_s: float,
    dry_run: bool,
    is_agreed: bool,
    as_json: bool,
) -> None:
    if way == "wait":
        wait_for_topics(config, link, topics, within_s, as_json=as_json)
    elif way == "writers":
        show_writers(config, link, topics, as_json=as_json)
    elif way == "last":
        show_rolling(config, link, as_json=as_json)
    else:
        if not (is_agreed or dry_run):
            _confirm(link.name)
        turn(config, link, topics, by, dry_run=dry_run, as_json=as_json)


def _names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the topics of options that take several each."""
    return tuple(dict.fromkeys(name for text in texts for name in text.split(",") if name))


def _options(
    *,
    lag_threshold: int,
    lag_wait: float,
    still_s: float,
    producers_wait: float,
    transactions_wait: float,
    records_wait: float,
    groups_wait: float,
    watch_s: float,
    verify: str,
    accepted: Sequence[str],
) -> Any:
    from heliostat.handover.desk import Compared, SwitchOptions

    return SwitchOptions(
        lag_threshold,
        lag_wait,
        still_s,
        producers_wait,
        transactions_wait,
        records_wait,
        groups_wait,
        watch_s,
        Compared(verify),
        tuple(accepted),
    )


def _confirm(link: str) -> None:
    typed = click.prompt(f"Type the link's name to switch {link}", default="", show_default=False)
    if typed != link:
        raise click.BadParameter("that is not the link's name; nothing was done")


class _Shown:
    """Shows a run's steps as they change, on standard error."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, run: Run) -> None:
        from heliostat.handover.run_report import step_line

        begun = [step for step in run.steps if step.began_ms is not None]
        line = step_line(begun[-1]) if begun else ""
        if line != self._last:
            self._last = line
            click.echo(line, err=True)


def _show_steps(run: Run) -> None:
    from heliostat.handover.run_report import step_line

    for step in run.steps:
        click.echo(step_line(step), err=True)


def _show_end(run: Run, link: str, report_file: Path | None, *, as_json: bool) -> None:
    from heliostat.handover.run_report import ended_words, markdown

    text = json.dumps(run.to_json(), indent=2)
    if report_file is not None:
        is_json = report_file.suffix == ".json"
        report_file.write_text(text + "\n" if is_json else markdown(run, link), encoding="utf-8")
    if as_json:
        click.echo(text)
        return
    failed = [step for step in run.steps if step.state.value == "failed"]
    for step in failed:
        click.echo(f"{step.name}: {step.text}")
    click.echo(ended_words(run))


def _planned(plan: SwitchPlan) -> list[str]:
    """Return what would happen, for people."""
    words = {"stops": "in the way", "asks": "to accept", "told": "note"}
    more = " …" if len(plan.topics) > NAMES_MAX else ""
    names = ", ".join(plan.topics[:NAMES_MAX]) + more
    begins = "begin" if plan.is_possible else "end at its preflight"
    return [
        f"{plan.link}: {len(plan.topics):,} topics would be switched: {names}",
        *(
            f"{words[problem.weight.value]}: {problem.text} ({problem.code}); {problem.hint}"
            for problem in plan.problems
        ),
        f"steps: {', '.join(plan.to_json()['steps'])}",
        f"it would {begins}; nothing was changed",
    ]
