"""Where each source offset must be at the target, according to the link's offset map.

Verification reads the map as a claim: a record that is not where the map says is a finding.
The arithmetic is separate from the copier's, which is what is being checked.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from typing_extensions import override

QUICK = 1
"""Compression level of zlib: differences between breaks repeat so much that more gains nothing."""


@dataclass(frozen=True, slots=True)
class Places:
    """Stretches in which source and target offset differ by the same number.

    Each extends from target offset `targets[n]`, which is source offset `sources[n]`, to the next
    one. Without any, offsets are equal: an exact mirror. A map may have 100,000 and more: they are
    kept in arrays, and sent to tasks as compressed differences; Spark refuses tasks of 128 MiB.
    """

    targets: Sequence[int] = ()
    sources: Sequence[int] = ()
    known_from: int = 0
    """Target offset before which the link no longer has the map."""

    @classmethod
    def of(cls, breaks: Iterable[tuple[int, int]], known_from: int = 0) -> Places:
        """Build it from (target offset, source offset) of the first record of each stretch."""
        flat = array("q", chain.from_iterable(breaks))
        return cls(flat[::2], flat[1::2], known_from) if flat or known_from else EXACT

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _from_packed, (_packed(self.targets), _packed(self.sources))

    @property
    def is_exact(self) -> bool:
        """Whether offsets are equal on both sides."""
        return not self.targets

    def source_at(self, target: int) -> int:
        """Return the source offset of the record that is, or will be next, at a target offset."""
        at = bisect_right(self.targets, target)
        return target if at == 0 else target - self.targets[at - 1] + self.sources[at - 1]

    def target_at(self, source: int) -> int:
        """Return the target offset of the first record at or after a source offset."""
        at = bisect_right(self.sources, source)
        place = source if at == 0 else source - self.sources[at - 1] + self.targets[at - 1]
        return place if at == len(self.targets) else min(place, self.targets[at])

    def place_of(self, source: int) -> int | None:
        """Return the target offset of the record at a source offset; None in a hole."""
        place = self.target_at(source)
        return place if self.source_at(place) == source else None

    def lost_source_ranges(self) -> list[tuple[int, int]]:
        """Return target offsets `[start, end)` of records that a truncated source has lost.

        If the source was truncated and the link continued, the map goes back: source offsets from
        there on are other records now, and are further on at the target.
        """
        found: list[tuple[int, int]] = []
        target, source = 0, 0
        for following in range(len(self.targets)):
            end, back_to = self.targets[following], self.sources[following]
            start = max(target, target + back_to - source)
            if start < end:
                found.append((start, end))
            target, source = end, back_to
        return found

    def is_run(self, start: int, end: int) -> bool:
        """Return whether source offsets `[start, end)`, not empty, are consecutive at the target.

        Records are then all moved by the same number.
        """
        first, last = self.place_of(start), self.place_of(end - 1)
        return first is not None and last is not None and last - first == end - 1 - start

    def between(self, start: int, end: int) -> Places:
        """Return the part of the map for source offsets `[start, end)`, and a little more."""
        if self.is_exact:
            return self
        low = max(0, bisect_right(self.sources, start) - 1)
        high = bisect_right(self.sources, end) + 1
        if low == 0 and high >= len(self.sources):
            return self  # one piece of the log: no second copy
        return Places(self.targets[low:high], self.sources[low:high])


def _packed(numbers: Sequence[int]) -> bytes:
    steps = np.diff(np.array(numbers, np.int64), prepend=0)
    return zlib.compress(steps.tobytes(), QUICK)


def _from_packed(targets: bytes, sources: bytes) -> Places:
    def unpacked(data: bytes) -> array[int]:
        steps = np.frombuffer(zlib.decompress(data), np.int64)
        return array("q", np.cumsum(steps).tobytes())

    return Places(unpacked(targets), unpacked(sources))


EXACT = Places()
