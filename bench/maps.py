"""`bench/compare maps`: time and memory of many offset maps, at the driver and in a lane.

No broker is needed: rows as lanes write them are read as the driver reads them, and the ends of the
maps are handed over as to a lane. Breaks are as transactions make them, 1 to 20 records and a
marker. No other replicator has such maps, so there is nothing to compare these figures with.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import pickle
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import machine
import psutil
import report
from rich.console import Console
from rich.table import Table

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import KEPT_VALUE, RowKey, Stamp
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, MapReader, MapRow
from heliostat.offsets.store import LANE_BREAKS, TAIL_BREAKS
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.mirror_map import MirrorMap

NAME = "maps"
NO_PEER = "no other replicator keeps exact offset maps: there is nothing to compare these with"
TRANSACTION_RECORDS = 20
AHEAD_BREAKS = 300
"""Breaks after the end of each log, as a killed round has written ahead."""
STAMP = Stamp(1, 1)
DAY_S = 86_400
HOURS = 24
EARLY_HOURS = 2


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sizes; `day_s` of `day_rate` transactions a second in each of `day_partitions`."""

    partitions: int = 1_000
    breaks: int = 100_000
    day_partitions: int = 100
    day_rate: int = 10
    day_s: int = DAY_S


SMALL = Scenario(partitions=20, breaks=5_000, day_partitions=2, day_s=600)


@dataclass(frozen=True, slots=True)
class Held:
    """Maps that were read, and the time and memory for that."""

    reader: MapReader
    bytes: int
    """Growth of the process's memory, in bytes."""
    rows_bytes: int
    """Size of the topic's records, keys and values, in bytes."""
    cpu_s: float


def run(given: argparse.Namespace) -> int:
    """Measure and report."""
    scenario = SMALL if given.small else Scenario()
    about = machine.about()
    figures = measured(scenario)
    document = {
        "scenario": NAME,
        "shape": asdict(scenario),
        "machine": about,
        "note": NO_PEER,
        "ours": {"finished": True, **figures},
    }
    if given.json:
        report.write(given.json, document)
    show(figures)
    return 0


def measured(scenario: Scenario) -> dict[str, Any]:
    """Measure all figures."""
    held = read(scenario.partitions, scenario.breaks)
    total = sum(map(len, held.reader.maps.values()))
    found = {
        "breaks": total,
        "memory_mb": megabytes(held.bytes),
        "bytes_a_break": round(held.bytes / total, 2),
        "rows_mb": megabytes(held.rows_bytes),
        "read_cpu_s": round(held.cpu_s, 2),
        **copied(held.reader),
        **handed_over(held.reader),
    }
    del held
    day = read(scenario.day_partitions, scenario.day_rate * scenario.day_s)
    return {
        **found,
        "day_breaks": sum(map(len, day.reader.maps.values())),
        "day_memory_mb": megabytes(day.bytes),
        "day_rows_mb": megabytes(day.rows_bytes),
        **retained(scenario),
    }


def read(partitions: int, breaks: int) -> Held:
    """Read maps of `partitions` partitions from rows as compaction leaves them."""
    rows = list(rows_of(breaks))
    before = memory()
    reader, size = MapReader(), 0
    began_s = time.process_time()
    for number in range(partitions):
        mirror = TopicPartition(TopicName("bench"), PartitionId(number))
        for offset, (first, value) in enumerate(rows):
            key = RowKey(mirror, "", first, STAMP).encode()
            size += len(key) + len(value)
            if reader.take_record(key, value, offset) is not None:
                raise AssertionError("a row was not taken")
    return Held(reader, memory() - before, size, time.process_time() - began_s)


def retained(scenario: Scenario) -> dict[str, Any]:
    """Measure memory early and late in a day, with a target retention of an hour or two."""
    rows = list(rows_of(scenario.day_rate * scenario.day_s))
    hours = min(HOURS, len(rows))
    an_hour = len(rows) // hours
    reader, before, early = MapReader(), memory(), 0
    mirrors = [
        TopicPartition(TopicName("bench"), PartitionId(number))
        for number in range(scenario.day_partitions)
    ]
    for hour in range(hours):
        now = rows[hour * an_hour : (hour + 1) * an_hour]
        for mirror in mirrors:
            for first, value in now:
                reader.take_record(RowKey(mirror, "", first, STAMP).encode(), value, 0)
            if hour:
                prune(reader, mirror, rows[(hour - 1) * an_hour][0])
        if hour == EARLY_HOURS:
            early = memory() - before
    return {"retained_early_mb": megabytes(early), "retained_mb": megabytes(memory() - before)}


def prune(reader: MapReader, mirror: TopicPartition, log_start: int) -> None:
    """Delete rows as a driver does, and read the deletions."""
    found = reader.prunable(mirror, "", log_start)
    if found is None:
        raise AssertionError("a map has no row at its log's start")
    reader.take_record(found.kept.encode(), KEPT_VALUE, 0)
    for row in found.rows:
        reader.take_record(row.encode(), None, 0)
    if any(reader.lost_rows()):
        raise AssertionError("a row is lost")


def rows_of(breaks: int) -> Iterator[tuple[int, bytes]]:
    """Return the first target offset and the value of each row."""
    chance = random.Random(breaks)  # noqa: S311  # no secret
    mirror = TopicPartition(TopicName("bench"), PartitionId(0))
    row: list[Break] = []
    target = 0
    for number in range(breaks):
        target += chance.randint(1, TRANSACTION_RECORDS)
        row.append(Break(target, target + number + 1))
        if len(row) == ROW_BREAKS_MAX or number == breaks - 1:
            first = row[0].target
            yield first, MapRow(RowKey(mirror, "", first, STAMP), tuple(row)).encode()
            row = []


def copied(reader: MapReader) -> dict[str, Any]:
    """Measure a copy of all maps, as it is made for groups and for translation."""
    before, began_s = memory(), time.process_time()
    copy = reader.copy()
    took_s, size = time.process_time() - began_s, memory() - before
    if len(copy.maps) != len(reader.maps):
        raise AssertionError("a copy lacks maps")
    return {"copy_cpu_s": round(took_s, 3), "copy_mb": megabytes(size)}


def handed_over(reader: MapReader) -> dict[str, Any]:
    """Measure the driver's and the task's time until a lane of all partitions has its positions."""
    share = min(TAIL_BREAKS, LANE_BREAKS // max(1, len(reader.maps)))
    one = next(iter(reader.maps.values()))  # all have the same breaks
    end = list(one.breaks())[-min(AHEAD_BREAKS, len(one))].target - 1
    began_s = time.process_time()
    tails = [(name, reader.tail(*name, share, end)) for name in reader.maps]
    given_s = time.process_time() - began_s
    sent = pickle.dumps(tails)
    began_s = time.process_time()
    lane = MapReader()
    for (mirror, topic_id), tail in pickle.loads(sent):  # noqa: S301  # our own
        lane.begin(mirror, topic_id, tail)
        spec = PartitionSpec(mirror, mirror, None, None, Offset(0), 1 << 20, is_compacted=False)
        position = MirrorMap(spec, STAMP)
        position.begin(lane.of(mirror, topic_id), end)
        if position.source_offset != reader.of(mirror, topic_id).source_of(end):
            raise AssertionError("a lane has another position")
    return {
        "tails_mb": megabytes(len(sent)),
        "tails_cpu_s": round(given_s, 3),
        "positions_cpu_s": round(time.process_time() - began_s, 3),
    }


def memory() -> int:
    """Return the memory of this process, in bytes."""
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # memory freed before must not hide what is allocated next
    return int(psutil.Process().memory_info().rss)


def megabytes(size: int) -> float:
    """Convert to megabytes of a million bytes."""
    return round(size / 1e6, 1)


def show(figures: Mapping[str, Any]) -> None:
    """Print the figures."""
    table = Table("figure", "value", title=f"offset maps ({NO_PEER})")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)
