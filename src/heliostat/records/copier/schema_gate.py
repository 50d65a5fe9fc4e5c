"""The schema gate: a batch is appended only once all its schema ids can be read at the target (I8).

A lane knows ids only: the driver asks the registries, and announces which ids can be read there
(`heliostat.link.schema_part`). A batch with another id is dropped after its fetch, and fetched
again; its partition waits and the others go on (I7). What the lane has missed it reports, so that
the driver looks at once. Where the target has other ids, these are put into what passes
(`replaced_ids`): all behind sees a source that has them.

A pipeline that decodes records has a gate before it as well: it knows the schemas that the driver
knew when the round began, and with new ones the driver begins a new round. Records that it has
written anew have ids that were read at the target before the pipeline got them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from heliostat.framed_ids import shown_id
from heliostat.names import TopicPartition
from heliostat.records.batches.aborted import forget_aborted
from heliostat.records.batches.batch import OFFSET_MAX
from heliostat.records.batches.replaced_ids import IdMap, Replaced, replace_ids
from heliostat.records.batches.schema_frames import Framing, Known, UnknownIds, unknown_ids
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
from heliostat.records.copier.pipeline_steps import Pipeline

WANTED_MAX = 1_000
"""Ids in one report; others are reported once these are known."""
NAMED_MAX = 3
"""Ids in a partition's reason."""


AT_TARGET = "can't be read at the target's registry yet"
IN_PIPELINE = "is not known to the pipeline yet"
UNCLEAR = (
    "would be replaced, and no subject named after the topic is known: say with schemas.framed or "
    "schemas.plain whether its values begin with ids"
)


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
                _alike(np.array(sorted(each.schema_id for each in step.schemas), np.int64)),
                Framing(step.column == "key", step.column == "value", headers=False),
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
        self.targets: Any = self.readable
        """What the readable ones are at the target (int64); empty: they are the same."""
        self._guids: Any = np.zeros(0, np.uint8)
        """See `IdMap`."""
        self._foreign: Any = self.readable
        self._missed: dict[TopicPartition, tuple[int, ...]] = {}

    def learn(self, ids: SchemaIds, partitions: Iterable[PartitionCopy]) -> bool:
        """Take what the driver announces; return whether partitions that wait may go on."""
        if ids is self._ids:
            return False
        before, self._ids = self._ids, ids
        if ids == before:  # announced again: compared once, not in each step
            return False
        self.readable = _array(ids.readable)
        self._foreign = _array(ids.foreign)
        self.passing = np.union1d(self.readable, self._foreign)
        self.targets = _targets(ids)
        self._guids = np.frombuffer(b"".join(ids.guids), np.uint8)
        waiting = [item for item in partitions if waits(item)]
        for item in waiting:
            item.standing.not_before_s = 0.0
        return bool(waiting)

    def before_pipeline(
        self, item: PartitionCopy, event: Fetched, now_s: float, now_ms: int
    ) -> Fetched | None:
        """Return what of an answer its partition's pipeline can decode; None: it waits."""
        if not self._decoded:
            return event
        fails_at = item.spec.fails_at  # nothing from there on goes into the pipeline
        offsets = event.want.offset, fails_at if fails_at >= 0 else OFFSET_MAX
        looks = (
            unknown_ids(memoryview(event.buffer), event.start, event.end, known, framing, offsets)
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
        found = self._ids_of(item, event)
        passes = Replaced(event.buffer, event.start, event.end, "")
        if found is not None and found.ids:
            passes = passes._replace(end=found.upto, trouble=_why_held(found, item.spec.frames))
        in_headers = found is not None and found.in_headers
        passes = self._replaced(item.spec, passes, in_headers=in_headers)
        if not passes.trouble or passes.end > passes.start:
            item.fetches.opened = event.opened
            item.fetched(
                passes.buffer,
                passes.start,
                passes.end,
                high_watermark=event.high_watermark,
                now_s=now_s,
                now_ms=now_ms,
                last_stable_offset=event.last_stable_offset,
                aborted=event.aborted,
            )
        else:  # it is not caught up, and still in the same trouble
            item.progress.source_ends(event.high_watermark, event.last_stable_offset)
        if passes.buffer is not event.buffer:
            _copy_out(item, passes.buffer)
        if passes.trouble and item.phase is Phase.COPY and item.fetches.stop is None:
            code = PartitionCode.SCHEMA_UNREADABLE
            item.standing.retry(Trouble.FETCH, code, passes.trouble, now_s, now_ms)

    def _ids_of(self, item: PartitionCopy, event: Fetched) -> UnknownIds | None:
        """Return what of an answer has to wait; None: it has no ids."""
        spec = item.spec
        if not spec.frames or event.start == event.end:
            return None
        forget_aborted(event.buffer, event.start, event.end, event.aborted)
        frames = self._of_source(spec)
        place, offsets = (memoryview(event.buffer), event.start, event.end), _wanted(item, event)
        are_unclear = SchemaFrames.MAYBE_VALUES in frames
        values = are_unclear or SchemaFrames.VALUES in frames
        known = _alike(self.passing if are_unclear else self.readable)
        if are_unclear and SchemaFrames.REPLACED in frames:
            known = Known(self._foreign, self.readable)
        framing = Framing(SchemaFrames.KEYS in frames, values, headers=True)
        found = unknown_ids(*place, known, framing, offsets)
        if found.ids:
            self._missed[spec.source] = found.ids
        else:
            self._missed.pop(spec.source, None)
        return found

    def _of_source(self, spec: PartitionSpec) -> SchemaFrames:
        """Return what of a partition's records has ids of the source.

        What its pipeline has written anew has the target's.
        """
        found = spec.frames
        if spec.pipeline and "key" in self._rewritten:
            found &= ~SchemaFrames.KEYS
        if spec.pipeline and "value" in self._rewritten:
            found &= ~(SchemaFrames.VALUES | SchemaFrames.MAYBE_VALUES)
        return found

    def _replaced(self, spec: PartitionSpec, passes: Replaced, *, in_headers: bool) -> Replaced:
        """Put the target's ids into what passes; what can't be changed waits as well."""
        if len(self.targets) == 0 or passes.start == passes.end:
            return passes  # first: most lanes replace none, and looking at flags takes microseconds
        frames = self._of_source(spec)
        framing = Framing(SchemaFrames.KEYS in frames, SchemaFrames.VALUES in frames, in_headers)
        if SchemaFrames.REPLACED not in frames or not any(framing):
            return passes
        ids = IdMap(self.readable, self.targets, self._guids)
        found = replace_ids(passes.buffer, passes.start, passes.end, ids, framing)
        return found if found.trouble else found._replace(trouble=passes.trouble)

    def missed(self, items: Sequence[PartitionCopy]) -> tuple[int, ...]:
        """Return the ids that partitions wait for, ascending, `WANTED_MAX` at most."""
        if not self._missed:
            return ()
        here = {item.spec.source for item in items if waits(item)}
        self._missed = {at: ids for at, ids in self._missed.items() if at in here}
        return tuple(sorted({each for ids in self._missed.values() for each in ids})[:WANTED_MAX])


def _wanted(item: PartitionCopy, event: Fetched) -> tuple[int, int]:
    """Return the offsets of an answer whose records are to be appended.

    A first batch may hold records that an error policy has skipped, and where a record is refused
    all before it is appended, and nothing else.
    """
    refusal = item.fetches.refusal
    return event.want.offset, OFFSET_MAX if refusal is None else refusal.offset


def _alike(ids: Any) -> Known:
    return Known(ids, ids)


def _copy_out(item: PartitionCopy, buffer: bytearray | memoryview) -> None:
    """Copy batches out of a buffer that no answer is counted by (`lane_memory`)."""
    for batch in item.appends.queue:
        (part, *_) = batch.parts
        if batch.is_view and isinstance(part, memoryview) and part.obj is buffer:
            item.appends.copy_out(batch)


def _why_held(held: UnknownIds, frames: SchemaFrames) -> str:
    is_unclear = SchemaFrames.MAYBE_VALUES | SchemaFrames.REPLACED in frames
    return _why(held, UNCLEAR if is_unclear else AT_TARGET)


def _why(held: UnknownIds, what: str) -> str:
    shown = ", ".join(map(shown_id, held.ids[:NAMED_MAX]))
    more = f" and {len(held.ids) - NAMED_MAX} more" if held.ids[NAMED_MAX:] else ""
    return f"source offset {held.first_offset}: schema id {shown}{more} {what}"


def waits(item: PartitionCopy) -> bool:
    """Return whether a partition waits for a schema."""
    return item.standing.code == PartitionCode.SCHEMA_UNREADABLE


def _targets(ids: SchemaIds) -> Any:
    """Return what each readable id is at the target; nothing if all are the same."""
    if not ids.shifts:
        return _array(())
    moved = zip(ids.readable, ids.shifts, strict=True)
    return _array(tuple((first + shift, last + shift) for (first, last), shift in moved))


def _array(ranges: Ranges) -> Any:
    if not ranges:
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in ranges])
