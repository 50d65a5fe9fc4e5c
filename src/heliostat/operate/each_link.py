"""Asks about many links at once: each cluster is entered once, and a dead one delays no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from heliostat.clusters.refusals import enter
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError
from heliostat.names import Alias, LinkName
from heliostat.ops.asked import each_answer

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
    """Return the answer about each link, or its error; a link of a dead cluster is not asked about.

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
    lost = lost_clusters(config, {link.source for link in links} if sources_only else both)
    asks = {
        LinkName(link.name): partial(_answer, link, ask, lost, sources_only=sources_only)
        for link in links
    }
    found: dict[LinkName, T | HeliostatError] = {}
    for name, answer in each_answer(asks, AT_ONCE).items():
        if isinstance(answer, BaseException):
            if not isinstance(answer, told):
                raise answer
            found[name] = answer
        else:
            found[name] = answer
    return found


def _answer(
    link: LinkConfig,
    ask: Callable[[LinkConfig], T],
    lost: dict[Alias, ConnectionLost],
    *,
    sources_only: bool,
) -> T:
    for alias in (link.source,) if sources_only else (link.source, link.target):
        if alias in lost:
            raise lost[alias]
    return ask(link)


def lost_clusters(config: Config, aliases: Iterable[Alias]) -> dict[Alias, ConnectionLost]:
    """Return which of these clusters do not answer, or refuse us, and why; all asked at once."""
    asks = {
        alias: partial(enter, config.clusters[alias].access(), ENTER_WITHIN_S)
        for alias in sorted(aliases)
    }
    answers = each_answer(asks, CLUSTERS_AT_ONCE)
    return {alias: why for alias, why in answers.items() if isinstance(why, ConnectionLost)}
