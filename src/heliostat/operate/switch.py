"""`heliostat switch`: producers and consumers move to the target, as planned, in steps."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.handover.desk import Compared, Problem, SwitchOptions, Weight
from heliostat.handover.run import Run, RunKind
from heliostat.handover.steps import Conductor, new_steps
from heliostat.names import LinkName, TopicName
from heliostat.operate.promotion import promotable
from heliostat.operate.switching.desk import Compare, LinkDesk, Order, switch_desk
from heliostat.operate.switching.finishing import finish_desk
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.state.link_state import LinkState
from heliostat.topics.merged_links import refuse_if_merged, refuse_unless_merged
from heliostat.wishes.run_book import RunBook

Told = Callable[[Run], None]


def _ignore(_: Run) -> None:
    pass


@dataclass(frozen=True, slots=True)
class SwitchWish:
    """What is asked of a switch.

    Parameters
    ----------
    topics
        Names at the source; none: all mirrors of the link.
    by
        Who asks.
    goes_back
        Whether a run that was left behind is taken back, instead of carried on.
    takes_over
        Whether to take over a run that another process carries out.
    finishes
        Whether a rolling switch is finished: of merged topics, with the link back.
    """

    topics: tuple[str, ...] = ()
    options: SwitchOptions = field(default_factory=SwitchOptions)
    by: str = ""
    goes_back: bool = False
    takes_over: bool = False
    finishes: bool = False

    @property
    def kind(self) -> RunKind:
        """Of its run."""
        return RunKind.FINISH if self.finishes else RunKind.SWITCH


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """What a switch would do; nothing was changed."""

    link: LinkName
    topics: tuple[TopicName, ...]
    options: SwitchOptions
    problems: tuple[Problem, ...]
    kind: RunKind = RunKind.SWITCH

    @property
    def is_possible(self) -> bool:
        """Whether a run would get beyond its preflight."""
        return not any(
            each.weight is Weight.STOPS
            or (each.weight is Weight.ASKS and each.code not in self.options.accepted)
            for each in self.problems
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "topics": list(self.topics),
            "options": self.options.to_json(),
            "steps": [step.name for step in new_steps(self.kind)],
            "problems": [each.to_json() for each in self.problems],
            "is_possible": self.is_possible,
        }


def plan_switch(config: Config, link: LinkConfig, wish: SwitchWish) -> SwitchPlan:
    """Return what a switch would do, with all that is in its way; changes nothing.

    Raises
    ------
    Refused
        The link has no mirror of a topic, or none at all.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses.
    """
    _refuse_other_kind(link, wish)
    with wish_desk(config, link) as desk:
        topics = _topics_of(link, desk, wish.topics)
    order = Order(config, link, topics, wish.by, accepted=wish.options.accepted)
    with _desk(wish, order) as asked:
        problems = tuple(asked.problems())
        return SwitchPlan(LinkName(link.name), topics, wish.options, problems, wish.kind)


def switch(
    config: Config,
    link: LinkConfig,
    wish: SwitchWish,
    told: Told = _ignore,
    compare: Compare | None = None,
) -> Run:
    """Switch topics of a link, or go on with the run that was left behind; return it as it ended.

    Parameters
    ----------
    told
        Called with the run after each change.
    compare
        Compares contents; None: this process does, on Spark.

    Raises
    ------
    Refused
        Another process carries out a run; one is under way for other topics; there is none to go
        back from; the link has no mirror of a topic.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again, or go back.
    """
    _refuse_other_kind(link, wish)
    with (
        wish_desk(config, link) as desk,
        closing(RunBook(desk.link, desk.target, desk.book, desk.clock)) as runs,
    ):
        run = _run_of(link, desk, runs, wish)
        is_resumed = bool(run.holder)
        run = runs.take(run, link.state.replication_factor)
        options = options_of(run)
        about = wish.by, f"run {run.id}", options.accepted, compare
        order = Order(config, link, run.topics, *about)
        with _desk(wish, order) as asked:
            conductor = Conductor(
                asked, run, options, save=runs.save, on_change=told, is_resumed=is_resumed
            )
            if not wish.goes_back:
                return conductor.go()
            if not conductor.may_go_back:
                raise Refused(
                    "mirrors were given away: there is no way back",
                    hint="call it without --back: what is left is done; `heliostat reverse` is "
                    "the way back afterwards",
                )
            return conductor.go_back()


def _refuse_other_kind(link: LinkConfig, wish: SwitchWish) -> None:
    if wish.finishes:
        hint = "the planned switch is `heliostat switch` without --rolling"
        refuse_unless_merged(link, hint)
    else:
        refuse_if_merged(link, "switch")


def _desk(wish: SwitchWish, order: Order) -> AbstractContextManager[LinkDesk]:
    return (finish_desk if wish.finishes else switch_desk)(order)


def last_run(config: Config, link: LinkConfig) -> Run | None:
    """Return the link's last run, as its row says; None: there was none.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with wish_desk(config, link) as desk:
        desk.book.read()
        return desk.book.runs.last()


def _run_of(link: LinkConfig, desk: WishDesk, runs: RunBook, wish: SwitchWish) -> Run:
    """Return the run to carry on, or a new one."""
    last = runs.last(wish.kind)
    if last is None or last.state.is_over:
        if wish.goes_back:
            raise Refused("no switch is under way", hint="there is nothing to go back from")
        return Run(
            secrets.token_hex(6),
            wish.kind,
            _topics_of(link, desk, wish.topics),
            wish.options.to_json(),
            wish.by,
            desk.clock.wall_ms(),
            tuple(new_steps(wish.kind)),
        )
    if wish.topics and set(wish.topics) != set(last.topics):
        raise Refused(
            f"a switch of other topics is under way: {', '.join(last.topics)}",
            hint="call it without --topics to go on with it, or with --back",
        )
    if not wish.takes_over and runs.is_carried_out(last):
        raise Refused(
            f"another process carries out run {last.id}, begun by {last.by}",
            hint="let it; --resume takes it over",
        )
    return last


def _topics_of(link: LinkConfig, desk: WishDesk, topics: Collection[str]) -> tuple[TopicName, ...]:
    with closing(LinkState(link, desk.target)) as state:
        stored = promotable(state, topics)
    names: Sequence[TopicName] = sorted(map(TopicName, topics)) or sorted(stored.mirrors)
    if not names:
        raise Refused("all mirrors of the link were given away already")
    return tuple(names)


def options_of(run: Run) -> SwitchOptions:
    """Return a run's options, as it was begun with."""
    row = run.options
    return SwitchOptions(
        int(row["lag_threshold"]),
        float(row["lag_s"]),
        float(row["still_s"]),
        float(row["producers_s"]),
        float(row["transactions_s"]),
        float(row["records_s"]),
        float(row["groups_s"]),
        float(row["watch_s"]),
        Compared(row["verify"]),
        tuple(map(str, row["accepted"])),
    )
