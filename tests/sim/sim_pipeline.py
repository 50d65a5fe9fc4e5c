"""A pipeline without Spark: rows go out, and what a function makes of them comes back later.

Everything between the copier and Spark is the product's own. Spark's part is a queue: chunks come
back in order, cut into batches of rows anywhere, and it may end at any time, or at some record.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.witness import Content, Through
from typing_extensions import override

from heliostat.names import TopicPartition
from heliostat.records.batches.batch import Codec
from heliostat.records.copier.blame import Blame, RowsFailed
from heliostat.records.copier.lane import LaneSpec, PartitionSpec
from heliostat.records.copier.network import Event
from heliostat.records.rows.from_rows import batches_of
from heliostat.records.rows.in_place import FailedRecord
from heliostat.records.rows.layout import SCHEMA, marks
from heliostat.records.rows.row_names import BACK
from heliostat.records.rows.to_rows import US_PER_MS, Chunk, rows_of
from heliostat.records.transport.row_exchange import RowExchange
from heliostat.records.transport.row_pipe import RowPipe

CRASH = "Caused by: java.io.EOFException"
FAILS = "[CAST_INVALID_INPUT] The value '[CONNECTION_LOST] cancelled' can't be cast"
CRASHES = 0.02
"""Of faults, those that end the pipeline."""


FailsAt = Collection[tuple[TopicPartition, int]]
"""Source offsets of records at which a pipeline fails."""


class PipelineEnded(RowsFailed):
    """What Spark says as it ends a round."""


class SimPipe:
    """Spark and the reader's worker, see `RowPipe`.

    Parameters
    ----------
    world
        Gives time and faults.
    through
        What the pipeline makes of a record.
    fails_at
        Source offsets of records at which it fails.
    """

    may_end = True
    """Whether it may end by chance."""

    def __init__(self, world: World, through: Through, fails_at: FailsAt) -> None:
        self._world, self._through, self._fails_at = world, through, fails_at
        self._due: list[tuple[float, int, Chunk]] = []
        self._last_s = 0.0

    def fileno(self) -> int:
        return -1

    def wake_up(self) -> None: ...

    def send(self, chunk: Chunk) -> None:
        rng, now_s = self._world.random, self._world.clock.now_s
        delay_s = rng.choice([0.0, 0.001, 0.02, 0.2]) * rng.random()
        self._last_s = max(self._last_s, now_s) + delay_s
        copied = chunk._replace(data=bytes(chunk.data))  # it goes through a socket
        heapq.heappush(self._due, (self._last_s, chunk.number, copied))

    def due_s(self) -> float | None:
        """When something comes back next; None: nothing is under way."""
        return self._due[0][0] if self._due else None

    def came(self) -> Iterator[pa.RecordBatch]:
        if self._world.happens(CRASHES) and self.may_end:
            raise PipelineEnded(CRASH, Blame.UNSURE)
        back: list[pa.RecordBatch] = []
        while self._due and self._due[0][0] <= self._world.clock.now_s:
            _, number, chunk = heapq.heappop(self._due)
            self._world.chunks += 1
            made = rows_made(chunk, self._through, self._fails_at)
            back += [made, marks(number, self._world.random.choice([1, 3]))]
        if back:
            rows = pa.Table.from_batches(back).combine_chunks()
            for batch in rows.to_batches(self._world.random.choice([1, 4, 100])):
                yield batch.select(list(BACK))


def rows_made(chunk: Chunk, through: Through, fails_at: FailsAt) -> pa.RecordBatch:
    """What a pipeline makes of a chunk's rows.

    Raises
    ------
    PipelineEnded
        It fails at one of them.
    """
    rows = rows_of(chunk)
    times_us = rows.column("timestamp").cast(pa.int64()).to_pylist()
    made: list[dict[str, Any]] = []
    for row, time_us in zip(rows.to_pylist(), times_us, strict=True):
        if (chunk.source, row["offset"]) in fails_at:
            raise PipelineEnded(FAILS, Blame.RECORD)
        headers = tuple((each["key"], each["value"]) for each in row["headers"])
        got = through((time_us // US_PER_MS, row["key"], row["value"], headers))
        if got is not None:
            made.append(row | _columns(got))
    return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


class SimSteps:
    """A pipeline that is done in place, see `InPlace`; it fails in a batch as that does."""

    opened = Codec.NONE

    def __init__(self, through: Through, columns: Sequence[str], fails_at: FailsAt) -> None:
        self._through, self._columns, self._fails_at = through, columns, fails_at

    def applied(self, chunk: Chunk) -> tuple[memoryview, FailedRecord | None]:
        offsets = rows_of(chunk).column("offset").to_pylist()
        failing = min((n for n in offsets if (chunk.source, n) in self._fails_at), default=None)
        if failing is not None:
            chunk = chunk._replace(before=failing)
        rows = rows_made(chunk, self._through, ())
        data = batches_of(chunk, [rows.select(list(BACK))], self._columns)
        return memoryview(data), None if failing is None else FailedRecord(failing, FAILS)


class NoPipe:
    """Nothing is away: what is done in place comes back at once."""

    def due_s(self) -> float | None:
        return None


def _columns(content: Content) -> dict[str, Any]:
    time_ms, key, value, headers = content
    pairs = [{"key": name, "value": data} for name, data in headers]
    return {"timestamp": time_ms * US_PER_MS, "key": key, "value": value, "headers": pairs}


class PipedSimNetwork(SimNetwork):
    """Also waits for a pipeline, as `PipedNetwork` does."""

    def __init__(
        self, world: World, in_flight_max: int, pipe: SimPipe | NoPipe, exchange: Any
    ) -> None:
        super().__init__(world, in_flight_max)
        self._pipe, self._exchange = pipe, exchange

    @override
    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        super().change(gone, new)
        self._exchange.partitions.extend(new)

    @override
    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        ready = [] if self._exchange is None else self._exchange.take()
        due_s = self._pipe.due_s()
        if due_s is not None:
            timeout_s = min(timeout_s, max(0.0, due_s - self.world.clock.now_s))
        return [*ready, *super().wait(0.0 if ready else timeout_s, room_bytes)]


def exchange_of(world: World, spec: LaneSpec, pipe: SimPipe, changed: Sequence[str]) -> RowExchange:
    """The product's own way to a pipeline."""
    return RowExchange(
        spec.partitions,
        cast("RowPipe", pipe),
        changed=changed,
        careful=spec.careful,
        monotonic_s=world.clock.monotonic_s,
    )
