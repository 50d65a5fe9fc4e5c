"""The schema gate: a batch is appended only once all its schema ids can be read at the target (I8).

A lane knows ids only: the driver asks the registries, and announces which ids can be read there
(`heliostat.link.schema_part`). A batch with another id is dropped after its fetch, and fetched
again; its partition waits and the others go on (I7). What the lane has missed it reports, so that
the driver looks at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from heliostat.names import TopicPartition
from heliostat.records.batches.batch import OFFSET_MAX
from heliostat.records.batches.schema_frames import Framing, UnknownIds, unknown_ids
from heliostat.records.copier.lane import (
    NO_IDS,
    PartitionCode,
    PartitionSpec,
    Ranges,
    SchemaFrames,
    SchemaIds,
)
from heliostat.records.copier.network import Fetched
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase, Trouble

WANTED_MAX = 1_000
"""Ids in one report; others are reported once these are known."""
NAMED_MAX = 3
"""Ids in a partition's reason."""


class SchemaGate:
    """The gate of one lane."""

    def __init__(self) -> None:
        self._ids = NO_IDS
        self.readable: Any = _array(())
        """Ids that can be read at the target: int64, ascending."""
        self.passing: Any = self.readable
        """The same and foreign ones: for topics whose values may be anything."""
        self._missed: dict[TopicPartition, tuple[int, ...]] = {}

    def learn(self, ids: SchemaIds, partitions: Iterable[PartitionCopy]) -> bool:
        """Take what the driver announces; return whether partitions that wait may go on."""
        if ids is self._ids:
            return False
        before, self._ids = self._ids, ids
        if ids == before:  # announced again: compared once, not in each step
            return False
        self.readable = _array(ids.readable)
        self.passing = np.union1d(self.readable, _array(ids.foreign))
        waiting = [item for item in partitions if waits(item)]
        for item in waiting:
            item.standing.not_before_s = 0.0
        return bool(waiting)

    def known_of(self, spec: PartitionSpec) -> Any:
        """Return the ids that pass for a partition."""
        return self.readable if SchemaFrames.VALUES in spec.frames else self.passing

    def fetched(self, item: PartitionCopy, event: Fetched, now_s: float, now_ms: int) -> None:
        """Give a partition what may pass of an answer without error; it waits for the rest."""
        held = self._held_of(item, event)
        end = event.end if held is None else held.upto
        if held is None or end > event.start:
            item.fetched(
                event.buffer,
                event.start,
                end,
                high_watermark=event.high_watermark,
                now_s=now_s,
                now_ms=now_ms,
                last_stable_offset=event.last_stable_offset,
                aborted=event.aborted,
            )
        else:  # it is not caught up, and still in the same trouble
            item.progress.source_ends(event.high_watermark, event.last_stable_offset)
        if held is not None and item.phase is Phase.COPY and item.fetches.stop is None:
            text = _why(held)
            item.standing.retry(Trouble.FETCH, PartitionCode.SCHEMA_UNREADABLE, text, now_s, now_ms)

    def _held_of(self, item: PartitionCopy, event: Fetched) -> UnknownIds | None:
        """Return what of an answer has to wait, None: nothing."""
        spec = item.spec
        if not spec.frames or event.start == event.end:
            return None
        found = unknown_ids(
            memoryview(event.buffer),
            event.start,
            event.end,
            self.known_of(spec),
            Framing(keys=SchemaFrames.KEYS in spec.frames, values=True),
            _wanted_offsets(item, event),
        )
        if not found.ids:
            self._missed.pop(spec.source, None)
            return None
        self._missed[spec.source] = found.ids
        return found

    def missed(self, items: Sequence[PartitionCopy]) -> tuple[int, ...]:
        """Return the ids that partitions wait for, ascending, `WANTED_MAX` at most."""
        if not self._missed:
            return ()
        here = {item.spec.source for item in items if waits(item)}
        self._missed = {at: ids for at, ids in self._missed.items() if at in here}
        return tuple(sorted({each for ids in self._missed.values() for each in ids})[:WANTED_MAX])


def _wanted_offsets(item: PartitionCopy, event: Fetched) -> tuple[int, int]:
    """Return the offsets of an answer whose records are to be appended.

    A first batch may hold records that an error policy has skipped, and where a record is refused
    all before it is appended, and nothing else.
    """
    refusal = item.fetches.refusal
    return event.want.offset, OFFSET_MAX if refusal is None else refusal.offset


def _why(held: UnknownIds) -> str:
    shown = ", ".join(map(str, held.ids[:NAMED_MAX]))
    more = f" and {len(held.ids) - NAMED_MAX} more" if held.ids[NAMED_MAX:] else ""
    return (
        f"source offset {held.first_offset}: schema id {shown}{more} can't be read at the target's "
        "registry yet"
    )


def waits(item: PartitionCopy) -> bool:
    """Return whether a partition waits for a schema."""
    return item.standing.code == PartitionCode.SCHEMA_UNREADABLE


def _array(ranges: Ranges) -> Any:
    if not ranges:
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in ranges])
