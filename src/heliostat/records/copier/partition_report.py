"""What a lane reports of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.merge.own_end import OwnNote
from heliostat.names import TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase


def report_of(item: PartitionCopy, own: OwnNote | None = None) -> PartitionReport:
    """Return the report of a partition as it is now.

    Parameters
    ----------
    own
        See `PartitionReport.own`.
    """
    return PartitionReport(
        item.spec.source,
        item.spec.target,
        item.standing.state,
        item.progress.position,
        item.progress.high_watermark,
        item.progress.records,
        item.progress.bytes,
        item.progress.last_timestamp_ms,
        item.progress.caught_up_ms,
        item.standing.since_ms,
        item.standing.code,
        item.standing.reason,
        max(0, item.progress.high_watermark - item.progress.last_stable_offset)
        if item.progress.last_stable_offset >= 0
        else 0,
        0 if item.map.fills else item.map.breaks,
        *item.fetches.epochs.copied(item.progress.position),
        item.progress.missing_ms,
        item.progress.target_end,
        is_end_old=item.progress.is_end_old,
        own=own,
    )


def at_rest(
    items: Iterable[PartitionCopy], network: Network, now_s: float
) -> list[tuple[TopicPartition, OwnNote]]:
    """Return `RoundReport.closed`: of these nothing can land any more."""
    found: list[tuple[TopicPartition, OwnNote]] = []
    for item in items:
        note, appends = network.own_note(item.index), item.appends
        may_land = appends.in_flight or appends.holds_old or now_s < appends.may_land_until_s
        if note is not None and item.phase is Phase.COPY and not may_land:
            found.append((item.spec.source, note._replace(is_closed=True)))
    return found


CopiedRanges = list[tuple[TopicPartition, int, int, int]]
LostRanges = list[tuple[TopicPartition, int, int]]


def lost_since(items: Iterable[PartitionCopy]) -> LostRanges:
    """Return what the target has lost since the last call (`RoundReport.lost`)."""
    found = [(item.spec.source, item.progress.take_lost()) for item in items]
    return [(source, *lost) for source, lost in found if lost is not None]


def copied_in(items: Iterable[PartitionCopy]) -> CopiedRanges:
    """Return `RoundReport.copied` of partitions that went on in this round.

    Also those that only passed holes, or what a pipeline left nothing of: their next round would
    ask for that again, and take what retention has deleted of it for a loss.
    """
    found: CopiedRanges = []
    for item in items:
        progress = item.progress
        offset, epoch = item.fetches.epochs.copied(progress.position)
        if progress.records or offset > progress.copied_to:
            end = progress.target_end if offset == progress.position else -1
            found.append((item.spec.source, offset, epoch, end))
    return found
