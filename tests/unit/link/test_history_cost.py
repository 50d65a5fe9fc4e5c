"""What a day of history costs an EFD's driver: processor time, memory, and bytes at the target.

Real reports into the real board, and the real part; only the target is none.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override
from unit.status.test_truth import DRIVER, LEVEL

from heliostat.clock import SystemClock
from heliostat.clusters.log_writer import NewRecord, _batch
from heliostat.clusters.wire.lent import WrittenTopic
from heliostat.link.history_part import HistoryPart
from heliostat.names import LaneId, LinkName, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport, RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.status.board import StatusBoard
from heliostat.status.history import FINE_S
from heliostat.status.history_positions import LEARNT_AFTER

TOPICS, PARTITIONS, LANES = 3_348, 5_000, 2
REPLICAS, DAY_BYTES_MAX = 3, 50_000_000
CPU_S_MAX, MEMORY_MAX = 1.5, 30_000_000
"""Processor time a minute, 2.5 % of a core; and what the part itself holds."""
HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
MINUTES = 16
EVERY_S = 30
"""Between reports and turns; each turn stands for those of so many seconds."""


class StillClock(SystemClock):
    """Stands still, unless it is set."""

    now_ms = BEGIN_MS

    @override
    def wall_ms(self) -> int:
        return self.now_ms


class Target:
    """Takes records, and counts their bytes as a batch of each write."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def append(self, records: Any) -> None:
        rows = [NewRecord(key, value) for key, value in records]
        batch, count = _batch(WrittenTopic(producer_id=ProducerId(7)), rows, 1 << 20)
        assert count == len(rows)
        self.written[-1] += len(batch)


class Efd:
    """An EFD's partitions: half are silent, a few are busy."""

    def __init__(self, board: StatusBoard) -> None:
        self._board, self._chance = board, random.Random(7)
        names = [f"lsst.sal.CSC{n % 60}.logevent_{n * 7919 % 1_000_003:x}" for n in range(TOPICS)]
        self._rows = [
            self._row(TopicPartition(TopicName(names[n % TOPICS]), PartitionId(n // TOPICS)))
            for n in range(PARTITIONS)
        ]
        pareto = self._chance.paretovariate
        self._rates = [0.0 if n % 2 else min(100.0, pareto(0.6) * 0.05) for n in range(PARTITIONS)]

    def _row(self, place: TopicPartition) -> PartitionReport:
        end = self._chance.randrange(9_000_000)
        at = {"position": end, "high_watermark": end, "target_end": end}
        return replace(LEVEL, source=place, target=place, **at)

    def report(self, now_ms: int, seconds: int, *, is_whole: bool = False) -> None:
        """Move on, and report what has moved, with its latencies."""
        self._board.consume("driver", {**DRIVER, "at_ms": now_ms})
        exact = self._chance.randint
        for lane in range(LANES):
            moved = list[PartitionReport]()
            for n in range(lane, PARTITIONS, LANES):
                mean = self._rates[n] * seconds
                count = max(0, round(self._chance.gauss(mean, mean**0.5))) if mean else 0
                if count or is_whole:
                    self._rows[n] = self._moved(self._rows[n], count, now_ms)
                    moved.append(self._rows[n])
            report = RoundReport(LaneId(lane), 1, 0, 0, 0, "", moved, plan=1)
            report.lane_partitions = PARTITIONS // LANES
            report.topic_latency = [
                (name, ((exact(2, 9), 4), (exact(9, 20), 1)))
                for name in {row.source.topic for row in moved}
            ]
            self._board.take_lane(LaneProgress(report, now_ms, is_whole=is_whole))

    def _moved(self, row: PartitionReport, count: int, now_ms: int) -> PartitionReport:
        position = row.position + count
        size = count * self._chance.randint(200, 900)
        return replace(
            row,
            position=position,
            high_watermark=position + self._chance.randint(0, 3),
            target_end=position,
            records=row.records + count,
            bytes=row.bytes + size,
            last_timestamp_ms=now_ms,
            missing_ms=now_ms - self._chance.randint(0, 999),
        )


def _held(part: object) -> int:
    """Return the bytes of all that an object holds, names that others hold as well included."""
    seen, open_ = {id(part)}, [part]
    size = 0
    while open_:
        thing = open_.pop()
        size += sys.getsizeof(thing)
        for below in gc.get_referents(thing):
            if not isinstance(below, type) and id(below) not in seen:
                seen.add(id(below))
                open_.append(below)
    return size


@pytest.mark.thorough
def test_a_day_of_five_thousand_partitions_costs_the_driver_little() -> None:
    board, clock, target = StatusBoard(LinkName("l")), StillClock(), Target()
    efd = Efd(board)
    efd.report(BEGIN_MS, 1, is_whole=True)
    target_double: Any = target
    part = HistoryPart(target_double, board, clock, Events(clock.wall_ms, None))
    turns_s, cut_s = list[float](), list[float]()
    for minute in range(MINUTES):
        target.written.append(0)
        for second in range(0, 60, EVERY_S):
            clock.now_ms = BEGIN_MS + (minute * 60 + second) * 1000
            efd.report(clock.now_ms, EVERY_S)
            began_s = time.process_time()
            part.turn()
            (turns_s if second else cut_s).append(time.process_time() - began_s)
    cpu_s = statistics.median(cut_s[1:]) + statistics.median(turns_s) * (60 / FINE_S - 1)
    memory = _held(part._minutes)
    hour, ten = target.written[1], target.written[11]
    rest = [size for n, size in enumerate(target.written) if n > LEARNT_AFTER + 2 and n % 10 != 1]
    day_bytes = 24 * (hour + 5 * ten + 54 * sum(rest) / len(rest))
    print(f"{cpu_s:.2f} s a minute, {memory / 1e6:.1f} MB, {day_bytes / 1e6:.1f} MB a day")
    assert cpu_s <= CPU_S_MAX
    assert memory <= MEMORY_MAX
    assert REPLICAS * day_bytes <= DAY_BYTES_MAX
