"""Keeping a source's producers out by rules, as far as the link may lay any, and noting it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.acl import EVERYBODY, AclBinding
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost
from heliostat.fencing import (
    ClusterRules,
    DenyRules,
    Fence,
    Purpose,
    RuleBook,
    Why,
    can_fence,
    unprotect,
)
from heliostat.handover.desk import FenceAnswer
from heliostat.names import LinkName, TopicName
from heliostat.wishes.wish_book import WishBook

SWITCH, RESCUE = "switch", "rescue"
"""What the rules are for, as the rule book has it."""


class SourceFence:
    """The fence at a link's source. For one thread.

    Parameters
    ----------
    source
        Requests to the source.
    target
        Where rules are noted.
    purpose
        What it is for: each verb lifts its own rules only.
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        source: ClusterAdmin,
        target: Reachable,
        purpose: str = SWITCH,
    ) -> None:
        self._purpose = purpose
        self._link = link
        self._principal = config.clusters[link.source].security.known_principal
        self._source = source
        self._target = target

    @contextmanager
    def _fence(self) -> Iterator[Fence]:
        factor = self._link.state.replication_factor
        with closing(RuleBook(self._target, LinkName(self._link.name), factor)) as book:
            book.read()
            purpose = Purpose(self._source.cluster_id(), self._purpose)
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
            if not deny.rules or any(each.why is Why.MAY_NOT_CHANGE for each in deny.cannot):
                why = "; ".join(cannot)
                text = f"producers are to be stopped by hand, as no rule is laid: {why}"
                return FenceAnswer(is_whole=True, by_rules=False, text=text, facts=facts)
            standing = fence.put_up(deny.rules)
            by_rules = deny.keeps_out(topics)
            text = "; ".join([f"nobody may write: {standing.text()}", *cannot])
            return FenceAnswer(
                standing.is_whole, by_rules, text, facts, is_closed=by_rules and not cannot
            )

    def laid(self) -> frozenset[AclBinding]:
        """Return the rules that were laid for this purpose, by whomever."""
        with self._fence() as fence:
            return fence.laid

    def lift(self) -> str:
        """Lift all rules that were laid for this purpose."""
        with self._fence() as fence:
            if not fence.laid:
                return "no rule was laid"
            return f"producers may write again: {fence.take_down().text()}"

    def open(self, topics: Collection[TopicName], others: Collection[TopicName]) -> None:
        """Lift the rules on these topics; `others` stay fenced.

        Raises
        ------
        ConnectionLost, BrokerError
            The source does not answer, or refuses: some may still be fenced; call it again.
        """
        with self._fence() as fence:
            standing = unprotect(fence, topics, others)
        if standing.missing:
            raise ConnectionLost(f"the fence may still stand: {standing.text()}")


def note_fenced(config: Config, link: LinkConfig, topics: Collection[TopicName]) -> None:
    """Note with these topics' promotions that rules keep everybody from writing at the source.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses; call it again.
    """
    with closing(WishBook(LinkName(link.name), config.clusters[link.target].access())) as book:
        book.read()
        promotions = book.wishes.promotions
        open_ones = [
            replace(promotions[topic], is_source_fenced=True)
            for topic in sorted(topics)
            if topic in promotions and not promotions[topic].is_source_fenced
        ]
        if open_ones:
            book.write(open_ones)
