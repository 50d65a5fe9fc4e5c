"""Sizing card: what a lane needs by size of record, as a Markdown table.

One lane's copier in a process of its own, without Spark or driver, between two brokers: first it
copies a backlog as fast as it can, then 1,000 partitions with a few records each. What is computed
from these figures is marked so.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import lane_cpu
from clusters import Pair, create_topic, pair_of_clusters
from fill import fill
from measure import Brokers, own_cpu_s
from stamped import Stream

from heliostat.access import access_of
from heliostat.names import TopicName
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.spark.warm_up import warm_up
from heliostat_sandbox import Storage

SIZES = (100, 500, 2_000, 20_000)
BACKLOG_PARTITIONS, BATCH_BYTES = 4, 64_000
BACKLOG_BYTES, RECORDS_MAX = 1_000_000_000, 6_000_000
MANY_PARTITIONS, MANY_RATE = 1_000, 500.0
MANY_S = 12.0
LOOK_S = 0.02
LASTS_S = 240.0
TARGET_MS = 2.0
BUSY_AT_MOST = 0.7
"""Of a core, for a lane that is to have room for peaks."""
BACKLOG_DAYS, GB_A_DAY = 3, 200.0
DAY_S, HOUR_S = 86_400.0, 3_600.0
MB = 1e6


@dataclass(frozen=True, slots=True)
class Spent:
    """What was copied, and the time that it took."""

    records: int
    took_s: float
    lane_cpu_s: float
    broker_cpu_s: float
    memory_mb: float
    """Most that the lane's process had; before the lane began it is a third of it or more."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one size of record."""

    record_bytes: int
    backlog: Spent
    many: Spent

    @property
    def lane_mb_per_s(self) -> float:
        """What one lane copies at full speed."""
        return self.backlog.records * self.record_bytes / self.backlog.took_s / MB

    @property
    def cores_per_100_mb(self) -> tuple[float, float]:
        """Cores per 100 MB/s: of lanes, of both brokers."""
        per_mb = 100 / (self.backlog.records * self.record_bytes / MB)
        return self.backlog.lane_cpu_s * per_mb, self.backlog.broker_cpu_s * per_mb

    @property
    def cores_per_1000(self) -> tuple[float, float]:
        """Cores per 1,000 partitions: of lanes, of both brokers."""
        return self.many.lane_cpu_s / self.many.took_s, self.many.broker_cpu_s / self.many.took_s

    @property
    def catch_up_h(self) -> float:
        """Hours until one lane has caught up with the backlog, beside live traffic."""
        return catch_up_h(self.lane_mb_per_s)


def catch_up_h(mb_per_s: float) -> float:
    """Return the hours for the backlog of some days while as much comes each day; computed."""
    left = mb_per_s - GB_A_DAY * 1_000 / DAY_S
    return BACKLOG_DAYS * GB_A_DAY * 1_000 / left / HOUR_S if left > 0 else math.inf


def lanes_for(cores: float) -> int:
    """Return how many lanes carry this with room for peaks; computed."""
    return math.ceil(cores / BUSY_AT_MOST)


class UntilCopied:
    """Counts a lane's records and times, from its first ones until it has so many.

    Parameters
    ----------
    records
        Number of records at which it is over.
    brokers
        Of both sides.
    """

    def __init__(self, records: int, brokers: Brokers) -> None:
        self._records = records
        self._brokers = brokers
        self._looked_s = 0.0
        self._first: tuple[int, float, float, float] | None = None
        self.spent: Spent | None = None

    def is_over(self, copier: Copier) -> bool:
        """Count, some times a second; True when all is copied."""
        if time.monotonic() < self._looked_s + LOOK_S:
            return False
        records = sum(item.progress.records for item in copier.partitions)
        self._looked_s = time.monotonic()
        if not records:
            return False
        counted = records, self._looked_s, time.thread_time(), broker_cpu_s(self._brokers)
        if self._first is None:
            self._first = counted
        if records < self._records:
            return False
        copied, took_s, cpu_s, brokers_s = (
            now - before for now, before in zip(counted, self._first, strict=True)
        )
        self.spent = Spent(int(copied), took_s, cpu_s, brokers_s, memory_mb())
        return True


def broker_cpu_s(brokers: Brokers) -> float:
    """Return the processor time of both brokers so far."""
    return own_cpu_s(brokers.source_pid) + own_cpu_s(brokers.target_pid)


def memory_mb() -> float:
    """Return the most that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def lane_between(brokers: Brokers, topic: str, partitions: int) -> LaneSpec:
    """Describe the lane of a topic that both sides have."""
    sides = access_of([brokers.source]), access_of([brokers.target])
    return lane_cpu.lane_of(
        *sides, TopicName(topic), partitions, lease_s=LASTS_S, target_ms=TARGET_MS
    )


def backlog(brokers: Brokers, topic: str, records: int) -> Spent:
    """Copy all records of a topic as fast as one lane can."""
    warm_up()
    counted = UntilCopied(records, brokers)
    lane_cpu.run_lane(lane_between(brokers, topic, BACKLOG_PARTITIONS), counted.is_over)
    assert counted.spent is not None
    return counted.spent


def many_partitions(brokers: Brokers, topic: str, record_bytes: int) -> Spent:
    """Copy a few records a second of each of many partitions."""
    warm_up()
    lane = lane_between(brokers, topic, MANY_PARTITIONS)
    stream = Stream(topic, MANY_PARTITIONS, 1.0, record_bytes)
    measured = lane_cpu.Measured(MANY_S)
    brokers_s: list[float] = []

    def is_over(copier: Copier) -> bool:
        before = measured.has_begun
        is_all = measured.is_over(copier)
        if is_all or measured.has_begun != before:
            brokers_s.append(broker_cpu_s(brokers))
        return is_all

    with lane_cpu.loading(brokers.source, stream, MANY_RATE, LASTS_S):
        lane_cpu.run_lane(lane, is_over)
    begin_s, end_s = brokers_s
    return Spent(measured.records, MANY_S, measured.cpu_s, end_s - begin_s, memory_mb())


def alone(copies: Callable[[], Spent]) -> Spent:
    """Run in a new process, whose memory is then the lane's alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(copies)


def row_of(pair: Pair, record_bytes: int, total_bytes: int) -> Row:
    """Measure one size of record."""
    brokers = pair.brokers()
    names = f"backlog-{record_bytes}", f"many-{record_bytes}"
    for name, partitions in zip(names, (BACKLOG_PARTITIONS, MANY_PARTITIONS), strict=True):
        for bootstrap in (pair.source, pair.target):
            create_topic(bootstrap, name, partitions)
    records = fill(
        pair.source,
        names[0],
        partitions=BACKLOG_PARTITIONS,
        records=min(RECORDS_MAX, total_bytes // record_bytes),
        record_bytes=record_bytes,
        batch_records=max(1, BATCH_BYTES // record_bytes),
        codec="none",
    )
    fast = alone(partial(backlog, brokers, names[0], records))
    many = alone(partial(many_partitions, brokers, names[1], record_bytes))
    pair.clear(keep="")
    return Row(record_bytes, fast, many)


def card(rows: Sequence[Row]) -> list[str]:
    """Return the Markdown table."""
    headings = [
        "bytes of a record",
        "one lane at full speed",
        "per 100 MB/s: cores of lanes; of both brokers",
        "lanes for it, computed",
        f"per 1,000 partitions, {MANY_RATE:.0f} records/s: cores of lanes; of both brokers",
        "lanes for it, computed",
        "memory of a lane's process: full speed; 1,000 partitions",
        f"72 h of {GB_A_DAY:.0f} GB a day by one lane, beside as much live, computed",
    ]
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for row in rows:
        (lane, brokers), (many, many_brokers) = row.cores_per_100_mb, row.cores_per_1000
        rate = row.backlog.records / row.backlog.took_s
        cells = [
            f"{row.record_bytes:,}",
            f"{row.lane_mb_per_s:.0f} MB/s, {rate / 1_000:,.0f} k records/s",
            f"{lane:.2f}; {brokers:.2f}",
            f"{lanes_for(lane)}",
            f"{many:.2f}; {many_brokers:.2f}",
            f"{many / BUSY_AT_MOST:.2f}",
            f"{row.backlog.memory_mb:.0f}; {row.many.memory_mb:.0f} MB",
            f"{row.catch_up_h:.1f} h",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, nargs="+", default=SIZES, help="sizes of records")
    parser.add_argument("--backlog-mb", type=int, default=int(BACKLOG_BYTES / MB))
    given = parser.parse_args()
    with pair_of_clusters(storage=Storage.TMPFS) as pair:
        rows = [row_of(pair, size, given.backlog_mb * int(MB)) for size in given.bytes]
    print(f"{datetime.now(UTC):%Y-%m-%d}, `python bench/sizing.py`\n")
    print("\n".join(card(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
