"""Both clusters' logs, simulated time, and the faults that a seed draws."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.partition_log import NONE, PartitionLog
from sim.sim_clock import SimClock

from heliostat.offsets.offset_map import MapReader, OffsetMap
from heliostat.records.copier.markers import filler_of
from heliostat.records.copier.network import MapWrite, Send

PRODUCER = 4242  # the link's
NOT_ENOUGH = 19


@dataclass(slots=True)
class World:
    """Both clusters' logs and what is still on its way to the target."""

    random: random.Random
    clock: SimClock
    source: list[PartitionLog]
    target: list[PartitionLog]
    fault_rate: float
    late: list[tuple[float, int, Send, bytes]] = field(default_factory=list)
    """Appends of lost connections that the broker may still serve: due second, tie, what, data."""
    identities: list[int] = field(default_factory=lambda: [0, 0])
    """Of the source's logs as the link knows them: topics are fetched by their ids."""
    ties: Iterable[int] = field(default_factory=itertools.count)
    map_rows: list[MapWrite] = field(default_factory=list)
    """Rows of the offset map that are durable, in order."""
    readers: dict[int, MapReader] = field(default_factory=dict)
    """Maps from those rows, by partition, as far as they were read."""
    rows_read: int = 0
    faults: int = 0  # that have happened
    chunks: int = 0  # that have come back from pipelines
    late_rows: list[tuple[float, int, list[MapWrite]]] = field(default_factory=list)
    """Rows of lost connections that may still become durable: due second, tie, rows."""
    damage_rate: float = 0.0
    """Share of answers in which an offset that no checksum covers is damaged."""
    damaged: set[int] = field(default_factory=set)
    """Partitions whose last answer was damaged."""
    flipped: dict[int, int] = field(default_factory=dict)
    """The bit that was flipped last, by partition."""
    late_s: float = 0.05
    """How much later than the one before a request of a lost connection is served, at most."""
    replicas_s: float = 0.0
    """Longest wait of each for replicas, in seconds; later ones on its connection wait as well."""
    forgets_ms: int | None = None
    """The target's `producer.id.expiration.ms`, where it sweeps at any time."""

    deposed: dict[int, PartitionLog] = field(default_factory=dict)
    """Source logs as brokers have them that don't know yet that another leads."""
    every: tuple[list[PartitionLog], list[PartitionLog]] | None = None
    """All logs of both sides, if `source` and `target` are those of a lane."""

    def settle_late(self) -> None:
        """Serve late appends that are due, for which no copier waits any more."""
        while self.late and self.late[0][0] <= self.clock.now_s:
            _, _, send, data = heapq.heappop(self.late)
            self.serve(send, data)
        while self.late_rows and self.late_rows[0][0] <= self.clock.now_s:
            self.map_rows += heapq.heappop(self.late_rows)[2]

    def serve(self, send: Send, data: bytes) -> tuple[int, int]:
        """Append at the target; error code and base offset."""
        log = self.target[send.index]
        if not send.batch.fills:
            if self.forgets_ms is not None:
                log.expire_producers(self.clock.wall_ms(), self.forgets_ms)
            return log.append(data)
        told = NONE
        for _ in send.batch.fills:
            if self.happens(0.1):
                told = NOT_ENOUGH  # a later one's success hides it
                continue
            told = log.end_transaction(
                filler_of(PRODUCER),
                0,
                self.clock.wall_ms(),
                commit=True,
                coordinator_epoch=send.coordinator_epoch,
            )
        return told, -1

    def offset_map(self, index: int) -> OffsetMap:
        """The map of a partition, of all rows that are durable; a copy."""
        for write in self.map_rows[self.rows_read :]:
            self.readers.setdefault(write.index, MapReader()).take(write.row)
        self.rows_read = len(self.map_rows)
        reader = self.readers.get(index)
        return OffsetMap() if reader is None else next(iter(reader.maps.values())).copy()

    def known_sources(self) -> dict[int, PartitionLog]:
        """Logs of the source that have the ids by which the link reads them."""
        logs = enumerate(self.source)
        return {index: log for index, log in logs if log.identity == self.identities[index]}

    def happens(self, share: float = 1.0) -> bool:
        happens = self.random.random() < self.fault_rate * share
        self.faults += happens
        return happens
