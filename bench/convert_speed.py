"""How fast `convert` is on one core, without brokers: `python bench/convert_speed.py`.

Times are the process's CPU time, the best of several passes. Batches come from aiokafka's codec.

2026-11-21, CPython 3.11, two cores with other work on them: one-record batches joined 8.1 M/s,
their CRC checks included (also compressed with zstd: 3.1 M/s), ten-record batches joined 13.4 M
records/s. In plain Python, before the loop was compiled: 0.85, 0.7 and 0.5 M/s.
"""

from __future__ import annotations

import os
import random
import struct
import time

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from heliostat.records.batches.batch import Codec
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertOutcome, ConvertSettings

PASSES = 20
NOW_MS = 1_790_000_000_000
SETTINGS = ConvertSettings(producer_id=77, batch_bytes_max=1024 * 1024 + 12)


def encode(base_offset: int, values: list[bytes], step_ms: int, codec: int = 0) -> bytes:
    """Return one batch as a source stores it."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, 7, 0, 0, 2**30)
    for place, value in enumerate(values):
        timestamp = NOW_MS + (base_offset + place) * step_ms
        builder.append(place, timestamp=timestamp, key=None, value=value, headers=[])
    batch = builder.build()
    struct.pack_into(">q", batch, 0, base_offset)
    return bytes(batch)


def answer(batches: int, records: int, value_bytes: tuple[int, int], codec: int = 0) -> bytes:
    """Return a fetch answer of equal batches."""
    sizes = random.Random(1)  # noqa: S311 - seeded sizes
    return b"".join(
        encode(
            n * records,
            [os.urandom(sizes.randint(*value_bytes)) for _ in range(records)],
            step_ms=37,
            codec=codec,
        )
        for n in range(batches)
    )


def best_s(stored: bytes, limits: ConvertSettings) -> tuple[float, ConvertOutcome]:
    """Return the shortest CPU time of one pass, and its result."""
    best = float("inf")
    for _ in range(PASSES):
        buffer = bytearray(stored)
        before_s = time.process_time()
        outcome = convert(buffer, 0, len(buffer), BatchPlace.same(0), limits)
        best = min(best, time.process_time() - before_s)
    return best, outcome


def main() -> None:
    cases = [
        ("joined, 1 record of ~150 bytes", answer(5000, 1, (100, 180)), 5000, SETTINGS),
        ("joined, 10 records of 100 bytes", answer(500, 10, (100, 100)), 5000, SETTINGS),
        (
            "joined and zstd, 1 record of ~150 bytes",
            answer(5000, 1, (100, 180)),
            5000,
            ConvertSettings(77, SETTINGS.batch_bytes_max, compression=Codec.ZSTD),
        ),
        ("raw, 64 KB batches", answer(30, 100, (640, 640)), 30, SETTINGS),
        ("raw, 64 KB batches, lz4", answer(30, 100, (640, 640), codec=3), 30, SETTINGS),
        ("raw, one batch of 200 bytes", answer(1, 1, (100, 100)), 1, SETTINGS),
    ]
    for name, stored, units, limits in cases:
        took_s, outcome = best_s(stored, limits)
        assert outcome.stop is None
        each_us = took_s / units * 1e6
        rates = f"{1 / each_us:6.2f} M/s, {len(stored) / took_s / 1e9:5.1f} GB/s"
        print(f"{name:42} {each_us:7.2f} us each, {rates}")


if __name__ == "__main__":
    main()
