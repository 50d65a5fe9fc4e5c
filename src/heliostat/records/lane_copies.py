"""The copies of a lane's partitions as a round begins, with what is known from rounds before."""

from __future__ import annotations

from heliostat.records.copied_epochs import CopiedEpochs, CopiedTo
from heliostat.records.lane import LaneSpec, PartitionState
from heliostat.records.network import LogRange
from heliostat.records.offset_map import Stamp
from heliostat.records.partition_copy import PartitionCopy
from heliostat.records.partition_phase import truncated_text


def copies_of(lane: LaneSpec, now_ms: int) -> list[PartitionCopy]:
    """One for each partition, in the lane's order."""
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
    for index, offset, epoch in lane.copied:
        found[index].epochs = CopiedEpochs(CopiedTo(offset, epoch))
    return found


def source_parted(item: PartitionCopy, parted: tuple[int, int], now_ms: int) -> None:
    """Take a leader's word that its log is not the one that was read before (KIP-595).

    `parted` is the newest epoch up to the one that was named, and where its log ends up to that.
    """
    epoch, end = parted
    if item.epochs.is_parted(epoch, end):
        item.stop(PartitionState.GAP, "SOURCE_TRUNCATED", truncated_text(end), now_ms)


def source_stands(item: PartitionCopy, source: LogRange, now_ms: int) -> None:
    """What the source holds; decides where it called our offset out of range."""
    item.source_end = source.end
    if not item.needs_source_range:
        return
    item.needs_source_range = False
    wanted = item.fetch_offset
    if wanted < source.start:
        item.stop(
            PartitionState.GAP,
            "SOURCE_OVERTOOK",
            f"source offsets {wanted} to {source.start - 1} are gone before they were copied "
            f"(retention or DeleteRecords; the source now begins at {source.start})",
            now_ms,
        )
    elif wanted > source.end:
        item.stop(
            PartitionState.GAP,
            "SOURCE_TRUNCATED",
            f"the target holds offsets up to {wanted - 1}, the source ends at {source.end}: "
            "the source was truncated or made anew",
            now_ms,
        )
