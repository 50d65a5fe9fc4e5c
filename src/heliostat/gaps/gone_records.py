"""Source records that were gone before they were copied, by both clusters' offsets: for `plan`.

A driver finds them when it copies, and stops there (I6). If none runs yet, nobody has found them,
and a plan without this would show both clusters as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from heliostat.clusters.admin import EARLIEST, ClusterAdmin, ListedOffset
from heliostat.gaps.ledger import CopiedTopic, copied_of
from heliostat.names import Offset, TopicName, TopicPartition, id_text
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.asked import PendingAnswer
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
    *,
    noted: Callable[[], Mapping[TopicName, CopiedTopic]] = dict,
) -> tuple[str, ...]:
    """Return a line for each partition whose source begins after its mirror's position.

    Empty mirrors are left out: they just begin later. So are partitions that can't be checked
    now; the driver asks again.

    Parameters
    ----------
    maps
        Reads the link's offset maps, see `EndsThenMaps`; called only where they are needed.
    noted
        Reads how far topics were copied: a pipeline may have left nothing of what is gone; as
        `maps`.

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
    mirrors_of = [mirrored for _, mirrored, *_ in begun]
    firsts_of = PendingAnswer(
        lambda: source.list_offsets({partition: EARLIEST for partition, *_ in begun}), "firsts"
    )
    seen = EndsThenMaps(lambda: target.list_log_ends(mirrors_of), maps)
    firsts = firsts_of.answer()
    source_ids = {mirror.source: id_text(mirror.source_id) for mirror in mirrors}
    copied = cache(noted)
    lines: list[str] = []
    for partition, mirrored, target_id, begin in begun:
        first, end = firsts.get(partition), seen.ends.get(mirrored)
        if not isinstance(first, ListedOffset) or not isinstance(end, int) or end in (0, begin):
            continue
        if first.offset <= end:
            continue  # holes move a position on, never back
        position = seen.maps.position_at(mirrored, id_text(target_id), end)
        if position is None:
            continue  # stopped because its map is lost, which is reported
        if position < first.offset:
            notes = copied_of(copied().get(partition.topic), source_ids[partition.topic])
            note = notes.get(partition.partition)
            position = Offset(note.offset) if note is not None and note.end == end else position
        if position < first.offset:
            lines.append(
                f"{partition}: source offsets {position} to {first.offset - 1} are gone before "
                "they were copied: the link stops there, see `heliostat gaps`"
            )
    return tuple(shortened(lines, LISTED_MAX, "partitions lack records"))
