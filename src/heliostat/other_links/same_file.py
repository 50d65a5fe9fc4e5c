"""Target topics that will be mirrors of other links with the same configuration file and target.

Their existing mirrors are in their state topics (`at_target`). This module looks at their sources,
for topics that two links would start to copy. A source that does not answer belongs to another link
and must not delay this one (I7): it is queried again only after a while, and until then its topics
are those seen last. If none were ever seen, a new mirror waits if the other link's naming could
produce the same name; existing mirrors of ours continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Alias, LinkName, TopicName
from heliostat.other_links.claims import Claims
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

CONNECT_WITHIN_S = 2.0
"""Enough for a try or two: with no time kafka-python gives up even on a cluster that is up."""
ANSWER_WITHIN_MS = 5_000
AGAIN_AFTER_S = 30.0
"""A source that hangs delays a reconciliation by some seconds, at most once in this time."""


NamesOf = Callable[[Alias], Collection[TopicName]]


def neighbours_of(config: Config, link: LinkConfig) -> tuple[LinkConfig, ...]:
    """Return other links of the file whose mirrors could have the same names as this one's."""
    slot = link.topics.slot
    return tuple(
        other
        for other in config.links
        if other.target == link.target
        and other.name != link.name
        and not slot.is_beside(other.topics.slot)
        and not (link.topics.merges and other.topics.merges and link.source != other.source)
    )


def ask_topics(config: Config, alias: Alias) -> Collection[TopicName]:
    """Return all topics of a cluster; raises soon if it does not answer."""
    return tuple(ask_partitions(config, alias))


def ask_partitions(config: Config, alias: Alias) -> dict[TopicName, int]:
    """Return how many partitions each topic of a cluster has; raises as `ask_topics`."""
    with ClusterAdmin(
        config.clusters[alias].access(),
        connect_timeout_s=CONNECT_WITHIN_S,
        request_timeout_ms=ANSWER_WITHIN_MS,
    ) as admin:
        described = admin.describe_topics()
    return {topic: len(info.partitions) for topic, info in described.items()}


class Neighbours:
    """What the other links of the file would write. Not thread-safe.

    Parameters
    ----------
    config, link
        The configuration, and this link.
    names_of
        Returns all topics of a cluster, by its alias; queries the cluster by default.
    monotonic_s
        Monotonic clock (s).
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        names_of: NamesOf | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._others = neighbours_of(config, link)
        self._names_of = names_of or partial(ask_topics, config)
        self._monotonic_s = monotonic_s
        self._seen: dict[Alias, Collection[TopicName]] = {}
        self._written: dict[LinkName, tuple[Collection[TopicName], frozenset[TopicName]]] = {}
        """What other links write, and the source's topics by which that was found."""
        self._away_until_s: dict[Alias, float] = {}

    def claims(self, wanted: Collection[TopicName], ours: Collection[TopicName]) -> Claims:
        """Return the wanted target topics that other links of the file write, or may write.

        Parameters
        ----------
        wanted
            Target topics that this link wants to write.
        ours
            Those that are this link's mirrors already: they are never unsure.
        """
        by: dict[TopicName, LinkName] = {}
        unsure: dict[TopicName, str] = {}
        notes: list[str] = []
        sources = {other.source for other in self._others}
        there = {alias for alias in sorted(sources) if self._look(alias)}
        for other in self._others:
            is_there = other.source in there
            topics = self._seen.get(other.source)
            description = self._config.clusters[other.source].access().described
            if not is_there:
                notes.append(f"{description}, the source of link {other.name}, does not answer")
            if topics is not None:
                theirs = self._written_by(other, topics)
                by.update((name, other.name) for name in wanted if name in theirs)
                continue
            naming, selection = naming_of(other), selection_of(other)
            for name in set(wanted) - set(ours):
                source = naming.source_name(name)
                if source is not None and selection.selects(source):
                    unsure[name] = (
                        f"link {other.name} would write into {name} as well if its source has "
                        f"{source}, and {description} does not answer"
                    )
        return Claims(by, unsure, tuple(notes))

    def _written_by(self, other: LinkConfig, names: Collection[TopicName]) -> frozenset[TopicName]:
        """Return the target topics that another link writes, if its source has these."""
        cache_entry = self._written.get(other.name)
        if cache_entry is None or cache_entry[0] is not names:
            naming, selection = naming_of(other), selection_of(other)
            theirs = frozenset(naming.target_name(name) for name in selection.choose(names))
            cache_entry = self._written[other.name] = names, theirs
        return cache_entry[1]

    def _look(self, alias: Alias) -> bool:
        """Update which topics a source has; return whether it answers."""
        if self._monotonic_s() < self._away_until_s.get(alias, 0.0):
            return False
        try:
            self._seen[alias] = self._names_of(alias)
        except (ConnectionLost, BrokerError):
            self._away_until_s[alias] = self._monotonic_s() + AGAIN_AFTER_S
            return False
        return True
