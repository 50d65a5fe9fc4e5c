"""Keeping a source's producers out by rules, as far as the link may lay any."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.acl import EVERYBODY
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.fencing import ClusterRules, DenyRules, Fence, Purpose, RuleBook, can_fence
from heliostat.handover.desk import FenceAnswer
from heliostat.names import LinkName, TopicName

PURPOSE = "switch"
"""What the rules are for, as the rule book has it."""


class SourceFence:
    """The fence at a link's source. For one thread.

    Parameters
    ----------
    source
        Requests to the source.
    target
        Where rules are noted.
    """

    def __init__(
        self, config: Config, link: LinkConfig, source: ClusterAdmin, target: Reachable
    ) -> None:
        self._link = link
        self._principal = config.clusters[link.source].security.known_principal
        self._source = source
        self._target = target

    @contextmanager
    def _fence(self) -> Iterator[Fence]:
        factor = self._link.state.replication_factor
        with closing(RuleBook(self._target, LinkName(self._link.name), factor)) as book:
            book.read()
            purpose = Purpose(self._source.cluster_id(), PURPOSE)
            yield Fence(ClusterRules(self._source), book, purpose, SystemClock())

    def rules(self, topics: Collection[TopicName]) -> DenyRules:
        """Return the rules that would be laid, and what they would leave open."""
        with self._fence() as fence:
            return self._rules(fence, topics)

    def _rules(self, fence: Fence, topics: Collection[TopicName]) -> DenyRules:
        return can_fence(
            ClusterRules(self._source),
            (EVERYBODY,),
            topics,
            viewer=self._principal,
            ours=fence.laid,
        )

    def put_up(self, topics: Collection[TopicName]) -> FenceAnswer:
        """Lay the rules and wait until every broker shows them; without any, say who must act."""
        with self._fence() as fence:
            deny = self._rules(fence, topics)
            cannot = [each.text() for each in deny.cannot]
            facts = {"cannot": cannot, "rules": len(deny.rules)}
            if not deny.rules:
                why = "; ".join(cannot)
                text = f"producers are to be stopped by hand, as no rule is laid: {why}"
                return FenceAnswer(is_whole=True, by_rules=False, text=text, facts=facts)
            standing = fence.put_up(deny.rules)
            is_closed = deny.topics >= set(topics) and not cannot
            text = "; ".join([f"nobody may write: {standing.text()}", *cannot])
            return FenceAnswer(standing.is_whole, is_closed, text, facts)

    def lift(self) -> str:
        """Lift all rules that were laid for a switch."""
        with self._fence() as fence:
            if not fence.laid:
                return "no rule was laid"
            return f"producers may write again: {fence.take_down().text()}"
