"""Asks about many links at once: each cluster is entered once, and a dead one delays no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from heliostat.clusters.refusals import enter
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError
from heliostat.names import Alias, LinkName
from heliostat.ops.asked import PendingAnswer, each_answer

AT_ONCE = 8
"""Links asked about at the same time: each has a few connections to both clusters."""
ENTER_WITHIN_S = 4.0
CLUSTERS_AT_ONCE = 100

T = TypeVar("T")


def each_link(
    config: Config,
    links: Sequence[LinkConfig],
    ask: Callable[[LinkConfig], T],
    *,
    told: tuple[type[HeliostatError], ...] = (ConnectionLost,),
    sources_only: bool = False,
) -> dict[LinkName, T | HeliostatError]:
    """Return the answer about each link, or its error.

    Clusters are entered while links are asked about; one that is dead is so for all its links, of
    which no more are asked about.

    Parameters
    ----------
    told
        Errors that are answers; any other is raised.
    sources_only
        Whether nothing is asked of the targets.

    Raises
    ------
    HeliostatError
        Any error that is not of a kind in `told`.
    """
    both = {alias for link in links for alias in (link.source, link.target)}
    sources = {link.source for link in links}
    entering = {
        alias: PendingAnswer(partial(_lost, config, alias), f"entering {alias}")
        for alias in sorted(sources if sources_only else both)
    }
    asks = {
        LinkName(link.name): partial(_answer, link, ask, entering, sources_only=sources_only)
        for link in links
    }
    answers: dict[LinkName, T | HeliostatError] = {}
    for name, answer in each_answer(asks, AT_ONCE).items():
        if isinstance(answer, BaseException):
            if not isinstance(answer, told):
                raise answer
            answers[name] = answer
        else:
            answers[name] = answer
    return answers


def _answer(
    link: LinkConfig,
    ask: Callable[[LinkConfig], T],
    entering: Mapping[Alias, PendingAnswer[ConnectionLost | None]],
    *,
    sources_only: bool,
) -> T:
    entered = [entering[alias] for alias in ((link.source,) if sources_only else _both(link))]
    pending: PendingAnswer[T] | None = None
    if not any(entry.is_over and entry.answer() is not None for entry in entered):
        pending = PendingAnswer(partial(ask, link), f"asks about {link.name}")
    for cluster_entry in entered:
        if (why := cluster_entry.answer()) is not None:
            raise why
    return ask(link) if pending is None else pending.answer()


def _both(link: LinkConfig) -> tuple[Alias, Alias]:
    return link.source, link.target


def _lost(config: Config, alias: Alias) -> ConnectionLost | None:
    """Return why a cluster can't be entered; None if it can, or fails in another way."""
    return lost_clusters(config, [alias]).get(alias)


def lost_clusters(config: Config, aliases: Iterable[Alias]) -> dict[Alias, ConnectionLost]:
    """Return which of these clusters do not answer, or refuse us, and why; all asked at once."""
    asks = {
        alias: partial(enter, config.clusters[alias].access(), ENTER_WITHIN_S)
        for alias in sorted(aliases)
    }
    answers = each_answer(asks, CLUSTERS_AT_ONCE)
    return {alias: why for alias, why in answers.items() if isinstance(why, ConnectionLost)}
