"""The schema gate: a batch is appended only once all its schema ids can be read at the target (I8).

A lane knows ids only: the driver asks the registries, and announces which ids can be read there
(`heliostat.link.schema_part`). A batch with another id is dropped after its fetch, and fetched
again; its partition waits and the others go on (I7). What the lane has missed it reports, so that
the driver looks at once.

A pipeline that decodes records has a gate before it as well: it knows the schemas that the driver
knew when the round began, and with new ones the driver begins a new round. Records that it has
written anew have ids that were read at the target before the pipeline got them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from heliostat.names import TopicPartition
from heliostat.records.batches.schema_frames import Framing, UnknownIds, unknown_ids
from heliostat.records.copier.lane import (
    NO_IDS,
    PartitionCode,
    PartitionSpec,
    Pipeline,
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


AT_TARGET = "can't be read at the target's registry yet"
IN_PIPELINE = "is not known to the pipeline yet"


class SchemaGate:
    """The gate of one lane.

    Parameters
    ----------
    pipeline
        What its records go through.
    """

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        steps = () if pipeline is None else pipeline.avro_steps
        self._decoded = [
            (
                np.array(sorted(each.schema_id for each in step.schemas), np.int64),
                Framing(keys=step.column == "key", values=step.column == "value"),
            )
            for step in steps
        ]
        """Ids that steps can decode, and where they look for them."""
        self._rewritten = frozenset(step.column for step in steps if step.rewrites)
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

    def before_pipeline(
        self, item: PartitionCopy, event: Fetched, now_s: float, now_ms: int
    ) -> Fetched | None:
        """Return what of an answer its partition's pipeline can decode; None: it waits."""
        if not self._decoded:
            return event
        looks = (
            unknown_ids(memoryview(event.buffer), event.start, event.end, known, framing)
            for known, framing in self._decoded
        )
        held = min((each for each in looks if each.ids), key=lambda each: each.upto, default=None)
        if held is None:
            self._missed.pop(item.spec.source, None)
            return event
        self._missed[item.spec.source] = held.ids
        if held.upto > event.start:
            return event._replace(end=held.upto)
        text = _why(held, IN_PIPELINE)
        item.standing.retry(Trouble.FETCH, PartitionCode.SCHEMA_UNREADABLE, text, now_s, now_ms)
        return None

    def fetched(self, item: PartitionCopy, event: Fetched, now_s: float, now_ms: int) -> None:
        """Give a partition what may pass of an answer without error; it waits for the rest."""
        held = self._held_of(item.spec, event)
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
            text = _why(held, AT_TARGET)
            item.standing.retry(Trouble.FETCH, PartitionCode.SCHEMA_UNREADABLE, text, now_s, now_ms)

    def _held_of(self, spec: PartitionSpec, event: Fetched) -> UnknownIds | None:
        """Return what of an answer has to wait, None: nothing."""
        if not spec.frames or event.start == event.end:
            return None
        found = unknown_ids(
            memoryview(event.buffer),
            event.start,
            event.end,
            self.known_of(spec),
            self._framing(spec),
        )
        if not found.ids:
            self._missed.pop(spec.source, None)
            return None
        self._missed[spec.source] = found.ids
        return found

    def _framing(self, spec: PartitionSpec) -> Framing:
        """Return where a partition's records have ids of the source."""
        done = self._rewritten if spec.pipeline else frozenset()
        has_keys = SchemaFrames.KEYS in spec.frames
        return Framing(keys=has_keys and "key" not in done, values="value" not in done)

    def missed(self, items: Sequence[PartitionCopy]) -> tuple[int, ...]:
        """Return the ids that partitions wait for, ascending, `WANTED_MAX` at most."""
        if not self._missed:
            return ()
        here = {item.spec.source for item in items if waits(item)}
        self._missed = {at: ids for at, ids in self._missed.items() if at in here}
        return tuple(sorted({each for ids in self._missed.values() for each in ids})[:WANTED_MAX])


def _why(held: UnknownIds, what: str) -> str:
    shown = ", ".join(map(str, held.ids[:NAMED_MAX]))
    more = f" and {len(held.ids) - NAMED_MAX} more" if held.ids[NAMED_MAX:] else ""
    return f"source offset {held.first_offset}: schema id {shown}{more} {what}"


def waits(item: PartitionCopy) -> bool:
    """Return whether a partition waits for a schema."""
    return item.standing.code == PartitionCode.SCHEMA_UNREADABLE


def _array(ranges: Ranges) -> Any:
    if not ranges:
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in ranges])
