"""What a lane reports of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.records.lane import PartitionReport
from heliostat.records.partition_copy import PartitionCopy


def report_of(item: PartitionCopy) -> PartitionReport:
    """Where it stands."""
    return PartitionReport(
        item.spec.source,
        item.spec.target,
        item.state,
        item.position,
        item.source_end,
        item.records,
        item.bytes,
        item.last_timestamp_ms,
        item.caught_up_ms,
        item.since_ms,
        item.code,
        item.reason,
        max(0, item.source_end - item.stable_end) if item.stable_end >= 0 else 0,
        0 if item.map.fills else item.map.breaks,
        *item.epochs.copied(item.position),
    )


def copied_in(items: Iterable[PartitionCopy]) -> list[tuple[int, int, int, int]]:
    """How far those were copied of which this round copied anything, as `LaneSpec.copied`."""
    found: list[tuple[int, int, int, int]] = []
    for item in items:
        if item.records:
            offset, epoch = item.epochs.copied(item.position)
            end = item.copied_end if offset == item.position else -1
            found.append((item.index, offset, epoch, end))
    return found
