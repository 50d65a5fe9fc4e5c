"""Runs once, in advance, what is slow the first time a process does it.

Compiled functions load their machine code at their first call, 40 ms for one of them, and a first
answer would wait for that: in new processes rounds changed 0.15 s late (2026-11-21).
"""

from __future__ import annotations

import functools
import gc

from heliostat.records.batches.batch import Codec
from heliostat.records.batches.claimed_offsets import last_batches
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertSettings
from heliostat.records.batches.encode import encode_batch

_BYTES_MAX = 1 << 20
_RECORD = (b"key", bytes(100), 0)


@functools.cache
def warm_up() -> None:
    """Convert a few records, once in the life of a process and of those it forks."""
    for codec in (Codec.NONE, Codec.LZ4):
        batch = encode_batch([_RECORD], codec=codec)
        data = bytearray(2 * batch)
        data[len(batch) : len(batch) + 8] = (1).to_bytes(8, "big")  # the second one's offset
        for join_below_bytes in (0, _BYTES_MAX):
            settings = ConvertSettings(
                producer_id=0, batch_bytes_max=_BYTES_MAX, join_below_bytes=join_below_bytes
            )
            last_batches(data, 0, len(data))
            outcome = convert(bytearray(data), 0, len(data), BatchPlace(0, 0, 0), settings, ())
            assert outcome.stop is None
    gc.collect()
    # These objects stay: a later collection would copy them into each forked process.
    gc.freeze()
