"""Connections of a verb to both clusters of a link: opened beside each other, used by all it asks.

Over a long line a connection costs three round trips and more; one that is lent costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.ops.asked import PendingAnswer, each_answer
from heliostat.state.link_state import LinkState

T = TypeVar("T")
CLIENT_ID = "heliostat-admin"


@dataclass(frozen=True, slots=True)
class LinkConnections:
    """What lends connections to the two clusters."""

    link: LinkConfig
    source: LentClusters
    target: LentClusters
    client_id: str

    def state(self) -> LinkState:
        """Return the link's state, read over these; the caller closes it."""
        return LinkState(self.link, self.target)

    @contextmanager
    def admins(self, asks: Mapping[str, Callable[[], T]]) -> Iterator[Admins[T]]:
        """Open admin clients of both, and ask beside that; the clusters must be different.

        Raises
        ------
        ConfigError
            Both aliases lead to the same cluster.
        ConnectionLost
            One of the clusters does not answer.
        BaseException
            What one of `asks` raised.
        """
        both = {"source": self.source, "target": self.target}
        opening: dict[str, Callable[[], ClusterAdmin]] = {
            side: partial(ClusterAdmin, clusters, self.client_id) for side, clusters in both.items()
        }
        pending = {key: PendingAnswer(ask, f"asks for {key}") for key, ask in asks.items()}
        opened = each_answer(opening, len(opening))
        with ExitStack() as stack:
            for admin in opened.values():
                if isinstance(admin, ClusterAdmin):
                    stack.enter_context(admin)
            source, target = (_sound(admin) for admin in opened.values())
            check_distinct_clusters(self.link, source.cluster_id(), target.cluster_id())
            yield Admins(
                source,
                target,
                {key: pending_answer.answer() for key, pending_answer in pending.items()},
            )


def _sound(admin: ClusterAdmin | BaseException) -> ClusterAdmin:
    if isinstance(admin, BaseException):
        raise admin
    return admin


@dataclass(frozen=True, slots=True)
class Admins(Generic[T]):
    """Admin clients of both clusters, and what was answered while they were opened."""

    source: ClusterAdmin
    target: ClusterAdmin
    answers: Mapping[str, T]


@contextmanager
def connected(
    config: Config, link: LinkConfig, client_id: str = CLIENT_ID
) -> Iterator[LinkConnections]:
    """Yield connections to a link's clusters; each is opened when it is first used."""
    source, target = (
        LentClusters(config.clusters[alias].access(), DialSettings(client_id))
        for alias in (link.source, link.target)
    )
    with closing(source), closing(target):
        yield LinkConnections(link, source, target, client_id)
