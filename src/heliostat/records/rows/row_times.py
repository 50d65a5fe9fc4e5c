"""Timestamps of rows as records have them, and which of them brokers take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from heliostat.records.rows.to_rows import US_PER_MS

TAKEN_MS = range(-1, 253_402_300_800_000)
"""From -1, which is none, to the end of the year 9999. What is later was meant in another unit; a
broker that takes it (`message.timestamp.after.max.ms`) keeps that log segment for ever."""
WHY_NOT_TAKEN = "a row came back with a timestamp that is before 1970 or after the year 9999"


def times_ms(timestamps: Any) -> Any:
    """Return an Arrow column of timestamps as milliseconds since the epoch (int64)."""
    times_us = timestamps.cast(pa.int64()).to_numpy()
    return np.floor_divide(times_us, US_PER_MS)


def not_taken(times: Any) -> Any:
    """Return the places of times (ms) that no record may have."""
    return np.flatnonzero((times < TAKEN_MS.start) | (times >= TAKEN_MS.stop))
