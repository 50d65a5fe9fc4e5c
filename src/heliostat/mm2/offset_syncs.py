"""Pairs of offsets by partition, as MirrorMaker 2's checkpoint connector reads them.

`mm2-offset-syncs.<other alias>.internal`, compacted, one partition, key = source partition. Its
reader (`OffsetSyncStore`) takes a group's offset for the place behind the last pair at or below it,
so each pair must be true, and more of them near the end let groups that lag little go on closer to
where they were. Nothing of ours reads this: our own map is exact (`records.offset_map`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.mm2.formats import OffsetSync
from heliostat.names import Offset, TopicPartition
from heliostat.offsets.offset_map import OffsetMap

STEP_GROWTH = 4
"""At a start, pairs stand 1, 4, 16 ... records before the end: 16 of them reach over 4 billion."""
BREAKS_MAX = 32
"""Of a map's breaks, at most so many are written at a start, the last ones. The reader keeps 64
pairs a partition, ever fewer the older they are."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """What the target holds of one partition: offsets `[start, end)` there."""

    source: TopicPartition
    start: int
    end: int
    map: OffsetMap


def newest_sync(copied: CopiedRange) -> OffsetSync | None:
    """The pair of the last record that has landed; None where there is none."""
    return _sync(copied, copied.end - 1) if copied.end > copied.start else None


def all_syncs(copied: CopiedRange) -> Iterator[OffsetSync]:
    """Pairs over the whole range, rising: its ends, the last breaks, and ever more to the end."""
    if copied.end <= copied.start:
        return
    chosen = {copied.start, copied.end - 1, *_breaks(copied, copied.start)}
    step = 1
    while copied.end - 1 - step > copied.start:
        chosen.add(copied.end - 1 - step)
        step *= STEP_GROWTH
    for target in sorted(chosen):
        yield _sync(copied, target)


def later_syncs(copied: CopiedRange, written: OffsetSync) -> Iterator[OffsetSync]:
    """Pairs behind the one that was written last: the last breaks, and the end."""
    for target in sorted({copied.end - 1, *_breaks(copied, written.downstream + 1)}):
        yield _sync(copied, target)


def _breaks(copied: CopiedRange, start: int) -> list[int]:
    """Where the last breaks from `start` on stand at the target, as far as records are there."""
    inside = [each.target for each in copied.map.breaks() if start <= each.target < copied.end]
    return inside[-BREAKS_MAX:]


def _sync(copied: CopiedRange, target: int) -> OffsetSync:
    return OffsetSync(copied.source, copied.map.source_of(target), Offset(target))


class OffsetSyncs:
    """Writes the pairs of a link's partitions: all at first, then the newest where it moved.

    Parameters
    ----------
    topic
        At the source, named by the target, or the other way round.
    admin
        Of the cluster that holds it.
    replication_factor
        Of the topic, if it must be made.
    """

    def __init__(
        self, topic: ByteTopic, admin: ClusterAdmin, replication_factor: int | None = None
    ) -> None:
        self._topic = topic
        self._admin = admin
        self._replicas = replication_factor
        self._written: dict[TopicPartition, OffsetSync] = {}
        self._is_there = False

    @property
    def count(self) -> int:
        """Partitions that were written of."""
        return len(self._written)

    def publish(self, copied: Iterable[CopiedRange], now_ms: int) -> int:
        """Write what is new; how many records that were.

        Raises
        ------
        ConnectionLost, BrokerError
            The cluster does not answer or refuses; the next call looks for the topic again.
        """
        if not self._is_there:
            self._topic.ensure(self._admin, self._replicas)
        self._is_there = False
        newest: dict[TopicPartition, OffsetSync] = {}
        syncs: list[OffsetSync] = []
        for each in copied:
            sync = newest_sync(each)
            if sync is None or self._written.get(each.source) == sync:
                continue
            written = self._written.get(each.source)
            if written is not None and _still_holds(each, written):
                syncs += later_syncs(each, written)
            else:
                syncs += all_syncs(each)
            newest[each.source] = sync
        self._topic.write(ByteRecord(s.key(), s.value(), now_ms) for s in syncs)
        self._written.update(newest)
        self._is_there = True
        return len(syncs)


def _still_holds(copied: CopiedRange, written: OffsetSync) -> bool:
    """Whether a pair is still true, and the end behind it; not for a topic that was made anew."""
    is_before_end = copied.start <= written.downstream < copied.end
    return is_before_end and copied.map.source_of(written.downstream) == written.upstream
