"""The copies of a lane's partitions as a round begins, with what earlier rounds have noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.clusters.kafka_codes import NETWORK_EXCEPTION
from heliostat.names import Offset
from heliostat.offsets.map_rows import Stamp
from heliostat.records.batches.copied_epochs import CopiedEpochs, CopiedTo
from heliostat.records.copier.begin_checks import needs_last_batch
from heliostat.records.copier.doubts import doubt_unnoted
from heliostat.records.copier.lane import LaneSpec, PartitionSpec, PlanChange
from heliostat.records.copier.lane_leaders import no_leader
from heliostat.records.copier.network import (
    AppendLost,
    BrokerProblem,
    FetchLost,
    LastBatch,
    LogRange,
    Network,
    Unanswered,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

LATE_MARKERS_S = 1.0
"""How long to wait before the end is read after an answer to markers was lost: they may still land,
and can't be told from repeated ones. A broker handles what it has received in far less time."""


def copies_of(lane: LaneSpec, begins_s: float, now_ms: int) -> list[PartitionCopy]:
    """Create one for each partition, in the lane's order; the round begins at `begins_s`."""
    notes = {index: (offset, epoch, end) for index, offset, epoch, end in lane.copied}
    return [
        copy_of(lane, lane, index, spec, notes.get(index), begins_s=begins_s, now_ms=now_ms)
        for index, spec in enumerate(lane.partitions)
    ]


def copy_of(
    lane: LaneSpec,
    told: LaneSpec | PlanChange,
    index: int,
    spec: PartitionSpec,
    note: tuple[int, int, int] | None,
    *,
    begins_s: float,
    now_ms: int,
) -> PartitionCopy:
    """Create that of one partition.

    Parameters
    ----------
    lane
        What its round began with.
    told
        What gave the partition to the round: its beginning, or a change of its plan.
    index, spec
        Its place in the round, and what is copied.
    note
        See `LaneSpec.copied`, without the index; None: no round has noted anything.
    begins_s, now_ms
        When the round has it (monotonic seconds, and wall clock time).
    """
    item = PartitionCopy(
        index,
        spec,
        lane.settings,
        lane.producer_id,
        now_ms,
        stamp=Stamp(told.generation, lane.round_number),
        holds_old=bool(told.waits_for),
        former_producers=lane.former_producers,
    )
    if told.may_land_s:
        item.appends.may_land_until_s = begins_s + told.may_land_s
    if note is None:
        doubt_unnoted([item], ())
    else:
        offset, epoch, end = note
        item.fetches.epochs = CopiedEpochs(CopiedTo(offset, epoch))
        item.progress.copied_to, item.progress.copied_end = offset, end
    return item


def any_old(items: Mapping[int, PartitionCopy], now_ms: int) -> bool:
    """Return whether any next batch is old: these need a connection with nothing in flight (I4)."""
    return any(item.appends.is_next_old(now_ms) for item in items.values())


def last_batches_of(
    network: Network, ranges: Mapping[int, LogRange | BrokerProblem], items: Sequence[PartitionCopy]
) -> tuple[Mapping[int, LastBatch | None], set[int]]:
    """Return who appended the last records of these logs, and the logs for which that fails now."""
    asked = {
        index: target
        for index, target in ranges.items()
        if isinstance(target, LogRange) and needs_last_batch(items[index].spec, target)
    }
    last_batches = network.target_last_batches(asked) if asked else {}
    return last_batches, asked.keys() - last_batches.keys()


def target_ranges_of(
    network: Network, seekers: Sequence[int], items: Sequence[PartitionCopy]
) -> Mapping[int, LogRange | BrokerProblem]:
    """Return the target's log ranges; one that ends before what landed there is looked up twice."""
    ranges = network.target_ranges(seekers)
    short = [
        index
        for index, target in ranges.items()
        if isinstance(target, LogRange) and target.end < items[index].progress.copied_end
    ]
    return {**ranges, **network.target_ranges(short, confirmed=True)} if short else ranges


def ask_high_watermarks(
    network: Network, items: Sequence[PartitionCopy], now_s: float, now_ms: int
) -> bool:
    """Ask for log ranges at the source; return whether a leader may have changed."""
    if not items:
        return False
    by_index = {item.index: item for item in items}
    refused = [item.index for item in items if item.fetches.needs_source_range]
    others = [item.index for item in items if not item.fetches.needs_source_range]
    is_stale = bool(refused)
    missing: dict[int, Offset] = {}
    ranges = dict(network.source_ranges(refused, confirmed=True)) if refused else {}
    ranges |= network.source_ranges(others) if others else {}
    for index, source in ranges.items():
        item = by_index[index]
        if not isinstance(source, Exception):
            if _awaits_first_answer(item):
                continue
            item.source_stands(source, now_ms)
            waits = item.phase is not Phase.COPY or item.progress.missing_ms < 0
            if waits and 0 <= item.progress.position < source.end:
                missing[index] = max(Offset(item.progress.position), source.start)
        elif item.fetches.needs_source_range:
            item.fetches.needs_source_range = False
            if item.phase is not Phase.STOPPED:  # a stop must stay visible
                no_leader(item, source, now_s, now_ms, is_target=False)
            is_stale = True
        else:
            item.progress.is_end_old = True
    _look_up_ages(network, by_index, missing, now_ms)
    return is_stale


def _awaits_first_answer(item: PartitionCopy) -> bool:
    """Whether no fetch of this round was answered yet.

    Only that finds what stopped the partition before: with an end from elsewhere its report would
    show that it got past its stop (`has_passed_stops`).
    """
    is_refused = item.fetches.needs_source_range
    return item.phase is Phase.COPY and not is_refused and item.progress.high_watermark < 0


def _look_up_ages(
    network: Network,
    items: Mapping[int, PartitionCopy],
    missing: Mapping[int, Offset],
    now_ms: int,
) -> None:
    """Read how old the oldest missing records are; each once."""
    unknown = {
        index: at for index, at in missing.items() if items[index].progress.must_be_looked_up
    }
    for index, written_ms in network.source_times(unknown).items() if unknown else ():
        progress = items[index].progress
        progress.is_behind_from(written_ms, now_ms)
        progress.looked_up_at = progress.position


def look_after_markers(
    items: Sequence[PartitionCopy],
    indexes: Sequence[int],
    network: Network,
    now_s: float,
    now_ms: int,
) -> list[PartitionCopy]:
    """Read the target's ends for partitions that wait for them; return these partitions."""
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
    """Inform the partitions concerned about a lost connection or a silent broker."""
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
    """Make partitions retry whose fetch will not be answered."""
    for want in lost.wants:
        item = items[want.index]
        if want.attempt == item.attempt and want.bytes_max:
            item.fetches.under_way = None
            if item.phase is not Phase.STOPPED:
                item.fetch_failed(NETWORK_EXCEPTION, lost.reason, now_s, now_ms)


def delete_throw_away(
    partitions: Sequence[PartitionCopy], network: Network, now_s: float, now_ms: int
) -> list[PartitionCopy]:
    """Delete fillers that aligned starts; return the partitions that may continue."""
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
