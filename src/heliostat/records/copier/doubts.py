"""Whether the source still has what was copied behind the end of one of its leader epochs.

How far was copied from which leader epoch is noted, and a note may lag behind the copy: a driver
killed in the minute between two of them leaves records at the target of which only their offsets
are known. Where the noted epoch has ended before these, at an election since, either a new leader
took them and we have copied them from it, or they were lost with the old one and others stand in
their place (unclean election). No epoch tells the two apart: the records do.

A driver killed before its first note leaves no epoch at all. What its mirrors end with is compared
until a round of the next one has begun to copy them: further rounds are given out before it is
known what the first one found.

And whether what a mirror ends with is what its map says: where the source is compacted, a round
finds other holes than one before it may have found. What that one sent may land late; it fits the
sequence, and lies under another map than the one that was written since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from heliostat.errors import OffsetMapLost
from heliostat.names import Offset
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.copied_epochs import CopiedTo
from heliostat.records.copier.begin_checks import fills_holes, jump_at
from heliostat.records.copier.lane import PartitionCode, PartitionState
from heliostat.records.copier.network import (
    LastBatch,
    LogRange,
    MirrorEnd,
    Network,
    Problem,
    SourceSays,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import truncated_text

OTHER_MAP_TEXT = (
    "the mirror holds other records than its map says: an append of a round that was killed has "
    f"landed after the source was compacted (hint: {OffsetMapLost.hint})"
)
OTHERS_TEXT = (
    "where the source had the records that the target ends with it has others: it lost or replaced "
    "them (unclean election)"
)


def source_diverged(item: PartitionCopy, diverging_epoch: tuple[int, int], now_ms: int) -> None:
    """Take a leader's word that its log is not the one that was read before (KIP-595).

    `diverging_epoch` is the newest up to the one that was named, and where its log ends up to that.
    """
    epoch, end = diverging_epoch
    if item.fetches.epochs.has_diverged(epoch, end):
        item.stop(PartitionState.GAP, PartitionCode.SOURCE_TRUNCATED, truncated_text(end), now_ms)
    else:
        item.doubt(Offset(end), now_ms)


def doubt_unnoted(items: Sequence[PartitionCopy], noted: Collection[int]) -> None:
    """Compare what has no note, and no round before has begun to copy."""
    for item in items:
        if item.index not in noted and not item.spec.truncated:
            item.doubts.nothing_noted(item.spec.start)


def settle_doubts(
    network: Network,
    ranges: Mapping[int, LogRange | Problem],
    last_batches: Mapping[int, LastBatch | None],
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
        if not isinstance(target, LogRange):
            continue
        placing = _what_may_be_of_another(item, target, maps[index])
        if placing is None and item.doubts.doubted_from is None:
            continue  # as nearly always, of thousands
        # What stops it for another cause tells nothing of its source, nor of its map.
        is_void = (placing is not None or item.doubts.is_unnoted) and (
            item.why_not_from(target, last_batches.get(index), maps[index]) is not None
        )
        if placing is not None and not is_void:
            ends[index] = placing
            continue
        if item.doubts.doubted_from is None:
            continue
        is_void = is_void and item.doubts.is_unnoted
        known = OffsetMap() if fills_holes(item.spec, maps[index]) else maps[index]
        end = MirrorEnd(target, known, item.doubts.doubted_from)
        is_decided = jump_at(item.spec, target.end) or item.spec.adopted_at == target.end
        if end.source > item.doubts.doubted_from and not is_decided and not is_void:
            ends[index] = end
            continue
        # The target has nothing from there on: what was read is dropped, and what was a hole for
        # us may be records now. Or it was decided where to go on.
        item.progress.copied_to = min(item.progress.copied_to, item.doubts.doubted_from)
        if end.source <= item.doubts.doubted_from:
            item.map.read_again(target.end, item.doubts.doubted_from)
        item.fetches.epochs.distrust()
        item.doubts.settled()
    answers = network.compare_ends(ends) if ends else {}
    for index, answer in answers.items():
        if ends[index].asks_map:
            _settle_placed(items[index], answer)
        else:
            _settle(items[index], ends[index], answer)
    return ends.keys() - answers.keys()


def _what_may_be_of_another(
    item: PartitionCopy, target: LogRange, known: OffsetMap
) -> MirrorEnd | None:
    """The last of what may have landed under another map than the one we know; None: nothing may.

    Of appends that were answered as repeated the last one: compaction takes records only, so from
    the first that lies elsewhere on all do. Else what lies behind the end that the link has noted,
    where there is a break in it: a round that found more records than ours had none, or has them
    further on. Whether the source lost what it holds is asked first.
    """
    if not item.spec.is_compacted or fills_holes(item.spec, known):
        return None
    noted, end = max(0, item.progress.copied_end), target.end
    doubts = item.doubts
    is_source_asked = doubts.doubted_from is not None and not doubts.is_unnoted
    if doubts.repeated_to is not None:
        end = doubts.repeated_to
    elif is_source_asked or not known.has_break_in(noted, end):
        return None
    return MirrorEnd(LogRange(target.start, end), known, known.source_of(noted), asks_map=True)


def _settle_placed(item: PartitionCopy, answer: SourceSays) -> None:
    item.doubts.repeated_to = None
    if item.doubts.is_unnoted:
        item.doubts.settled()
    if answer.has_them is False:
        item.spec = replace(item.spec, map_lost=OTHER_MAP_TEXT)


def _settle(item: PartitionCopy, end: MirrorEnd, answer: SourceSays) -> None:
    position = end.source
    if answer.has_them:
        item.map.read_again(end.target.end, position)
        item.fetches.epochs.learn(CopiedTo(position, answer.epoch))
    elif item.doubts.is_unnoted:
        _settle_unnoted(item, position, answer)
    else:
        # Of the epoch that was named, or of a later one that nobody knows any more: with that and
        # the position the source's own answer shows to everybody that it diverged (`is_truncated`).
        item.fetches.epochs.learn(CopiedTo(position, item.fetches.epochs.named))
        text = truncated_text(item.doubts.doubted_from)
        if answer.has_them is None:
            text += "; of what the target ends with nothing is left to compare"
        item.spec = replace(item.spec, truncated=text)
    item.doubts.settled()


def _settle_unnoted(item: PartitionCopy, position: Offset, answer: SourceSays) -> None:
    """Another record stands where ours was: a leader of that record's epoch took it, ours is older.

    Noted so, the source's own answer shows to everybody that it diverged. Where nothing of what the
    mirror ends with is left (compaction), nothing speaks against it.
    """
    if answer.has_them is False and answer.epoch > 0:
        item.fetches.epochs.learn(CopiedTo(position, answer.epoch - 1))
        item.spec = replace(item.spec, truncated=OTHERS_TEXT)
