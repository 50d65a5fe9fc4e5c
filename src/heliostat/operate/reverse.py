"""Failing back without a full copy: the old source becomes the target of a link that leads back.

    look     promotions of the link, both logs of each partition                     reads only
    check    the logs are equal up to the promotion, and what the old source has behind it
    write    offset map, then where partitions begin, then whose mirrors they are

Nothing is written to the old source's topics, and nothing of them is cut away: records behind the
promotion (the tail) stay where the operator says so, or their topic is left as it is.

I2  The link that leads back continues at the old source's log end with what came to the new primary
    after the promotion.
I10 That link is claimed while its state is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from heliostat.clusters.admin import TopicInfo
from heliostat.clusters.plain_records import PlainReader, PlainRecord
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.handover.promotion import MirrorEnds, PartitionPromotion, Promotion
from heliostat.invariants import first_generation
from heliostat.mm2.adopt_clusters import (
    OWN_LASTS_S,
    LinkClusters,
    let_go,
    other_claims_of,
    owned,
    refuse_moved,
)
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
    is_still,
)
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.security.ledger import AccessTopic, Ledger
from heliostat.state.link_state import LinkState, Starts, Stored
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.wish_book import WishBook

_Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
COMPARED = 100
"""Offsets below the promotion whose records must be equal; `heliostat verify` compares all."""


class Tail(StrEnum):
    """What becomes of a topic whose old source has records that never crossed."""

    REFUSE = "refuse"
    KEEP = "keep"
    """They stay; copying goes on behind them, and offsets differ from there on."""
    LEAVE = "leave"
    """The topic is not copied back."""


class ReturnState(StrEnum):
    """What becomes of a topic."""

    READY = "ready"
    """It can be copied back, or is from now on."""
    LEFT = "left"
    REFUSED = "refused"
    DONE = "done"
    """The link that leads back has it already."""


@dataclass(frozen=True, slots=True)
class PartitionReturn:
    """One partition: where both logs are equal, and where copying goes on."""

    partition: PartitionId
    promotion: PartitionPromotion
    old_end: Offset
    """Log end at the old source."""
    tail: int
    """Records there that never crossed, at most; 0: none."""


@dataclass(frozen=True, slots=True)
class TopicReturn:
    """One topic, by its name at the old source."""

    topic: TopicName
    mirror: TopicName
    """Its name at the new primary."""
    state: ReturnState
    why: str
    partitions: tuple[PartitionReturn, ...] = ()
    record: MirrorRecord | None = None

    @property
    def tail(self) -> int:
        """Records at the old source that never crossed, at most."""
        return sum(each.tail for each in self.partitions)


@dataclass(frozen=True, slots=True)
class Reversal:
    """What becomes, or became, of all topics."""

    link: LinkName
    back: LinkName
    topics: tuple[TopicReturn, ...]
    is_written: bool = False

    @property
    def ready(self) -> list[TopicReturn]:
        """Topics that can be copied back."""
        return [each for each in self.topics if each.state is ReturnState.READY]

    @property
    def refused(self) -> list[TopicReturn]:
        """Topics that can't."""
        return [each for each in self.topics if each.state is ReturnState.REFUSED]

    def describe(self) -> Iterator[str]:
        """Return a line for each topic."""
        return (f"{each.topic}: {each.state.value}: {each.why}" for each in self.topics)

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "back": self.back,
            "is_written": self.is_written,
            "topics": [
                {
                    "topic": each.topic,
                    "mirror": each.mirror,
                    "state": each.state.value,
                    "why": each.why,
                    "tail": each.tail,
                    "partitions": [
                        {
                            "partition": part.partition,
                            "source_end": part.promotion.source_end,
                            "target_end": part.promotion.target_end,
                            "old_end": part.old_end,
                            "tail": part.tail,
                        }
                        for part in each.partitions
                    ],
                }
                for each in self.topics
            ],
        }


def reverse(
    config: Config,
    link: LinkConfig,
    back: LinkConfig,
    topics: Collection[str] = (),
    *,
    tail: Tail = Tail.REFUSE,
    dry_run: bool = False,
    agree: Callable[[Reversal], bool] = lambda _: True,
) -> Reversal:
    """Have `back` continue at the old source with what came to the new primary since.

    Parameters
    ----------
    link
        The link whose mirrors were promoted.
    back
        A link in the other direction that is not running.
    topics
        Names at the old source; none: all that were promoted.
    agree
        Called with what is to be done before anything is written.

    Raises
    ------
    Refused
        Nothing was promoted, `back` leads elsewhere or is running, or something has changed while
        it was looked at.
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again.
    """
    _refuse_elsewhere(link, back)
    with LinkClusters(config, back) as clusters:
        promotions = _promotions(clusters, link, topics)
        looked = _Look(clusters, link, back, tail)
        found = tuple(looked.topics(promotions))
        reversal = Reversal(LinkName(link.name), LinkName(back.name), found)
        if dry_run or not reversal.ready or not agree(reversal):
            return reversal
        with owned(clusters) as (state, ownership):
            records = [each.record for each in reversal.ready if each.record is not None]
            refuse_moved(
                clusters.target,
                records,
                {
                    TopicPartition(each.topic, part.partition): part.old_end
                    for each in reversal.ready
                    for part in each.partitions
                },
            )
            ownership.hold(OWN_LASTS_S)
            stamp = Stamp(first_generation(ownership.claim_number), 0)
            _write(clusters, state, reversal.ready, stamp)
            let_go(state, records, other_claims_of(clusters, (each.target for each in records)))
        _note(clusters, link, [promotions[each.topic] for each in reversal.ready])
        return replace(reversal, is_written=True)


def _note(clusters: LinkClusters, link: LinkConfig, promotions: Collection[Promotion]) -> None:
    """Note that the old source's topics are mirrors now, whose rights are synced again."""
    with closing(WishBook(LinkName(link.name), clusters.source_access)) as book:
        book.read()
        book.write([replace(each, is_source_fenced=True) for each in promotions])
    if clusters.link.access.is_on:
        access = AccessTopic(clusters.target_access, clusters.name, clusters.target)
        with closing(access) as topic:
            ledger = Ledger(topic)
            ledger.read()
            ledger.forget_promoted(each.topic for each in promotions)


def _refuse_elsewhere(link: LinkConfig, back: LinkConfig) -> None:
    if (back.source, back.target) != (link.target, link.source):
        raise Refused(
            f"link {back.name} leads from {back.source} to {back.target}, and the way back of "
            f"{link.name} is from {link.target} to {link.source}",
            hint="name a link of that direction, or add one to the file",
        )
    if back.topics.fan_in is not None or back.pipelines:
        raise Refused(
            f"link {back.name} changes what it copies: nothing can be equal to where it goes",
            hint="take a link without pipelines and fan_in for the way back",
        )


def _promotions(
    clusters: LinkClusters, link: LinkConfig, topics: Collection[str]
) -> dict[TopicName, Promotion]:
    """Return what was promoted of the link, from its wishes at the new primary."""
    with closing(WishBook(LinkName(link.name), clusters.source_access)) as book:
        book.read()
        promotions = dict(book.wishes.promotions)
    for topic in topics:
        if topic not in promotions:
            raise Refused(
                f"{topic} was not promoted", hint="`heliostat switch` and `failover` promote"
            )
    chosen = {name: each for name, each in promotions.items() if not topics or name in topics}
    if not chosen:
        raise Refused(
            f"no mirror of link {link.name} was promoted",
            hint="`heliostat switch` and `failover` promote",
        )
    return dict(sorted(chosen.items()))


@dataclass(frozen=True, slots=True)
class _Ends:
    """Ends of the old source's logs, and what compares both sides."""

    old: Mapping[TopicPartition, Offset]
    compared: LogEndsCompared


class _Look:
    """Looks at both sides of what was promoted."""

    def __init__(
        self, clusters: LinkClusters, link: LinkConfig, back: LinkConfig, tail: Tail
    ) -> None:
        self._clusters = clusters
        self._link = link
        self._tail = tail
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
            reader_of = {
                access: stack.enter_context(PlainReader(access, committed=True))
                for access in (clusters.target_access, clusters.source_access)
            }
            look = _Ends(old_ends, LogEndsCompared(*reader_of.values()))
            for name in promotions:
                if (of_topic := ends.get(name)) is None:
                    why = "its promotion was cut short: call the verb that promoted it again"
                    yield TopicReturn(name, name, ReturnState.REFUSED, why)
                    continue
                here, there = new[of_topic.target], old[name]
                if of_topic.target in ours and is_still(
                    ours[of_topic.target].target_id, there.topic_id
                ):
                    yield TopicReturn(name, of_topic.target, ReturnState.DONE, "it is a mirror")
                    continue
                why = self._refusal(name, of_topic, here, there)
                if why:
                    yield TopicReturn(name, of_topic.target, ReturnState.REFUSED, why)
                    continue
                yield self._looked(name, of_topic, here, there, look)

    def _refusal(self, name: TopicName, ends: MirrorEnds, new: TopicInfo, old: TopicInfo) -> str:
        """Return why the topic can't be copied back, whatever its logs hold."""
        clusters, mirror = self._clusters, ends.target
        if ends.source_cluster != clusters.target.cluster_id():
            return f"{clusters.link.target} is not the cluster that it was copied from"
        if why := self._changed(ends, new, old):
            return why
        if (wanted := self._naming.target_name(mirror)) != name:
            return (
                f"link {clusters.name} would call it {wanted}: give that link a naming that makes "
                "its old name of it"
            )
        if not self._selection.selects(mirror):
            return f"link {clusters.name} does not select {mirror}: see its topics.include"
        if len(old.partitions) > len(new.partitions):
            return f"it has {len(new.partitions)} partitions at {clusters.link.source} only"
        return ""

    def _changed(self, ends: MirrorEnds, new: TopicInfo, old: TopicInfo) -> str:
        """Return which of the topics is another one now, or is gone."""
        link = self._clusters.link
        for side, info, was in (
            (link.source, new, ends.target_id),
            (link.target, old, ends.source_id),
        ):
            if info.error is not None:
                return f"{info.name} is gone at {side}"
            if not is_still(was, info.topic_id):
                return f"{info.name} was deleted and created again at {side}"
        return ""

    def _looked(
        self,
        name: TopicName,
        ends: MirrorEnds,
        new: TopicInfo,
        old: TopicInfo,
        look: _Ends,
    ) -> TopicReturn:
        old_ends, compared = look.old, look.compared
        parts: list[PartitionReturn] = []
        for number, promotion in sorted(ends.partitions.items()):
            at_old = TopicPartition(name, number)
            if (old_end := old_ends.get(at_old)) is None:
                why = f"the log end of {at_old} can't be read; try again"
                return TopicReturn(name, ends.target, ReturnState.REFUSED, why)
            at_new = TopicPartition(ends.target, number)
            if why := compared.difference(at_old, at_new, promotion, old_end):
                return TopicReturn(name, ends.target, ReturnState.REFUSED, why)
            tail = compared.tail(at_old, promotion.source_end, old_end)
            parts.append(PartitionReturn(number, promotion, old_end, tail))
        record = MirrorRecord(
            source=ends.target,
            target=name,
            source_id=new.topic_id,
            target_id=old.topic_id,
            source_cluster=self._clusters.source_id,
            start="earliest",  # of partitions that came since
            initial_partitions=len(new.partitions),
        )
        by_tail = self._by_tail(sum(part.tail for part in parts))
        return TopicReturn(name, ends.target, *by_tail, tuple(parts), record)

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


@dataclass(frozen=True, slots=True)
class LogEndsCompared:
    """Compares the ends of both logs."""

    old: PlainReader
    new: PlainReader

    def tail(self, partition: TopicPartition, source_end: int, old_end: int) -> int:
        """Return how many records there may be; 0 if there are only markers and aborted ones."""
        if old_end <= source_end:
            return 0
        first = next(iter(self.old.read(partition, source_end, old_end)), None)
        return 0 if first is None else old_end - first.offset

    def difference(
        self,
        at_old: TopicPartition,
        at_new: TopicPartition,
        promotion: PartitionPromotion,
        old_end: Offset,
    ) -> str:
        """Return how the logs differ below the promotion; empty if they don't."""
        if old_end < promotion.source_end:
            return (
                f"{at_old} ends at {old_end}, and was copied up to {promotion.source_end}: the old "
                "source has lost records; delete the topic there, and it is copied whole"
            )
        here = self._last(self.old, at_old, promotion.source_end)
        there = self._last(self.new, at_new, promotion.target_end)
        for mine, theirs in zip(reversed(here), reversed(there), strict=False):
            if mine != theirs:
                return (
                    f"records below offset {promotion.source_end} of {at_old} are others than in "
                    f"{at_new}: an election at the old source may have replaced them; delete the "
                    "topic there, and it is copied whole"
                )
        return ""

    def _last(self, reader: PlainReader, partition: TopicPartition, end: int) -> list[_Content]:
        """Return the contents of the last records below an offset that are still there."""
        start = max(reader.bounds([partition])[partition].start, end - COMPARED)
        return [_content(record) for record in reader.read(partition, start, end)]


def _content(record: PlainRecord) -> _Content:
    return record.key, record.value, record.headers


def _write(
    clusters: LinkClusters, state: LinkState, topics: Collection[TopicReturn], stamp: Stamp
) -> None:
    """Write the state, and last the rows that make the topics mirrors of the way back."""
    stored = state.read()
    names = [each.mirror for each in topics]
    if stored.producer_id is not None and stored.promoted.keys() & set(names):
        _take_another_id(clusters, state, stored)
    with closing(WishBook(clusters.name, clusters.target_access)) as book:
        book.read()
        gone = [
            book.wishes.promotions[name].key for name in names if name in book.wishes.promotions
        ]
        if gone:
            book.put(dict.fromkeys(gone))
    maps, rows = state.offsets.fresh(), list[MapRow]()
    for each in topics:
        assert each.record is not None
        topic_id = id_text(each.record.target_id)
        for part in each.partitions:
            mirror = TopicPartition(each.topic, part.partition)
            at = Break(part.old_end, part.promotion.target_end)
            if at.source != at.target or not maps.of(mirror, topic_id).is_identity:
                rows.append(MapRow(RowKey(mirror, topic_id, at.target, stamp), (at,)))
    if rows:
        state.offsets.put(rows)
    state.put_starts({each.mirror: _starts(each) for each in topics})
    state.promotions.take_back(names)
    state.put_mirrors({each.mirror: each.record for each in topics if each.record is not None})


def _take_another_id(clusters: LinkClusters, state: LinkState, stored: Stored) -> None:
    """Give the link a new producer id: brokers remember the last sequences of the one it has.

    They lie in logs that have others' records since. All mirrors that it still has are taken over
    at their ends, under the new id: nothing of them is under way, as the link was claimed.
    """
    infos = clusters.target.confirm_topics([each.target for each in stored.mirrors.values()])
    ends = log_ends_of(clusters.target, [info for info in infos.values() if not info.error])
    starts: dict[TopicName, Starts] = {}
    for name, record in stored.mirrors.items():
        own = record.own(infos[record.target].partitions)
        if missing := own.keys() - ends.keys():
            raise ConnectionLost(f"the log end of {min(missing)} can't be read now")
        before = stored.starts.get(name)
        if before is not None and before.target_id == record.target_id:
            adopted = {number: ends[mirror] for mirror, number in own.items()}
            starts[name] = replace(before, adopted=adopted)
    state.put_starts(starts)
    state.put_producer(clusters.target.init_producer_id(), stored.producers)


def _starts(topic: TopicReturn) -> Starts:
    ends = {part.partition: part.old_end for part in topic.partitions}
    target_id = None if topic.record is None else topic.record.target_id
    return Starts(target_id, dict.fromkeys(ends, Offset(0)), ends)
