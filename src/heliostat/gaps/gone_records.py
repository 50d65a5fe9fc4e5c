"""Source records that are gone before they were copied, as both clusters say now: for `plan`.

A driver finds them when it copies, and stops there (I6); where none runs, or not yet, nobody has
said so, and a plan without this would call the pair in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from heliostat.clusters.admin import EARLIEST, ClusterAdmin, ListedOffset
from heliostat.names import TopicName, TopicPartition, id_text
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.events import shortened
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import Mirror

LISTED_MAX = 20
"""Partitions named one by one."""


def gone_lines(
    mirrors: Sequence[Mirror],
    starts: Mapping[TopicName, Starts],
    source: ClusterAdmin,
    target: ClusterAdmin,
    maps: Callable[[], MapReader],
) -> tuple[str, ...]:
    """A line for each partition whose source begins behind what its mirror has.

    Of mirrors that have something: another one just begins later. What can't be told now is left
    out; the driver asks again.

    Parameters
    ----------
    maps
        Reads the link's offset maps, see `EndsThenMaps`; called only where they are needed.

    Raises
    ------
    ConnectionLost, BrokerError, ProtocolError
        A cluster does not answer at all, or the maps can't be read.
    """
    begun = [
        (TopicPartition(mirror.source, number), mirror.mirror_of(number), mirror.target_id, begin)
        for mirror in mirrors
        if (row := starts.get(mirror.source)) is not None and row.target_id == mirror.target_id
        for number, begin in row.offsets.items()
        if number < mirror.partitions
    ]
    if not begun:
        return ()
    firsts = source.list_offsets({partition: EARLIEST for partition, *_ in begun})
    mirrors_of = [mirrored for _, mirrored, *_ in begun]
    seen = EndsThenMaps(lambda: target.list_log_ends(mirrors_of), maps)
    lines: list[str] = []
    for partition, mirrored, target_id, begin in begun:
        first, end = firsts.get(partition), seen.ends.get(mirrored)
        if not isinstance(first, ListedOffset) or not isinstance(end, int) or end in (0, begin):
            continue
        if first.offset <= end:
            continue  # holes move a position on, never back
        position = seen.maps.position_at(mirrored, id_text(target_id), end)
        if position is None:
            continue  # stopped for the loss of its map, and said to be
        if position < first.offset:
            lines.append(
                f"{partition}: source offsets {position} to {first.offset - 1} are gone before "
                "they were copied: the link stops there, see `heliostat gaps`"
            )
    return tuple(shortened(lines, LISTED_MAX, "partitions lack records"))
