"""Looks at both sides of what was promoted, and says what becomes of each topic; reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from heliostat.clusters.admin import TopicInfo
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import LinkConfig
from heliostat.handover.promotion import MirrorEnds, Promotion
from heliostat.handover.recreation import Recreation
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import LinkName, Offset, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.operate.reversing.comparing import Comparing, PromotedPartition
from heliostat.operate.reversing.logs import Comparison
from heliostat.operate.reversing.recreate import Recreating, begun_anew
from heliostat.operate.reversing.values import (
    Evidence,
    PartitionReturn,
    ReturnState,
    Tail,
    TopicReturn,
)
from heliostat.rebuild.compared_rows import view_of
from heliostat.rescue.source_rest import listed
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of
from heliostat.topics.values import MirrorRecord
from heliostat.verify.schema_ids import Views


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

    def partitions(self, old_ends: Mapping[TopicPartition, Offset]) -> list[PromotedPartition]:
        """Return its partitions whose log end at the old source is known."""
        return [
            PromotedPartition(
                *(at_old, TopicPartition(self.ends.target, number), promotion, old_ends[at_old]),
                id_text(self.ends.target_id),
            )
            for number, promotion in sorted(self.ends.partitions.items())
            if (at_old := TopicPartition(self.name, number)) in old_ends
        ]

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
        view = view_of(link) or view_of(back)
        self._comparing = Comparing(clusters, LinkName(link.name), Views(view, view))
        self._naming, self._selection = naming_of(back), selection_of(back)

    def topics(self, promotions: Mapping[TopicName, Promotion]) -> Iterator[TopicReturn]:
        """Yield what becomes of each topic."""
        clusters = self._clusters
        ends = {
            name: topic_promotion.ends
            for name, topic_promotion in promotions.items()
            if topic_promotion.ends is not None
        }
        new = clusters.source.confirm_topics([mirror_ends.target for mirror_ends in ends.values()])
        old = clusters.target.confirm_topics(list(ends))
        old_ends = log_ends_of(clusters.target, [info for info in old.values() if not info.error])
        ours = clusters.known()
        decided: dict[TopicName, TopicReturn | None] = {}
        pairs: dict[TopicName, _Pair] = {}
        for name, promotion in promotions.items():
            if (of_topic := ends.get(name)) is None:
                why = "its promotion was cut short: call the verb that promoted it again"
                decided[name] = TopicReturn(name, name, ReturnState.REFUSED, why)
                continue
            pair = _Pair(promotion, of_topic, new[of_topic.target], old[name])
            if of_topic.target in ours and is_still(
                ours[of_topic.target].target_id, pair.old.topic_id
            ):
                decided[name] = TopicReturn(
                    name, of_topic.target, ReturnState.DONE, "it is a mirror"
                )
            elif why := self._refusal(pair):
                decided[name] = pair.refused(why)
            elif begun_anew(promotion, pair.old):
                decided[name] = self._resumed(pair, old_ends)
            else:
                pairs[name] = pair
        decided |= self._looked(pairs, old_ends)
        yield from (row for name in promotions if (row := decided[name]) is not None)
        yield from self._anew([pair for name, pair in pairs.items() if decided[name] is None])

    def _refusal(self, pair: _Pair) -> str:
        """Return why the topic can't be copied back, whatever its logs hold."""
        clusters, mirror = self._clusters, pair.ends.target
        if pair.ends.source_cluster != clusters.target.cluster_id():
            return f"{clusters.link.target} is not the cluster that it was copied from"
        if why := self._changed(pair) or self._piped(pair):
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

    def _piped(self, pair: _Pair) -> str:
        pipeline = pipeline_of(self._link, pair.name)
        return f"pipeline {pipeline} of {self._link.name} changed its records" if pipeline else ""

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

    def _looked(
        self, pairs: Mapping[TopicName, _Pair], old_ends: Mapping[TopicPartition, Offset]
    ) -> dict[TopicName, TopicReturn | None]:
        """Return what becomes of topics; None: it is to be made anew."""
        places = {name: pair.partitions(old_ends) for name, pair in pairs.items()}
        looked: dict[TopicName, TopicReturn | None] = {}
        for name, pair in pairs.items():
            if missing := pair.ends.partitions.keys() - {p.at_old.partition for p in places[name]}:
                at_old = TopicPartition(name, min(missing))
                looked[name] = pair.refused(f"the log end of {at_old} can't be read; try again")
        open_ones = self._comparing.open_transactions(
            [
                partition.at_old
                for name in pairs.keys() - looked.keys()
                for partition in places[name]
            ]
        )
        for name, producers in open_ones.items():
            words = listed([producer.words() for producer in producers])
            looked[name] = pairs[name].refused(f"a transaction is open there: {words}")
        left = {name: pair.ends for name, pair in pairs.items() if name not in looked}
        rows = self._comparing.compare(
            left, [partition for name in left for partition in places[name]]
        )
        for name in left:
            looked[name] = self._judged(pairs[name], places[name], rows)
        return looked

    def _judged(
        self,
        pair: _Pair,
        partitions: list[PromotedPartition],
        rows: Mapping[TopicPartition, Comparison],
    ) -> TopicReturn | None:
        """Return what becomes of a topic; None: it is to be made anew."""
        unequal = [row for partition in partitions if (row := rows[partition.at_old]).why]
        for row in sorted(unequal, key=lambda row: not row.must_stay):
            may_go = self._tail is Tail.RECREATE and not row.must_stay
            return None if may_go else pair.refused(row.why)
        parts = [
            PartitionReturn(
                *(partition.at_old.partition, partition.promotion, partition.old_end),
                *(rows[partition.at_old].tail, rows[partition.at_old].evidence),
            )
            for partition in partitions
        ]
        count = sum(part.tail for part in parts)
        if count and self._tail is Tail.RECREATE:
            return None
        state, why = self._by_tail(count, parts)
        record = self._record(pair)
        return TopicReturn(pair.name, pair.ends.target, state, why, tuple(parts), record)

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

    def _by_tail(self, tail: int, parts: list[PartitionReturn]) -> tuple[ReturnState, str]:
        if not tail:
            return ReturnState.READY, f"both logs are equal up to the promotion{self._shown(parts)}"
        words = f"up to {tail:,} records at {self._clusters.link.target} never crossed"
        if self._tail is Tail.KEEP:
            return ReturnState.READY, f"{words}; they stay, and offsets differ behind them"
        if self._tail is Tail.LEAVE:
            return ReturnState.LEFT, words
        how = f"`heliostat tail {self._link.name}` shows them; --tail says what becomes of them"
        return ReturnState.REFUSED, f"{words}: {how}"

    def _shown(self, parts: list[PartitionReturn]) -> str:
        """Return by what else than records it is shown, and of how many partitions."""
        link = self._clusters.link
        words = {
            Evidence.LEADER_EPOCHS: f"; {{}} of {len(parts)} partitions by the leader epochs of "
            f"{link.target} only: {link.source} has deleted what could be compared",
            Evidence.NOTHING_THERE: f"; {{}} of {len(parts)} partitions have no record below it at "
            f"{link.target}",
        }
        copied = [part.evidence for part in parts if part.promotion.source_end]
        return "".join(
            text.format(count) for row, text in words.items() if (count := copied.count(row))
        )

    def _anew(self, pairs: list[_Pair]) -> Iterator[TopicReturn]:
        """Yield what becomes of topics that are to be made anew."""
        if not pairs:
            return
        with PlainReader(self._clusters.target_access, committed=True) as at_old:
            refused = self._recreating.refusals({pair.name: pair.ends for pair in pairs}, at_old)
        were = self._recreating.as_they_are([pair.old for pair in pairs])
        for pair in pairs:
            if why := refused.get(pair.name):
                yield pair.refused(why)
            else:
                why = "it is made anew at the old source, and copied whole, at equal offsets"
                yield self._recreated(pair, were[pair.name], why)

    def _resumed(self, pair: _Pair, old_ends: Mapping[TopicPartition, Offset]) -> TopicReturn:
        """Return what becomes of a topic that was about to be made anew."""
        assert pair.promotion.recreation is not None
        partitions = (TopicPartition(pair.name, part.partition) for part in pair.old.partitions)
        if any(old_ends.get(partition) != 0 for partition in partitions):
            why = "it was deleted to be made anew, and somebody else has written there since"
            return pair.refused(why)
        why = "it was deleted to be made anew; it is copied whole"
        return self._recreated(pair, pair.promotion.recreation, why)

    def _recreated(self, pair: _Pair, recreation: Recreation, why: str) -> TopicReturn:
        record = replace(self._record(pair), target_id=None)
        return TopicReturn(
            pair.name, pair.ends.target, ReturnState.READY, why, (), record, recreation
        )
