"""Whether the source still has what was copied behind the end of one of its leader epochs.

How far was copied from which leader epoch is noted, and a note may lag behind the copy: a driver
killed in the minute between two of them leaves records at the target of which only their offsets
are known. Where the noted epoch has ended before these, at an election since, either a new leader
took them and we have copied them from it, or they were lost with the old one and others stand in
their place (unclean election). No epoch tells the two apart: the records do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from heliostat.names import Offset
from heliostat.records.begin_checks import fills_holes, jump_at
from heliostat.records.copied_epochs import CopiedTo
from heliostat.records.lane import PartitionCode, PartitionState
from heliostat.records.network import LogRange, MirrorEnd, Network, Problem, SourceSays
from heliostat.records.offset_map import OffsetMap
from heliostat.records.partition_copy import PartitionCopy
from heliostat.records.partition_standing import truncated_text


def source_parted(item: PartitionCopy, parted: tuple[int, int], now_ms: int) -> None:
    """Take a leader's word that its log is not the one that was read before (KIP-595).

    `parted` is the newest epoch up to the one that was named, and where its log ends up to that.
    """
    epoch, end = parted
    if item.epochs.is_parted(epoch, end):
        item.stop(PartitionState.GAP, PartitionCode.SOURCE_TRUNCATED, truncated_text(end), now_ms)
    else:
        item.doubt(Offset(end), now_ms)


def settle_doubts(
    network: Network,
    ranges: Mapping[int, LogRange | Problem],
    maps: Mapping[int, OffsetMap] | Problem,
    items: Sequence[PartitionCopy],
) -> set[int]:
    """Compare what doubted partitions end with; those of which that can't be told now.

    Others know then from which epoch they were copied, or are told to be truncated.
    """
    if isinstance(maps, Exception):
        return set()
    ends: dict[int, MirrorEnd] = {}
    for index, target in ranges.items():
        item = items[index]
        if item.doubted_from is None or not isinstance(target, LogRange):
            continue
        known = maps[index]
        known = OffsetMap() if fills_holes(item.spec, known) else known
        end = MirrorEnd(target, known, item.doubted_from)
        if end.source > item.doubted_from and not jump_at(item.spec, target.end):
            ends[index] = end
            continue
        # The target has nothing from there on: what was read is dropped, and what was a hole for
        # us may be records now. Or it was decided where to go on.
        item.copied_to = min(item.copied_to, item.doubted_from)
        item.epochs.distrust()
        item.doubted_from = None
    answers = network.compare_ends(ends) if ends else {}
    for index, answer in answers.items():
        _settle(items[index], ends[index].source, answer)
    return ends.keys() - answers.keys()


def _settle(item: PartitionCopy, position: Offset, answer: SourceSays) -> None:
    if answer.has_them:
        item.epochs.learn(CopiedTo(position, answer.epoch))
    else:
        # Of the epoch that was named, or of a later one that nobody knows any more: with that and
        # the position the source's own answer shows to everybody that it parted (`is_truncated`).
        item.epochs.learn(CopiedTo(position, item.epochs.named))
        text = truncated_text(item.doubted_from)
        if answer.has_them is None:
            text += "; of what the target ends with nothing is left to compare"
        item.spec = replace(item.spec, truncated=text)
    item.doubted_from = None
