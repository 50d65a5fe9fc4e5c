"""The live scenarios `latency`, `efd` and `catchup`: topics, rates, windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import piped
from reach import NEAR, Far
from stamped import Stream

from heliostat_sandbox import Storage, efd_topics

EFD_PREFIX = "lsst."
EFD_SINGLE_TOPICS = 3_000
EFD_SPREAD_TOPICS = 71
EFD_SPREAD_PARTITIONS = 26
MANY_SPREAD_PARTITIONS = 99
EFD_SHAPED = ("efd", "many", "steady")
BACKLOG_TOPIC = "back-log"
BACKLOG_PARTITIONS = 4
BACKLOG_RECORD_BYTES = 500
BACKLOG_BATCH_RECORDS = 128
"""The shape of `bulk`."""


@dataclass(frozen=True, slots=True)
class Live:
    """One live scenario.

    Parameters
    ----------
    name
        Name of the scenario.
    rates
        Records a second over all topics, one after another.
    warm_s
        Load before the window opens, at each rate.
    window_s
        How long the window is open, at each rate.
    topics, partitions, value_bytes
        Topics of the source, unless it is the EFD's catalogue.
    sampled
        How many partitions are watched.
    single
        Whether each record is its own batch, however many are due.
    storage
        Storage of the brokers' logs.
    heap_mb
        Heap of each broker, in MB.
    backlog_records
        Records of 500 bytes in separate topics, before the replicator starts; 0 is none.
    start_deadline_s
        Time limit from the replicator's start until a record of every partition has arrived.
    steps
        Steps of a pipeline that drops a header, which then each record has.
    """

    name: str
    rates: tuple[int, ...]
    warm_s: float
    window_s: float
    topics: int
    partitions: int
    value_bytes: int
    sampled: int
    single: bool = False
    storage: Storage = Storage.DISK
    heap_mb: int = 1024
    backlog_records: int = 0
    start_deadline_s: float = 180.0
    steps: tuple[dict[str, Any], ...] = ()
    small: bool = False
    latency_target_ms: float | None = None
    """Setting of ours; None: its default."""
    far: Far = NEAR
    priority: bool = False
    """Ours: whether live topics have high priority, and the backlog also has a limit."""
    limit_bytes_per_s: int = 0
    """Of the backlog; 0: none."""

    def shape(self) -> dict[str, object]:
        """What two reports must have in common to be merged; which rates ran is not in it."""
        found = dataclasses.asdict(self)
        del found["rates"], found["limit_bytes_per_s"]
        if not self.priority:
            del found["priority"]
        return {**found, "storage": self.storage.value}

    def streams(self) -> list[Stream]:
        """The topics under load."""
        if self.name in EFD_SHAPED:
            return efd_streams(self.topics, self.partitions)
        share = 1 / self.topics
        return [
            Stream(f"live-{n}", self.partitions, share, self.value_bytes)
            for n in range(self.topics)
        ]

    def patterns(self) -> list[str]:
        """Patterns for a configuration's `include`."""
        live = r"lsst\..*" if self.name in EFD_SHAPED else "live-.*"
        return [live, "back-.*"] if self.backlog_records else [live]


def efd_streams(singles: int, spread_partitions: int) -> list[Stream]:
    """Return topics with the EFD's skew: `singles` of one partition, and the busiest ones spread.

    A smaller number of single topics makes the number of spread ones smaller, too.
    """
    spread = max(1, EFD_SPREAD_TOPICS * singles // EFD_SINGLE_TOPICS)
    rows = efd_topics(singles + spread, hot_partitions=spread_partitions)
    by_rate = sorted((row for row in rows if row.partitions > 1), key=lambda row: -row.rate_hz)
    chosen = {row.name for row in by_rate[:spread]}
    total = sum(row.rate_hz for row in rows)
    return [
        Stream(
            str(row.name),
            spread_partitions if row.name in chosen else 1,
            row.rate_hz / total,
            row.value_bytes,
        )
        for row in rows
    ]


def sample(streams: Sequence[Stream], count: int) -> list[int]:
    """Return the indices of every n-th partition by falling rate: busy and quiet ones alike.

    So each record has the same chance to be in the sample, and quantiles over the sample's records
    are quantiles over all records.
    """
    rates = [each.share / each.partitions for each in streams for _ in range(each.partitions)]
    by_rate = sorted(range(len(rates)), key=lambda index: -rates[index])
    count = min(count, len(by_rate))
    return sorted(by_rate[(2 * n + 1) * len(by_rate) // (2 * count)] for n in range(count))


LIVE = {
    # Rounds last 30 s by default: the window sees at least four changes of every lane.
    "latency": Live(
        name="latency",
        rates=(500, 5_000),
        warm_s=20,
        window_s=150,
        topics=1,
        partitions=8,
        value_bytes=300,
        sampled=8,
    ),
    # 4,846 partitions. Log folders in memory: with so many open files the disk stalls a second.
    "efd": Live(
        name="efd",
        rates=(300, 2_200),
        warm_s=30,
        window_s=90,
        topics=EFD_SINGLE_TOPICS,
        partitions=EFD_SPREAD_PARTITIONS,
        value_bytes=0,
        sampled=100,
        single=True,
        storage=Storage.TMPFS,
        heap_mb=1536,
        start_deadline_s=300,
    ),
    # 10,029 partitions: the EFD's topics again, the busy ones spread further.
    "many": Live(
        name="many",
        rates=(2_200,),
        warm_s=30,
        window_s=60,
        topics=EFD_SINGLE_TOPICS,
        partitions=MANY_SPREAD_PARTITIONS,
        value_bytes=0,
        sampled=100,
        single=True,
        storage=Storage.TMPFS,
        heap_mb=2048,
        start_deadline_s=400,
    ),
    "catchup": Live(
        name="catchup",
        rates=(200,),
        warm_s=0,
        window_s=60,
        topics=20,
        partitions=1,
        value_bytes=300,
        sampled=20,
        backlog_records=6_000_000,
    ),
}

LIVE |= {
    name: dataclasses.replace(LIVE["latency"], name=name, steps=steps)
    for name, steps in (("latency_pipeline", piped.DROP), ("latency_sql", piped.DROP_SQL))
}
STEADY = dataclasses.replace(
    LIVE["efd"],
    name="steady",
    rates=(2_200,),
    warm_s=30,
    window_s=3_600,
    topics=EFD_SINGLE_TOPICS // 3,
)
"""An hour of the EFD's load, for `steady.py`. 1,598 partitions, so that two cores keep up with it
easily: what grows is to be seen, not a machine that falls behind."""

SMALL = {
    **{
        name: dataclasses.replace(LIVE[name], warm_s=2, window_s=5, small=True)
        for name in ("latency", "latency_pipeline", "latency_sql")
    },
    "efd": dataclasses.replace(
        LIVE["efd"], warm_s=2, window_s=4, topics=40, partitions=5, sampled=20, small=True
    ),
    "many": dataclasses.replace(
        LIVE["many"], warm_s=2, window_s=6, topics=60, partitions=9, sampled=30, small=True
    ),
    "catchup": dataclasses.replace(LIVE["catchup"], window_s=3, backlog_records=40_000, small=True),
    "steady": dataclasses.replace(
        STEADY, rates=(300,), warm_s=2, window_s=60, topics=40, partitions=5, sampled=20, small=True
    ),
}
"""The same at a small size, for tests."""
