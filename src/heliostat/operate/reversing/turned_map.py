"""The offset map of the way back: below the promotion it is the link's own, turned round; pure.

A group whose offset is older than the promotion is translated by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heliostat.names import TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, MapRow, OffsetMap


def turned(link_map: OffsetMap, target_end: int, source_end: int) -> Iterator[Break]:
    """Yield a link's breaks below a promotion, as a map that leads back has them.

    Parameters
    ----------
    link_map
        Of the link whose mirror was promoted; a filled one has equal offsets.
    target_end, source_end
        Where the mirror and its source were equal last.
    """
    if link_map.is_filled:
        return
    for link_break in link_map.breaks():
        if link_break.target >= target_end or link_break.source >= source_end:
            return
        yield Break(link_break.source, link_break.target)


def new_rows(
    wanted: Sequence[Break], there: OffsetMap, mirror: TopicPartition, topic_id: str, stamp: Stamp
) -> list[MapRow]:
    """Return the rows that make a map what it should be, from where it differs.

    A row replaces all from its first break on.
    """
    should = OffsetMap.of(wanted)
    floor = there.known_from
    ours = list(should.breaks(floor - 1))
    theirs = [] if floor == 0 and there.is_identity else list(there.breaks(floor - 1))
    same = 0
    while not there.is_filled and same < min(len(ours), len(theirs)):
        if ours[same] != theirs[same]:
            break
        same += 1
    if same == len(ours) == len(theirs):
        return []
    ours, theirs = ours[same:], theirs[same:]
    first = min(map_break.target for map_break in [*ours[:1], *theirs[:1]])
    if not ours or ours[0].target > first:
        ours.insert(0, Break(first, should.source_of(first)))
    return [
        MapRow(RowKey(mirror, topic_id, some[0].target, stamp), tuple(some))
        for some in (
            ours[index : index + ROW_BREAKS_MAX] for index in range(0, len(ours), ROW_BREAKS_MAX)
        )
    ]
