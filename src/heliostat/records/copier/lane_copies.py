"""The copies of a lane's partitions as a round begins, with what is known from rounds before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.clusters.kafka_codes import NETWORK_EXCEPTION
from heliostat.names import Offset
from heliostat.offsets.map_rows import Stamp
from heliostat.records.batches.copied_epochs import CopiedEpochs, CopiedTo
from heliostat.records.copier.begin_checks import needs_last_batch
from heliostat.records.copier.doubts import doubt_unnoted
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.network import (
    AppendLost,
    FetchLost,
    LastBatch,
    LogRange,
    Network,
    Problem,
    Unanswered,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

LATE_MARKERS_S = 1.0
"""Markers whose answer was lost may land yet, and nothing tells them from those that are sent
again: so long is waited before the end is read. A broker serves what it has taken in far less."""


def copies_of(lane: LaneSpec, begins_s: float, now_ms: int) -> list[PartitionCopy]:
    """One for each partition, in the lane's order, of a round that begins at a monotonic second."""
    found = [
        PartitionCopy(
            index,
            spec,
            lane.settings,
            lane.producer_id,
            now_ms,
            stamp=Stamp(lane.generation, lane.round_number),
            holds_old=bool(lane.waits_for),
        )
        for index, spec in enumerate(lane.partitions)
    ]
    for item in found if lane.may_land_s else ():
        item.appends.may_land_until_s = begins_s + lane.may_land_s
    for index, offset, epoch, end in lane.copied:
        found[index].fetches.epochs = CopiedEpochs(CopiedTo(offset, epoch))
        found[index].progress.copied_to, found[index].progress.copied_end = offset, end
    doubt_unnoted(found, {index for index, *_ in lane.copied})
    return found


def any_old(items: Mapping[int, PartitionCopy], now_ms: int) -> bool:
    """Whether any has next what must go with nothing before it on its connection (I4)."""
    return any(item.appends.is_next_old(now_ms) for item in items.values())


def last_batches_of(
    network: Network, ranges: Mapping[int, LogRange | Problem], items: Sequence[PartitionCopy]
) -> tuple[Mapping[int, LastBatch | None], set[int]]:
    """Who appended the last records of these logs; and those of which that can't be told now."""
    asked = {
        index: target
        for index, target in ranges.items()
        if isinstance(target, LogRange) and needs_last_batch(items[index].spec, target)
    }
    last_batches = network.target_last_batches(asked) if asked else {}
    return last_batches, asked.keys() - last_batches.keys()


def ask_high_watermarks(
    network: Network, items: Sequence[PartitionCopy], now_s: float, now_ms: int
) -> bool:
    """Ask where the source of these stands; whether somebody else may lead one of them now."""
    if not items:
        return False
    by_index = {item.index: item for item in items}
    is_stale = False
    missing: dict[int, Offset] = {}
    for index, source in network.source_ranges(list(by_index)).items():
        item = by_index[index]
        if not isinstance(source, Exception):
            item.source_stands(source, now_ms)
            if item.phase is not Phase.COPY and 0 <= item.progress.position < source.end:
                missing[index] = max(Offset(item.progress.position), source.start)
        elif item.fetches.needs_source_range:
            item.fetches.needs_source_range = False
            if item.phase is not Phase.STOPPED:  # nothing hides that it waits for a person
                item.standing.no_leader(source, now_s, now_ms)
            is_stale = True
    unknown = {
        index: at for index, at in missing.items() if by_index[index].progress.missing_ms < 0
    }
    for index, time_ms in network.source_times(unknown).items() if unknown else ():
        by_index[index].progress.missing_ms = time_ms
    return is_stale


def look_after_markers(
    items: Sequence[PartitionCopy],
    indexes: Sequence[int],
    network: Network,
    now_s: float,
    now_ms: int,
) -> list[PartitionCopy]:
    """Tell partitions that can't go on without it where the target ends now; answers them."""
    for index, target in network.target_ranges(indexes).items():
        end = None if isinstance(target, Exception) else target.end
        items[index].ends_at(end, now_s, now_ms)
    return [items[index] for index in indexes]


def went_wrong(
    items: Sequence[PartitionCopy],
    event: FetchLost | AppendLost | Unanswered,
    now_s: float,
    now_ms: int,
) -> None:
    """Tell those whom it concerns of a connection that was lost, or of a broker that is silent."""
    match event:
        case FetchLost():
            _fetch_lost(items, event, now_s, now_ms)
        case AppendLost():
            for send in event.sends:
                item = items[send.index]
                item.append_lost(send.batch, event.reason, now_s, now_ms)
                if send.batch.fills:
                    item.standing.not_before_s = max(
                        item.standing.not_before_s, now_s + LATE_MARKERS_S
                    )
        case Unanswered():
            for index in event.indexes:
                item = items[index]
                item.unanswered(event.problem, now_s, now_ms, is_target=event.is_target)


def _fetch_lost(items: Sequence[PartitionCopy], lost: FetchLost, now_s: float, now_ms: int) -> None:
    """A fetch will not be answered: those that waited for it try again."""
    for want in lost.wants:
        item = items[want.index]
        if want.attempt == item.attempt and want.bytes_max:
            item.fetches.under_way = None
            if item.phase is not Phase.STOPPED:
                item.fetch_failed(NETWORK_EXCEPTION, lost.reason, now_s, now_ms)


def delete_throw_away(
    partitions: Sequence[PartitionCopy], network: Network, now_s: float, now_ms: int
) -> list[PartitionCopy]:
    """Delete what lifted targets; the partitions that may go on."""
    aligned: list[PartitionCopy] = []
    for item in partitions:
        before = item.delete_before
        if before is not None and now_s >= item.standing.not_before_s:
            problem = network.delete_target_records(item.index, before)
            if problem is None:
                item.deleted(before, now_ms)
                aligned.append(item)
            else:
                item.find_end_failed(problem, now_s, now_ms)
    return aligned
