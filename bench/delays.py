"""Latency figures computed from the records sent and the records seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
QUANTILES = {"p50_ms": 50.0, "p99_ms": 99.0, "p999_ms": 99.9, "max_ms": 100.0}
DIGITS = 3
ROW_BYTES = 32


def read_rows(file: Path) -> Rows:
    """Read rows of four numbers, written by `load.py` and `watch.py`; skip a half-written one."""
    data = file.read_bytes()
    size = len(data) // ROW_BYTES * ROW_BYTES
    return np.frombuffer(data[:size], dtype=np.int64).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class Window:
    """The records a figure is about: those in the sampled partitions, sent between two instants.

    Parameters
    ----------
    sent
        Sent at, acknowledged at, index of the partition, number (`load.py`).
    begin_ns, end_ns
        First instant, and the one after the last.
    sample
        Indices of the partitions that are watched.
    """

    sent: Rows
    begin_ns: int
    end_ns: int
    sample: Collection[int]

    def expected(self) -> Rows:
        """The rows of `sent` that are in the window."""
        stamps = self.sent[:, 0]
        inside = (stamps >= self.begin_ns) & (stamps < self.end_ns)
        return self.sent[inside & np.isin(self.sent[:, 2], list(self.sample))]

    def missing(self, seen: Rows) -> int:
        """Return how many of them have not been seen."""
        return int((~np.isin(self.expected()[:, 3], seen[:, 3])).sum())

    def figures(self, seen: Rows) -> dict[str, Any]:
        """Return quantiles in ms, from sending at the source to being readable at the target.

        `after_ack` counts from the source's acknowledgement instead, `append` is the time between.
        A record that was seen twice counts the first time; `seen_twice` says how many were.
        """
        sent = self.expected()
        ours = seen[np.isin(seen[:, 3], sent[:, 3])]
        ours = ours[np.argsort(ours[:, 0], kind="stable")]
        numbers, first = np.unique(ours[:, 3], return_index=True)
        sent = sent[np.argsort(sent[:, 3])]
        sent = sent[np.isin(sent[:, 3], numbers)]
        seen_ns = ours[first, 0]
        return {
            **quantiles(seen_ns - sent[:, 0]),
            "after_ack": quantiles(seen_ns - sent[:, 1]),
            "append": quantiles(sent[:, 1] - sent[:, 0]),
            "records": len(numbers),
            "seen_twice": len(ours) - len(numbers),
        }


def quantiles(nanoseconds: Rows) -> dict[str, float | None]:
    """Return quantiles in milliseconds; null without values."""
    if not len(nanoseconds):
        return dict.fromkeys(QUANTILES)
    found = np.percentile(nanoseconds, list(QUANTILES.values())) / 1e6
    return {name: round(float(ms), DIGITS) for name, ms in zip(QUANTILES, found, strict=True)}


def rate_per_s(sent: Rows, begin_ns: int, end_ns: int) -> float:
    """Return the records a second that were really sent, over all partitions."""
    inside = (sent[:, 0] >= begin_ns) & (sent[:, 0] < end_ns)
    return round(float(inside.sum()) / (end_ns - begin_ns) * 1e9, 1)
