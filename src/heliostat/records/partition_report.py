"""What a lane reports of a partition."""

from __future__ import annotations

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
