"""Points that wait for InfluxDB, compressed as they will be sent; the oldest go first. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import MAX_WBITS, compressobj

BYTES_MAX = 32 << 20
_LEVEL = 6  # of gzip: a fifteenth of the text, at 25 ms for 3,348 topics


@dataclass(frozen=True, slots=True)
class Batch:
    """The points of one request."""

    at_s: float
    """When they were made, by the monotonic clock."""
    points: int
    body: bytes
    """Their lines, as gzip."""


def batch_of(at_s: float, lines: Sequence[str]) -> Batch:
    """Return lines as a batch."""
    press = compressobj(_LEVEL, wbits=MAX_WBITS | 16)
    body = press.compress("\n".join(lines).encode()) + press.flush()
    return Batch(at_s, len(lines), body)


class Backlog:
    """What waits, in the order in which it came.

    Parameters
    ----------
    keep_s
        How long a batch may wait.
    bytes_max
        Size of all that wait, and of what is being sent.
    """

    def __init__(self, keep_s: float, bytes_max: int = BYTES_MAX) -> None:
        self._keep_s = keep_s
        self._bytes_max = bytes_max
        self._batches: deque[Batch] = deque()
        self.points = 0
        self.size = 0
        """In bytes."""

    def add(self, batch: Batch, now_s: float) -> int:
        """Add a batch; return how many points had to go for it, the oldest first."""
        self._batches.append(batch)
        self.points += batch.points
        self.size += len(batch.body)
        dropped = 0
        while self._batches and self._is_too_much(now_s):
            dropped += self._take().points
        return dropped

    def oldest(self) -> Batch | None:
        """Return what is sent next; it stays."""
        return self._batches[0] if self._batches else None

    def remove(self, batch: Batch) -> bool:
        """Remove what was sent; return whether it was still there."""
        if not self._batches or self._batches[0] is not batch:
            return False  # too old meanwhile
        self._take()
        return True

    def _is_too_much(self, now_s: float) -> bool:
        is_old = now_s - self._batches[0].at_s > self._keep_s and len(self._batches) > 1
        return self.size > self._bytes_max or is_old

    def _take(self) -> Batch:
        batch = self._batches.popleft()
        self.points -= batch.points
        self.size -= len(batch.body)
        return batch
