"""Giving mirrors away: the step of `switch` and `failover` after which others may write them.

    the link's owner answers      it has given the partitions up, and nothing of them is under way
    every broker denies           its principal may not write there, by rules that each one shows
    neither                       the link is claimed once its leases are over, and what may still
                                  land has landed; a driver that has begun meanwhile is asked

I1, I10  A mirror's end is read only after one of these; rules that protect it go after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.gaps.ledger import CopiedTopic, CopyNote, copied_of, read_copied
from heliostat.handover.promotion import (
    FencedBy,
    LeaderEpoch,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
    SourceSeen,
)
from heliostat.handover.still_open import NONE_OPEN, StillOpen
from heliostat.names import (
    ClusterId,
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
    is_still,
)
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import read_maps
from heliostat.operate.named_places import nearest
from heliostat.operate.protection import open_to_writers
from heliostat.operate.shut_out import let_in_again, shut_out
from heliostat.operate.wish_desk import WishDesk, wish_desk
from heliostat.operate.wishes import await_owner
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.state.claimed import DrivenElsewhere, claimed
from heliostat.state.link_state import LinkState, Stored
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.topics.values import MirrorRecord

SourceEnds = Mapping[TopicPartition, SourceSeen]
"""By source partition."""
ANSWERS_WITHIN_S = 5.0
"""An owner that is well gives its partitions up within a second."""
BEGINS_WITHIN_S = 30.0
"""A driver that has just claimed the link reads its state first."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """What became of a promotion."""

    promotions: tuple[Promotion, ...]
    """Each with its ends."""
    fenced_by: FencedBy
    took_s: Mapping[str, float]
    """By step."""


def promotable(state: LinkState, topics: Collection[str] = ()) -> Stored:
    """Return the link's state; all its mirrors or these topics can be promoted.

    Raises
    ------
    Refused
        The link has no mirror of a topic, or none at all.
    """
    stored = state.read()
    names = {*stored.mirrors, *stored.promoted}
    for topic in topics:
        if topic not in names:
            raise Refused(f"the link has no mirror of {topic}", hint=nearest(topic, names))
    if not names:
        raise Refused(
            "the link has no mirrors", hint="`heliostat status` shows whether it has ever run"
        )
    return stored


def promote(
    config: Config,
    link: LinkConfig,
    topics: Collection[TopicName],
    how: PromotedBy,
    *,
    by: str,
    why: str = "",
    within_s: float = ANSWERS_WITHIN_S,
    still_open: Mapping[TopicName, StillOpen] = MappingProxyType({}),
    read_source_ends: Callable[[], SourceEnds] = dict,
    tell: Callable[[str], None] = lambda _: None,
) -> Promoted:
    """Give these topics' mirrors away; done again it changes nothing and returns the same.

    Parameters
    ----------
    topics
        Names at the source.
    within_s
        How long the link's owner may take, before its leases are waited out instead.
    still_open
        Transactions that are open at the source, by its topics; kept with the promotion.
    read_source_ends
        Returns where the source's logs ended when they were last seen; called once nothing of the
        link can land any more.
    tell
        Called with what is waited for.

    Raises
    ------
    Refused
        A topic has no mirror, or is gone or recreated at the target.
    ConnectionLost, BrokerError
        The target does not answer, or refuses; call it again.
    """
    if how is not PromotedBy.FINISH:
        refuse_if_merged(link, "a promotion")
    took_s: dict[str, float] = {}
    with wish_desk(config, link) as desk, closing(LinkState(link, desk.target)) as state:
        began_s = time.monotonic()
        stored = promotable(state, topics)
        desk.book.read()
        new = Promotion(TopicName(""), how, by, desk.clock.wall_ms(), why)
        wanted = [_wished(desk, name, new, still_open) for name in sorted(topics)]
        end = desk.book.write(wanted, link.state.replication_factor)
        is_done, waits = await_owner(desk.reader, end, desk.clock, within_s)
        records, fenced_by = records_of(stored, topics), FencedBy.OWNER
        if not is_done:
            tell(waits)
            fenced_by = FencedBy.DENY_RULE
            if why := _why_no_rule(config, link, desk, records.values()):
                tell(f"no rule keeps the link out ({why}): its leases are waited out")
                fenced_by = _claim_or_ask(link, state, wanted, desk, end, tell)
        if fenced_by is not FencedBy.DENY_RULE:
            let_in_again(link, desk.target)
        took_s["fence"] = time.monotonic() - began_s
        began_s = time.monotonic()
        ends = ends_now(desk, link, records, read_source_ends())
        promotions = [
            row if row.ends is not None else replace(row, ends=ends[row.topic]) for row in wanted
        ]
        desk.book.write(promotions)
        took_s["ends"] = time.monotonic() - began_s
        began_s = time.monotonic()
        left = {record.target for name, record in stored.mirrors.items() if name not in topics}
        open_to_writers(link, desk.target, [record.target for record in records.values()], left)
        took_s["open"] = time.monotonic() - began_s
    return Promoted(tuple(promotions), fenced_by, took_s)


def _why_no_rule(
    config: Config, link: LinkConfig, desk: WishDesk, records: Iterable[MirrorRecord]
) -> str:
    """Keep the link out of its mirrors by rules; return why that can't be, empty: it is done."""
    if desk.reader.board.driver_at_ms is None:
        return "it has no driver"
    mirrors = [record.target for record in records]
    return shut_out(config, link, desk.target, desk.reader.board.driver, mirrors)


def _wished(
    desk: WishDesk, topic: TopicName, new: Promotion, still_open: Mapping[TopicName, StillOpen]
) -> Promotion:
    """Return the promotion that a run before this one has begun, or a new one."""
    begun = desk.book.wishes.promotions.get(topic)
    return begun or replace(new, topic=topic, still_open=still_open.get(topic, NONE_OPEN))


def _claim_or_ask(  # noqa: PLR0917 - the link, what is given away, and who is asked
    link: LinkConfig,
    state: LinkState,
    promotions: Iterable[Promotion],
    desk: WishDesk,
    end: Offset,
    tell: Callable[[str], None],
) -> FencedBy:
    """Claim the link; a driver that has begun while its leases were waited out gives it up."""
    try:
        _claim(link, state, promotions)
    except DrivenElsewhere:
        tell("a driver has begun meanwhile: it is asked")
        is_done, _ = await_owner(desk.reader, end, desk.clock, BEGINS_WITHIN_S)
        if not is_done:
            raise
        return FencedBy.OWNER
    return FencedBy.LEASE


def _claim(link: LinkConfig, state: LinkState, promotions: Iterable[Promotion]) -> None:
    """Record the promotions as the link's owner, once nothing of the last one can land."""
    with claimed(link, state):
        time.sleep(LANDS_WITHIN_S)
        state.promotions.promote(promotions)


def records_of(stored: Stored, topics: Collection[TopicName]) -> dict[TopicName, MirrorRecord]:
    """Return which mirrors topics have, or had; raises `Refused` where that is not recorded."""
    former: Mapping[TopicName, PromotedMirror] = stored.promoted
    records: dict[TopicName, MirrorRecord] = {}
    for name in topics:
        record = stored.mirrors.get(name) or former[name].record
        if record is None:
            raise Refused(
                f"the link has no record of its mirror of {name}",
                hint="its state was lost; `heliostat state rebuild` finds out whose mirrors are",
            )
        records[name] = record
    return records


def ends_now(
    desk: WishDesk,
    link: LinkConfig,
    records: Mapping[TopicName, MirrorRecord],
    last_ends: SourceEnds,
) -> dict[TopicName, MirrorEnds]:
    """Read where the mirrors end now.

    Raises
    ------
    Refused
        A mirror is gone or was recreated.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with closing(ClusterAdmin(desk.target)) as target:
        infos = target.confirm_topics([record.target for record in records.values()])
        for name, record in records.items():
            info = infos[record.target]
            if info.error is not None or not is_still(record.target_id, info.topic_id):
                raise Refused(
                    f"{record.target}, the mirror of {name}, is gone or was recreated",
                    hint="leave the topic out with --topics",
                )
        look: EndsThenMaps[dict[TopicPartition, Offset]] = EndsThenMaps(
            lambda: log_ends_of(target, infos.values()),
            lambda: read_maps(desk.target, LinkName(link.name)),
        )
        for info in infos.values():
            for part in info.partitions:
                if (mirror := TopicPartition(info.name, part.partition)) not in look.ends:
                    raise ConnectionLost(f"the log end of {mirror} can't be read now")
        cluster, copied = target.cluster_id(), read_copied(desk.link, desk.target)
        reported = desk.reader.board.positions() if link.topics.merges else None
        ends_of: dict[TopicName, dict[TopicPartition, Offset]] = {}
        for mirror, end in look.ends.items():
            ends_of.setdefault(mirror.topic, {})[mirror] = end
        return {
            name: MirrorEnds(
                record.target,
                record.source_cluster,
                ClusterId(cluster),
                record.source_id,
                record.target_id,
                _partitions(
                    record, ends_of.get(record.target, {}), look.maps, copied.get(name), last_ends
                )
                if reported is None
                else _merged(record, ends_of.get(record.target, {}), copied.get(name), reported),
            )
            for name, record in records.items()
        }


def _merged(
    record: MirrorRecord,
    ends: Mapping[TopicPartition, Offset],
    copied: CopiedTopic | None,
    reported: Mapping[TopicPartition, int],
) -> dict[PartitionId, PartitionPromotion]:
    """Return where a merged topic ended: others write it, so only the link says how far it was."""
    notes = copied_of(copied, id_text(record.source_id))
    partitions: dict[PartitionId, PartitionPromotion] = {}
    for mirror, end in ends.items():
        note = notes.get(mirror.partition)
        to = reported.get(TopicPartition(record.source, mirror.partition), 0)
        source_end = Offset(max(to, 0 if note is None else note.offset))
        partitions[mirror.partition] = PartitionPromotion(source_end, end, _epoch(note))
    return partitions


def _epoch(note: CopyNote | None) -> LeaderEpoch | None:
    return None if note is None or note.epoch < 0 else LeaderEpoch(note.epoch, Offset(note.offset))


def _partitions(
    record: MirrorRecord,
    ends: Mapping[TopicPartition, Offset],
    maps: MapReader,
    copied: CopiedTopic | None,
    last_ends: SourceEnds,
) -> dict[PartitionId, PartitionPromotion]:
    notes = copied_of(copied, id_text(record.source_id))
    partitions: dict[PartitionId, PartitionPromotion] = {}
    for mirror, end in ends.items():
        number = record.slot.source_partition(mirror.partition)
        if number is None:
            continue
        source_end = maps.of(mirror, id_text(record.target_id)).source_of(end)
        note = notes.get(number)
        if note is not None and note.end == end:  # holes at the end were passed
            source_end = Offset(max(source_end, note.offset))
        last = last_ends.get(TopicPartition(record.source, number))
        if last is not None and last.end < source_end:  # copied after it was told last
            last = last._replace(end=source_end)
        partitions[number] = PartitionPromotion(source_end, end, _epoch(note), last)
    return partitions
