"""Looks at both sides of what was promoted, and says what becomes of each topic; reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from heliostat.clusters.admin import TopicInfo
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import LinkConfig
from heliostat.handover.promotion import MirrorEnds, Promotion
from heliostat.handover.recreation import Recreation
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import Offset, TopicName, TopicPartition, is_still
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.operate.reversing.logs import LogEndsCompared
from heliostat.operate.reversing.recreate import Recreating, begun_anew
from heliostat.operate.reversing.values import (
    PartitionReturn,
    ReturnState,
    Tail,
    TopicReturn,
)
from heliostat.rebuild.compared_rows import view_of
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of
from heliostat.topics.values import MirrorRecord


@dataclass(frozen=True, slots=True)
class _Ends:
    """Ends of the old source's logs, and what compares both sides."""

    old: Mapping[TopicPartition, Offset]
    compared: LogEndsCompared


@dataclass(frozen=True, slots=True)
class _Pair:
    """A topic at both sides, and its promotion."""

    promotion: Promotion
    ends: MirrorEnds
    new: TopicInfo
    old: TopicInfo

    @property
    def name(self) -> TopicName:
        """Its name at the old source."""
        return self.promotion.topic

    def refused(self, why: str) -> TopicReturn:
        """Return that it can't be copied back."""
        return TopicReturn(self.name, self.ends.target, ReturnState.REFUSED, why)


class Look:
    """Looks at both sides of what was promoted.

    Parameters
    ----------
    clusters
        Those of the link that leads back.
    recreating
        Says what a topic is like that is made anew, and what is in the way.
    tail
        What becomes of topics that have one.
    """

    def __init__(
        self,
        clusters: LinkClusters,
        link: LinkConfig,
        back: LinkConfig,
        recreating: Recreating,
        tail: Tail,
    ) -> None:
        self._clusters = clusters
        self._link = link
        self._recreating = recreating
        self._tail = tail
        self._view = view_of(link) or view_of(back)
        self._naming, self._selection = naming_of(back), selection_of(back)

    def topics(self, promotions: Mapping[TopicName, Promotion]) -> Iterator[TopicReturn]:
        """Yield what becomes of each topic."""
        clusters = self._clusters
        ends = {name: each.ends for name, each in promotions.items() if each.ends is not None}
        new = clusters.source.confirm_topics([each.target for each in ends.values()])
        old = clusters.target.confirm_topics(list(ends))
        old_ends = log_ends_of(clusters.target, [each for each in old.values() if not each.error])
        ours = clusters.known()
        with ExitStack() as stack:
            at_old, at_new = (
                stack.enter_context(PlainReader(access, committed=True))
                for access in (clusters.target_access, clusters.source_access)
            )
            look = _Ends(old_ends, LogEndsCompared(at_old, at_new, self._view))
            anew: list[_Pair] = []
            for name, promotion in promotions.items():
                if (of_topic := ends.get(name)) is None:
                    why = "its promotion was cut short: call the verb that promoted it again"
                    yield TopicReturn(name, name, ReturnState.REFUSED, why)
                    continue
                pair = _Pair(promotion, of_topic, new[of_topic.target], old[name])
                if of_topic.target in ours and is_still(
                    ours[of_topic.target].target_id, pair.old.topic_id
                ):
                    yield TopicReturn(name, of_topic.target, ReturnState.DONE, "it is a mirror")
                elif why := self._refusal(pair):
                    yield pair.refused(why)
                elif begun_anew(promotion, pair.old):
                    yield self._resumed(pair, look)
                elif (looked := self._looked(pair, look)) is None:
                    anew.append(pair)
                else:
                    yield looked
            yield from self._anew(anew, look)

    def _refusal(self, pair: _Pair) -> str:
        """Return why the topic can't be copied back, whatever its logs hold."""
        clusters, mirror = self._clusters, pair.ends.target
        if pair.ends.source_cluster != clusters.target.cluster_id():
            return f"{clusters.link.target} is not the cluster that it was copied from"
        if why := self._changed(pair):
            return why
        if (wanted := self._naming.target_name(mirror)) != pair.name:
            return (
                f"link {clusters.name} would call it {wanted}: give that link a naming that makes "
                "its old name of it"
            )
        if not self._selection.selects(mirror):
            return f"link {clusters.name} does not select {mirror}: see its topics.include"
        if len(pair.old.partitions) > len(pair.new.partitions):
            return f"it has {len(pair.new.partitions)} partitions at {clusters.link.source} only"
        return ""

    def _changed(self, pair: _Pair) -> str:
        """Return which of the topics is another one now, or is gone."""
        link = self._clusters.link
        sides = [(link.source, pair.new, pair.ends.target_id)]
        if not begun_anew(pair.promotion, pair.old):
            sides.append((link.target, pair.old, pair.ends.source_id))
        for side, info, was in sides:
            if info.error is not None:
                return f"{info.name} is gone at {side}"
            if not is_still(was, info.topic_id):
                return f"{info.name} was deleted and created again at {side}"
        return ""

    def _looked(self, pair: _Pair, look: _Ends) -> TopicReturn | None:
        """Return what becomes of a topic; None: it is to be made anew."""
        old_ends, compared = look.old, look.compared
        parts: list[PartitionReturn] = []
        for number, promotion in sorted(pair.ends.partitions.items()):
            at_old = TopicPartition(pair.name, number)
            if (old_end := old_ends.get(at_old)) is None:
                return pair.refused(f"the log end of {at_old} can't be read; try again")
            at_new = TopicPartition(pair.ends.target, number)
            if why := compared.difference(at_old, at_new, promotion, old_end):
                return None if self._tail is Tail.RECREATE else pair.refused(why)
            tail = compared.tail(at_old, promotion.source_end, old_end)
            parts.append(PartitionReturn(number, promotion, old_end, tail))
        count = sum(part.tail for part in parts)
        if count and self._tail is Tail.RECREATE:
            return None
        by_tail = self._by_tail(count)
        record = self._record(pair)
        return TopicReturn(pair.name, pair.ends.target, *by_tail, tuple(parts), record)

    def _record(self, pair: _Pair) -> MirrorRecord:
        return MirrorRecord(
            source=pair.ends.target,
            target=pair.name,
            source_id=pair.new.topic_id,
            target_id=pair.old.topic_id,
            source_cluster=self._clusters.source_id,
            start="earliest",  # of partitions that came since, and of topics that are made anew
            initial_partitions=len(pair.new.partitions),
            is_returned=True,
        )

    def _by_tail(self, tail: int) -> tuple[ReturnState, str]:
        if not tail:
            return ReturnState.READY, "both logs are equal up to the promotion"
        words = f"up to {tail:,} records at {self._clusters.link.target} never crossed"
        if self._tail is Tail.KEEP:
            return ReturnState.READY, f"{words}; they stay, and offsets differ behind them"
        if self._tail is Tail.LEAVE:
            return ReturnState.LEFT, words
        how = f"`heliostat tail {self._link.name}` shows them; --tail says what becomes of them"
        return ReturnState.REFUSED, f"{words}: {how}"

    def _anew(self, pairs: list[_Pair], look: _Ends) -> Iterator[TopicReturn]:
        """Yield what becomes of topics that are to be made anew."""
        if not pairs:
            return
        refused = self._recreating.refusals(
            {pair.name: pair.ends for pair in pairs}, look.compared.old
        )
        were = self._recreating.as_they_are([pair.old for pair in pairs])
        for pair in pairs:
            if why := refused.get(pair.name):
                yield pair.refused(why)
            else:
                why = "it is made anew at the old source, and copied whole, at equal offsets"
                yield self._recreated(pair, were[pair.name], why)

    def _resumed(self, pair: _Pair, look: _Ends) -> TopicReturn:
        """Return what becomes of a topic that was about to be made anew."""
        assert pair.promotion.recreation is not None
        partitions = (TopicPartition(pair.name, part.partition) for part in pair.old.partitions)
        if any(look.old.get(each) != 0 for each in partitions):
            why = "it was deleted to be made anew, and somebody else has written there since"
            return pair.refused(why)
        why = "it was deleted to be made anew; it is copied whole"
        return self._recreated(pair, pair.promotion.recreation, why)

    def _recreated(self, pair: _Pair, recreation: Recreation, why: str) -> TopicReturn:
        record = replace(self._record(pair), target_id=None)
        return TopicReturn(
            pair.name, pair.ends.target, ReturnState.READY, why, (), record, recreation
        )
