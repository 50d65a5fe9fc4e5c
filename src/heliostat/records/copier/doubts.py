"""Compares what was copied after the end of one of the source's leader epochs with the source.

The link notes how far it copied from which leader epoch, and a note may lag behind the copy: a
driver killed in the minute between two notes leaves records at the target of which only the offsets
are known. If the noted epoch ended before them, at an election since, there are two cases: a new
leader appended them and we copied them from it, or they were lost with the old leader and others
have their offsets (unclean election). Epochs can't tell these apart, only the records can.

A driver killed before its first note leaves no epoch at all. The last records of its mirrors are
compared until a round of the next driver has begun to copy them: more rounds are given out before
the first one's result is known.

It also compares a mirror's last records with its map: if the source is compacted, a round may find
other holes than the one before it. What the earlier round sent may land late: it continues the
sequence, but belongs to another map than the one written since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from heliostat.errors import OffsetMapLost
from heliostat.names import Offset
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.copied_epochs import CopiedTo
from heliostat.records.copier.begin_checks import fills_holes, jump_at
from heliostat.records.copier.lane import PartitionCode, PartitionState, SchemaFrames
from heliostat.records.copier.network import (
    BrokerProblem,
    LastBatch,
    LogRange,
    MirrorEnd,
    Network,
    SourceSays,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import truncated_text

NOTHING_KEPT: Mapping[str, tuple[str, ...]] = {}
OTHER_MAP_TEXT = (
    "the mirror holds other records than its map says: an append of a round that was killed has "
    f"landed after the source was compacted (hint: {OffsetMapLost.hint})"
)
OTHERS_TEXT = (
    "where the source had the records that the target ends with, it has others now: it lost or "
    "replaced them (unclean election)"
)


def source_diverged(item: PartitionCopy, diverging_epoch: tuple[int, int], now_ms: int) -> None:
    """Process a leader's answer that its log is not the one that was read before (KIP-595).

    `diverging_epoch` is (its newest epoch up to the one that was named, end offset of that epoch).
    """
    epoch, end = diverging_epoch
    named = item.fetches.epochs.named
    if item.fetches.epochs.has_diverged(epoch, end, is_compacted=item.spec.is_compacted):
        item.stop(PartitionState.GAP, PartitionCode.SOURCE_TRUNCATED, truncated_text(end), now_ms)
    elif epoch < named:
        # Its end says nothing of where the named epoch began or ended.
        item.doubts.nothing_noted(item.spec.start)
        item.look_again(now_ms)
    else:
        item.doubt(Offset(end), now_ms)


def doubt_unnoted(items: Sequence[PartitionCopy], noted: Collection[int]) -> None:
    """Doubt partitions that have no note and that no earlier round has begun to copy."""
    for item in items:
        # What went through a pipeline can't be compared with the source's records.
        if item.index not in noted and not (item.spec.truncated or item.spec.pipeline):
            item.doubts.nothing_noted(item.spec.start)


def settle_doubts(
    network: Network,
    ranges: Mapping[int, LogRange | BrokerProblem],
    last_batches: Mapping[int, LastBatch | None],
    maps: Mapping[int, OffsetMap] | BrokerProblem,
    items: Sequence[PartitionCopy],
    *,
    kept: Mapping[str, tuple[str, ...]] = NOTHING_KEPT,
) -> set[int]:
    """Compare the last records of doubted partitions; return those that can't be compared now.

    For the others, the epoch that they were copied from is then known, or they are marked as
    truncated. Of records that came through a pipeline those columns are compared that it has
    `kept` (by its name); if there are none, the records are believed.
    """
    if isinstance(maps, Exception):
        return set()
    ends: dict[int, MirrorEnd] = {}
    for index, target in ranges.items():
        item = items[index]
        if not isinstance(target, LogRange):
            continue
        by = kept.get(item.spec.pipeline, ()) if item.spec.pipeline else None
        is_comparable = by is None or bool(by)
        placing = _what_may_be_of_another(item, target, maps[index]) if is_comparable else None
        if placing is None and item.doubts.doubted_from is None:
            continue  # the case of nearly all of thousands
        # Records of a mirror that another cause stops prove nothing about its source or map.
        is_void = (placing is not None or item.doubts.is_unnoted) and (
            item.why_not_from(target, last_batches.get(index), maps[index]) is not None
        )
        if placing is not None and not is_void:
            ends[index] = placing._replace(kept=by)
            continue
        if item.doubts.doubted_from is None:
            continue
        if is_void and item.doubts.is_unnoted:
            continue  # if the other cause passes, as when its log is read again, the doubt stands
        known = OffsetMap() if fills_holes(item.spec, maps[index]) else maps[index]
        from_ = item.doubts.doubted_from
        end = MirrorEnd(target, known, from_, hides_ids=_hides_ids(item), kept=by)
        is_decided = jump_at(item.spec, target.end) or item.spec.adopted_at == target.end
        is_decided = is_decided or not is_comparable
        has_none = end.source <= from_ or (by is not None and _ends_before(end))
        if not (has_none or is_decided):
            ends[index] = end
            continue
        # The target has nothing from there on: what was read is dropped, and what was a hole may
        # hold records now. Or a decision says where to continue.
        item.progress.copied_to = min(item.progress.copied_to, from_)
        if has_none:
            item.map.read_again(target.end, from_)
        item.fetches.epochs.distrust()
        item.doubts.settled()
    answers = network.compare_ends(ends) if ends else {}
    for index, answer in answers.items():
        if ends[index].asks_map:
            _settle_placed(items[index], ends[index], answer)
        else:
            _settle(items[index], ends[index], answer)
    return ends.keys() - answers.keys()


def _what_may_be_of_another(
    item: PartitionCopy, target: LogRange, known: OffsetMap
) -> MirrorEnd | None:
    """Return the end of what may have landed under another map than the known one; None: nothing.

    Of appends answered as duplicates this is the last: compaction only removes records, so from the
    first record with another offset on, all have another one. Otherwise it is what the target has
    after the noted end, if the map has a break there: a round that found more records than ours had
    no such break, or a later one. Whether the source lost its records is asked first.
    """
    if not item.spec.is_compacted or fills_holes(item.spec, known):
        return None
    if jump_at(item.spec, target.end):
        return None  # a decision says where to go on, whatever is before
    noted, end = max(0, item.progress.copied_end), target.end
    doubts = item.doubts
    is_source_asked = doubts.doubted_from is not None and not doubts.is_unnoted
    if doubts.repeated_to is not None:
        end = doubts.repeated_to
    elif is_source_asked or not known.has_break_in(noted, end):
        return None
    place = LogRange(target.start, end)
    return MirrorEnd(place, known, known.source_of(noted), True, _hides_ids(item))


def _ends_before(end: MirrorEnd) -> bool:
    """Whether a mirror's last record is from before the doubt: its map may go on behind a hole.

    What a pipeline has left out there, the source may have lost, with other records in its place.
    """
    return end.known.source_of(end.target.end - 1) < end.doubted_from


def _hides_ids(item: PartitionCopy) -> bool:
    return SchemaFrames.REPLACED in item.spec.frames


def _settle_placed(item: PartitionCopy, end: MirrorEnd, answer: SourceSays) -> None:
    """Take whether the map says where records are; a merged one has breaks without a cleaner.

    There, what the source has instead shows that it lost them, if a later leader appended it.
    """
    item.doubts.repeated_to = None
    if item.doubts.is_unnoted:
        item.doubts.settled()
    epochs = item.fetches.epochs
    if answer.has_them is not False:
        return
    if item.spec.merged_from is not None and answer.epoch > epochs.named >= 0:
        epochs.learn(CopiedTo(end.source, epochs.named))
        item.spec = replace(item.spec, truncated=OTHERS_TEXT)
    else:
        item.spec = replace(item.spec, map_lost=OTHER_MAP_TEXT)


def _settle(item: PartitionCopy, end: MirrorEnd, answer: SourceSays) -> None:
    position = end.source
    if answer.has_them:
        if answer.is_last:
            # The hole behind it may be of a log that the source has lost, and hold a record now.
            position = Offset(end.known.source_of(end.target.end - 1) + 1)
        item.map.read_again(end.target.end, position)
        reached = position if answer.is_last else (item.doubts.doubted_from or 0)
        item.fetches.epochs.learn(CopiedTo(reached, answer.epoch))
    elif item.doubts.is_unnoted:
        _settle_unnoted(item, position, answer)
    else:
        # They are from the epoch that was named, or from a later one that is not known any more.
        # With that epoch and the position, the source's own answer proves the divergence to any
        # reader (`is_truncated`).
        item.fetches.epochs.learn(CopiedTo(position, item.fetches.epochs.named))
        text = truncated_text(item.doubts.doubted_from)
        if answer.has_them is None:
            text += "; nothing is left to compare with the target's last records"
        item.spec = replace(item.spec, truncated=text)
    item.doubts.settled()


def _settle_unnoted(item: PartitionCopy, position: Offset, answer: SourceSays) -> None:
    """Note an epoch before that of the record that the source has instead of ours, if it has one.

    With that note, the source's own answer proves the divergence to any reader. If compaction left
    nothing of the mirror's last records at the source, there is no evidence against the mirror.
    """
    if answer.has_them is False and answer.epoch > 0:
        item.fetches.epochs.learn(CopiedTo(position, answer.epoch - 1))
        item.spec = replace(item.spec, truncated=OTHERS_TEXT)
