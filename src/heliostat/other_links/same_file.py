"""Other links of the file that write into the same target: which target topics will be theirs.

Their mirrors that exist are in their state topics (`rivals`). This looks at their sources, for
topics that two links would begin with. A source that does not answer belongs to another link and
must not hold this one up (I7): it is looked at again only after a while, and until then its topics
are those that were seen last. Where none were ever seen, a new mirror waits whose name the other
link's rule could make as well; mirrors that are ours go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Alias, LinkName, TopicName
from heliostat.other_links.claims import Claims
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of

CONNECT_WITHIN_S = 2.0
"""A try or two: without any time kafka-python gives up on a cluster that is there."""
ANSWER_WITHIN_MS = 5_000
AGAIN_AFTER_S = 30.0
"""A source that is away, and hangs, costs a turn some seconds at most so often."""


def neighbours_of(config: Config, link: LinkConfig) -> tuple[LinkConfig, ...]:
    """Other links of the file whose mirrors could have the names of this one's."""
    slot = link.topics.slot
    return tuple(
        other
        for other in config.links
        if other.target == link.target
        and other.name != link.name
        and not slot.is_beside(other.topics.slot)
    )


class Neighbours:
    """What the other links of the file would write; for one thread.

    Parameters
    ----------
    config, link
        The file, and the link that asks.
    names_of
        All topics of a cluster, by its alias; asked of the cluster by default.
    monotonic_s
        The clock.
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        names_of: Callable[[Alias], Collection[TopicName]] | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._others = neighbours_of(config, link)
        self._names_of = names_of or self._ask
        self._monotonic_s = monotonic_s
        self._seen: dict[Alias, Collection[TopicName]] = {}
        self._away_until_s: dict[Alias, float] = {}

    def claims(self, wanted: Collection[TopicName], ours: Collection[TopicName]) -> Claims:
        """Those of the wanted target topics that other links of the file write, or may write.

        Parameters
        ----------
        ours
            Those that are the link's own mirrors already: of them nothing is unsure.
        """
        by: dict[TopicName, LinkName] = {}
        unsure: dict[TopicName, str] = {}
        notes: list[str] = []
        for other in self._others:
            is_there = self._look(other.source)
            seen = self._seen.get(other.source)
            told = self._config.clusters[other.source].access().described
            if not is_there:
                notes.append(f"{told}, the source of link {other.name}, does not answer")
            naming, selection = naming_of(other), selection_of(other)
            if seen is not None:
                theirs = {naming.target_name(name) for name in selection.choose(seen)}
                by.update((name, other.name) for name in wanted if name in theirs)
                continue
            for name in set(wanted) - set(ours):
                source = naming.source_name(name)
                if source is not None and selection.selects(source):
                    unsure[name] = (
                        f"link {other.name} would write into {name} as well if its source has "
                        f"{source}, and {told} does not answer"
                    )
        return Claims(by, unsure, tuple(notes))

    def _look(self, alias: Alias) -> bool:
        """See which topics a source has now; whether it answers."""
        if self._monotonic_s() < self._away_until_s.get(alias, 0.0):
            return False
        try:
            self._seen[alias] = self._names_of(alias)
        except (ConnectionLost, BrokerError):
            self._away_until_s[alias] = self._monotonic_s() + AGAIN_AFTER_S
            return False
        return True

    def _ask(self, alias: Alias) -> Collection[TopicName]:
        with ClusterAdmin(
            self._config.clusters[alias].access(),
            connect_timeout_s=CONNECT_WITHIN_S,
            request_timeout_ms=ANSWER_WITHIN_MS,
        ) as admin:
            return tuple(admin.describe_topics())
