"""Observe both clusters' topics as a reconciliation does, and plan; reads only."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.other_links.at_source import feeds_at
from heliostat.other_links.at_target import claims_on, other_links_at, plan_beside
from heliostat.other_links.same_file import NamesOf, Neighbours
from heliostat.state.connections import LinkConnections
from heliostat.state.link_state import LinkState, Stored
from heliostat.topics.observe import observe
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import SourceTopics, TargetTopics


@dataclass(frozen=True, slots=True)
class Seen:
    """Both clusters, what the link remembers, and the plan that follows; read once.

    `odd` says which records of other links' states at the source were ignored.
    """

    stored: Stored
    source: SourceTopics
    target: TargetTopics
    plan: TopicPlan
    odd: tuple[str, ...]


def see(
    config: Config,
    link: LinkConfig,
    source_admin: ClusterAdmin,
    target_admin: ClusterAdmin,
    names_of: NamesOf | None = None,
    *,
    connections: LinkConnections | None = None,
    stored: Stored | None = None,
) -> Seen:
    """Observe topics, and plan what the link would do with them; reads only.

    Parameters
    ----------
    connections
        Connections to both clusters, where there are some.
    stored
        What the link remembers; it is read by default.
    names_of
        Returns the topics of other links' sources; by default each is asked.

    Raises
    ------
    ConnectionLost, BrokerError
        One of the clusters does not answer, or refuses.
    """
    if stored is None:
        with closing(LinkState(link, config.clusters[link.target])) as state:
            stored = state.read()
    source, target = observe(source_admin, target_admin, link, stored.mirrors)
    there = connections.source if connections else config.clusters[link.source]
    feeds, odd = feeds_at(there, source)
    source = replace(source, at_beginning=stored.at_beginning, feeds=feeds)
    found = Seen(stored, source, target, TopicPlan(), odd)
    return replace(
        found, plan=planned(config, link, target_admin, found, names_of, connections=connections)
    )


def planned(
    config: Config,
    link: LinkConfig,
    target_admin: ClusterAdmin,
    seen: Seen,
    names_of: NamesOf | None = None,
    *,
    connections: LinkConnections | None = None,
) -> TopicPlan:
    """Return the plan, by what was seen and by what other links have; raises as `see`."""
    here = connections.target if connections else config.clusters[link.target]
    neighbours = Neighbours(config, link, names_of).claims
    return plan_beside(
        link,
        seen.source,
        seen.target,
        seen.stored,
        claimed=claims_on(link, seen.source, seen.stored.mirrors, neighbours),
        other_links=other_links_at(link, here, target_admin, seen.source.cluster_id).claims,
    )
