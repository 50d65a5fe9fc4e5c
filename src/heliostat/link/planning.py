"""What both clusters have now, and what the target must become."""

from __future__ import annotations

from dataclasses import dataclass, replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import LinkConfig
from heliostat.groups.facing import facing_note
from heliostat.link.known import Known
from heliostat.ops.asked import both
from heliostat.other_links.at_source import Upstream, blind_note, left_out_notes
from heliostat.other_links.at_target import claims_on, plan_beside
from heliostat.other_links.claims import NeighbourClaims, OtherClaims
from heliostat.state.link_state import LinkState
from heliostat.topics.observe import observe
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import SourceTopics, TargetTopics


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans a link's topics beside those of other links.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        Both clusters.
    state
        The link's state on the target.
    claimed
        Which target topics other links of the file write.
    other_links
        Finds target topics that are mirrors of links of other files.
    upstream
        Which topics of the source are mirrors.
    """

    link: LinkConfig
    source: ClusterAdmin
    target: ClusterAdmin
    state: LinkState
    claimed: NeighbourClaims
    other_links: OtherClaims
    upstream: Upstream

    def observe(self, known: Known) -> tuple[SourceTopics, TargetTopics]:
        """Look at both clusters."""
        return observe(self.source, self.target, self.link, known.mirrors)

    def plan(
        self, known: Known, observed: tuple[SourceTopics, TargetTopics] | None = None
    ) -> tuple[SourceTopics, TopicPlan]:
        """Plan what the target must become, by what `observe` returned, or returns now."""
        source, target = observed or self.observe(known)
        names = frozenset(source.names) if known.at_beginning is None else known.at_beginning
        feeds = self.upstream.feeds(source)
        source = replace(source, at_beginning=names, feeds=feeds)

        def planned() -> TopicPlan:
            return plan_beside(
                self.link,
                source,
                target,
                known,
                claimed=claims_on(self.link, source, known.mirrors, self.claimed),
                other_links=self.other_links,
            )

        if known.at_beginning is not None:
            return source, planned()
        _, plan = both(lambda: self.state.put_beginning(names), planned)
        known.at_beginning = names  # it is durable before anything is done by the plan
        return source, plan

    def notes(self, plan: TopicPlan, known: Known) -> tuple[str, ...]:
        """Return notes on topics left to other links or of unknown origin, and on groups."""
        left_out = left_out_notes(self.link, plan.left_out.keys() - known.promoted.keys())
        seen = self.upstream.seen
        facing = facing_note(self.link, seen, self.upstream.target_id) if seen else ()
        return left_out + blind_note(self.link, self.source) + self.upstream.notes + facing
