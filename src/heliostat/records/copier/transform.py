"""What a pipeline does to an answer's batches, seen from a copier: they go out and come back later.

While a partition's batches are away nothing more of it is fetched, so they come back in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from heliostat.errors import PipelineRefused
from heliostat.records.batches.aborted import forget_aborted
from heliostat.records.copier.network import Fetched, Transformed
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.schema_gate import SchemaGate


class Transform(Protocol):
    """The pipeline of a lane."""

    def put(self, fetched: Fetched) -> None:
        """Take an answer with at least one byte of batches; `Transformed` comes as an event."""
        ...


class PipelineWay:
    """Leads a lane's answers through its pipeline.

    Parameters
    ----------
    partitions
        Partitions of the lane, by index.
    transform
        The pipeline; None: the lane has none.
    gate
        Holds back what it can't decode yet.
    """

    def __init__(
        self, partitions: Sequence[PartitionCopy], transform: Transform | None, gate: SchemaGate
    ) -> None:
        self._partitions = partitions
        self._transform = transform
        self._gate = gate

    def takes(self, event: Fetched, now_s: float, now_ms: int) -> bool:
        """Put a valid answer into the pipeline; False: its partition has none, or it is empty.

        What the pipeline can't decode yet stays out, and its partition waits.

        Raises
        ------
        PipelineRefused
            The lane lacks the pipeline: a record must never get past it, as it may hide something.
        """
        item = self._partitions[event.want.index]
        if self._transform is None:
            if item.spec.pipeline:
                text = f"a lane without pipeline {item.spec.pipeline} has {item.spec.source}"
                raise PipelineRefused(text)
            return False
        if event.start == event.end:
            return False
        item.progress.source_ends(event.high_watermark, event.last_stable_offset)
        forget_aborted(event.buffer, event.start, event.end, event.aborted)
        decodable = self._gate.before_pipeline(item, event, now_s, now_ms)
        if decodable is not None:
            item.fetches.under_way = event.want
            self._transform.put(decodable)
        return True

    def came_back(self, event: Transformed, now_ms: int) -> None:
        """Stop a partition after an answer that was taken, if nothing after it can be copied."""
        want, stop = event.fetched.want, event.stop
        item = self._partitions[want.index]
        is_current = want.attempt == item.attempt and item.phase is Phase.COPY
        if stop is None or not is_current:
            return
        is_next = event.fetched.start == event.fetched.end and want.offset == item.fetches.offset
        if item.fetches.reach(stop, is_next=is_next):  # else it is asked for again
            item.fetches.stop = item.fetches.stop or stop
            item.go_on(now_ms)  # it stops once all before it is at the target
