"""What a lane reports of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.names import TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.records.copier.partition_copy import PartitionCopy


def report_of(item: PartitionCopy) -> PartitionReport:
    """Return the report of a partition as it is now."""
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
    )


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
