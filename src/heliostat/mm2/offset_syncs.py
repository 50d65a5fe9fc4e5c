"""Offset syncs: pairs of offsets for MirrorMaker 2's checkpoint connector.

`mm2-offset-syncs.<other alias>.internal`, compacted, one partition, key = source partition. Its
reader (`OffsetSyncStore`) translates a group's offset to the one after the last pair at or below
it. So each pair must be true, and more pairs near the end let groups with little lag continue
closer to where they were. We never read this topic: our offset map is exact (`offsets.offset_map`).
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
"""At the start, pairs are 1, 4, 16 ... records before the end: 16 pairs reach over 4 billion."""
BREAKS_MAX = 32
"""How many of a map's breaks, the last ones, are written as pairs at most. The reader keeps 64
pairs per partition, increasingly sparse with age."""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """What the target has of one source partition: its offsets `[start, end)`."""

    source: TopicPartition
    start: int
    end: int
    map: OffsetMap


def newest_sync(copied: CopiedRange) -> OffsetSync | None:
    """Return the pair of the last record at the target; None if there is no record."""
    return _sync(copied, copied.end - 1) if copied.end > copied.start else None


def all_syncs(copied: CopiedRange) -> Iterator[OffsetSync]:
    """Yield pairs over the whole range, rising: its ends, the last breaks, denser near the end."""
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
    """Yield pairs after the one written last: the last breaks, and the end."""
    for target in sorted({copied.end - 1, *_breaks(copied, written.downstream + 1)}):
        yield _sync(copied, target)


def _breaks(copied: CopiedRange, start: int) -> list[int]:
    """Return the target offsets of the last breaks from `start` on, below the log end."""
    inside = [pair.target for pair in copied.map.breaks() if start <= pair.target < copied.end]
    return inside[-BREAKS_MAX:]


def _sync(copied: CopiedRange, target: int) -> OffsetSync:
    return OffsetSync(copied.source, copied.map.source_of(target), Offset(target))


class OffsetSyncs:
    """Writer of the pairs of a link's partitions: all at first, then new ones of those that moved.

    Parameters
    ----------
    topic
        Offset syncs topic: at the source with the target's alias in its name, or vice versa.
    admin
        Admin connection to the cluster that has the topic.
    replication_factor
        Replication factor of the topic, if it must be created.
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
        """Number of partitions whose pairs were written."""
        return len(self._written)

    def publish(self, copied: Iterable[CopiedRange], now_ms: int) -> int:
        """Write what is new, and return the number of records.

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
        for copied_range in copied:
            sync = newest_sync(copied_range)
            if sync is None or self._written.get(copied_range.source) == sync:
                continue
            written = self._written.get(copied_range.source)
            if written is not None and _still_holds(copied_range, written):
                syncs += later_syncs(copied_range, written)
            else:
                syncs += all_syncs(copied_range)
            newest[copied_range.source] = sync
        self._topic.write(ByteRecord(s.key(), s.value(), now_ms) for s in syncs)
        self._written.update(newest)
        self._is_there = True
        return len(syncs)


def _still_holds(copied: CopiedRange, written: OffsetSync) -> bool:
    """Return whether a pair is still true and below the end; not so for a recreated topic."""
    is_before_end = copied.start <= written.downstream < copied.end
    return is_before_end and copied.map.source_of(written.downstream) == written.upstream
