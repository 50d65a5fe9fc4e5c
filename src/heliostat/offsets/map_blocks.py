"""The breaks of one offset map, as many as a year of transactions makes, in few bytes.

The newest are in plain arrays, where rows add and replace them. Older ones are packed, 512 a
block: mostly two bytes a break instead of sixteen. Blocks never change, so copies of a map share
them, and a lane gets them as they are; only blocks that are searched are unpacked.

Target and source offsets both grow from break to break.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

from heliostat.offsets.uvarints import decode_uvarints, encode_uvarints

BLOCK_BREAKS = 512
NEWEST_MIN = 1024
"""At least this many stay unpacked: more than a row has, which is rewritten as it grows."""
NEWEST_MAX = NEWEST_MIN + BLOCK_BREAKS
UNPACKED_BLOCKS = 512
"""Cached blocks of all maps: 4 MiB. A translator looks up offsets all over a map of 200."""

Pair = tuple[int, int]
"""Target and source offset of a break."""
Pairs = tuple["array[int]", "array[int]"]


def pack(targets: Any, sources: Any) -> bytes:
    """Encode distances between breaks, of arrays of int64, as varints.

    Both distances of a break are positive, and mostly the source's is the larger: so the target's
    is written, and by how much the source's exceeds it.
    """
    import numpy as np

    steps = np.diff(targets, prepend=0)
    more = np.diff(sources, prepend=0) - steps
    numbers = np.empty(2 * len(steps), np.int64)
    numbers[::2], numbers[1::2] = steps, more << 1 ^ more >> 63
    return encode_uvarints(numbers.view(np.uint64))


def unpack(data: Any) -> tuple[Any, Any] | None:
    """Decode an array of uint8 to targets and sources; None if it is cut off."""
    import numpy as np

    numbers = decode_uvarints(data)
    if numbers is None or len(numbers) % 2:
        return None
    moved, more = numbers[::2].view(np.int64), numbers[1::2]
    more = (more >> np.uint64(1)).view(np.int64) ^ -(more & np.uint64(1)).view(np.int64)
    targets = np.cumsum(moved)
    return targets, targets + np.cumsum(more)


def as_array(numbers: Any) -> array[int]:
    """Convert numpy's array of int64."""
    return array("q", numbers.tobytes())


def _read(block: bytes) -> Pairs:
    """Targets and sources of a block; callers must not change them."""
    import numpy as np

    places = unpack(np.frombuffer(block, np.uint8))
    if places is None:  # we packed it ourselves
        raise AssertionError("a block of an offset map is cut off")
    return as_array(places[0]), as_array(places[1])


_unpacked = lru_cache(maxsize=UNPACKED_BLOCKS)(_read)


def first_of(block: bytes) -> Pair:
    """The first break of a block, without unpacking it."""
    numbers, position = [0, 0], 0
    for place in range(2):
        shift = 0
        while True:
            numbers[place] |= (block[position] & 0x7F) << shift
            shift += 7
            position += 1
            if block[position - 1] < 0x80:
                break
    more = numbers[1] >> 1 ^ -(numbers[1] & 1)
    return numbers[0], numbers[0] + more


@dataclass(slots=True)
class MapBlocks:
    """Breaks in order: packed blocks, then the newest; after blocks there always are some."""

    _blocks: list[bytes] = field(default_factory=list)
    """Each has `BLOCK_BREAKS` breaks."""
    _block_targets: array[int] = field(default_factory=lambda: array("q"))
    _block_sources: array[int] = field(default_factory=lambda: array("q"))
    """Source offset of the first break of each block."""
    _targets: array[int] = field(default_factory=lambda: array("q"))
    _sources: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def begun(cls, blocks: tuple[bytes, ...], newest: Pairs) -> MapBlocks:
        """Create one with blocks of another one, and the newest breaks after them."""
        firsts = [first_of(block) for block in blocks]
        return cls(
            list(blocks),
            array("q", [target for target, _ in firsts]),
            array("q", [source for _, source in firsts]),
            *newest,
        )

    def __len__(self) -> int:
        return BLOCK_BREAKS * len(self._blocks) + len(self._targets)

    def copy(self) -> MapBlocks:
        """Return a copy with the same breaks; blocks are shared."""
        return MapBlocks(
            self._blocks[:],
            self._block_targets[:],
            self._block_sources[:],
            self._targets[:],
            self._sources[:],
        )

    @property
    def last(self) -> Pair | None:
        """The last break."""
        return (self._targets[-1], self._sources[-1]) if self._targets else None

    # -- looking up ----------------------------------------------------------------------------

    def up_to_target(self, target: int) -> Pair | None:
        """The last break at or before a target offset."""
        targets, sources = self._targets, self._sources
        if self._blocks and target < targets[0]:
            block = bisect_right(self._block_targets, target) - 1
            if block < 0:
                return None
            targets, sources = _unpacked(self._blocks[block])
        index = bisect_right(targets, target) - 1
        return None if index < 0 else (targets[index], sources[index])

    def around_source(self, source: int) -> tuple[Pair | None, int | None]:
        """The last break at or before a source offset, and the target offset of the next one."""
        targets, sources, following = self._targets, self._sources, None
        if self._blocks and source < sources[0]:
            block = bisect_right(self._block_sources, source) - 1
            if block < 0:
                return None, self._block_targets[0]
            is_last = block + 1 == len(self._blocks)
            following = targets[0] if is_last else self._block_targets[block + 1]
            targets, sources = _unpacked(self._blocks[block])
        index = bisect_right(sources, source) - 1
        if index + 1 < len(targets):
            following = targets[index + 1]
        return None if index < 0 else (targets[index], sources[index]), following

    def after(self, target: int) -> Iterator[Pair]:
        """Iterate over breaks after a target offset, in order, as they are at the call."""
        blocks = self._blocks[max(0, bisect_right(self._block_targets, target) - 1) :]
        if self._targets and target >= self._targets[0]:
            blocks = []
        index = bisect_right(self._targets, target)
        newest = zip(self._targets[index:], self._sources[index:], strict=True)
        # Without the cache: who goes through all breaks needs each block once.
        packed = chain.from_iterable(zip(*_read(block), strict=True) for block in blocks)
        return chain((pair for pair in packed if pair[0] > target), newest)

    def tail(self, at_least: int, target: int | None) -> tuple[tuple[bytes, ...], Pairs]:
        """Return the last blocks and the newest: at least so many breaks, and all from `target`."""
        missing = at_least - len(self._targets)
        first = len(self._blocks) + min(0, -missing // BLOCK_BREAKS)
        if target is not None and self._targets and target < self._targets[0]:
            first = min(first, bisect_right(self._block_targets, target) - 1)
        return tuple(self._blocks[max(0, first) :]), (self._targets, self._sources)

    # -- changing ------------------------------------------------------------------------------

    def append(self, target: int, source: int) -> None:
        """Append a break."""
        self._targets.append(target)
        self._sources.append(source)
        if len(self._targets) >= NEWEST_MAX:
            self._seal()

    def extend(self, targets: Any, sources: Any) -> None:
        """Append many breaks, of arrays of int64."""
        self._targets.frombytes(targets.tobytes())
        self._sources.frombytes(sources.tobytes())
        self._seal()

    def _seal(self) -> None:
        """Pack the oldest of the unpacked breaks."""
        import numpy as np

        index = 0
        while len(self._targets) - index >= NEWEST_MAX:
            targets, sources = (
                np.frombuffer(offsets, np.int64, BLOCK_BREAKS, index * offsets.itemsize)
                for offsets in (self._targets, self._sources)
            )
            self._block_targets.append(self._targets[index])
            self._block_sources.append(self._sources[index])
            self._blocks.append(pack(targets, sources))
            del targets, sources  # an array whose buffer numpy uses can't be resized
            index += BLOCK_BREAKS
        self._targets, self._sources = self._targets[index:], self._sources[index:]

    def cut_target(self, target: int) -> None:
        """Drop breaks from a target offset on."""
        if self._blocks and target <= self._targets[0]:
            self._unseal(bisect_left(self._block_targets, target))
        self._cut(bisect_left(self._targets, target))

    def forget_before(self, target: int) -> None:
        """Drop breaks that have no effect from a target offset on; some of them may stay."""
        kept = bisect_right(self._block_targets, target) - 1
        if self._targets and target >= self._targets[0]:
            kept = len(self._blocks)
        if kept > 0:
            del self._blocks[:kept], self._block_targets[:kept], self._block_sources[:kept]
        if not self._blocks:
            index = bisect_right(self._targets, target) - 1
            if index > 0:
                del self._targets[:index], self._sources[:index]

    def cut_source(self, source: int) -> None:
        """Drop breaks from a source offset on."""
        if self._blocks and source <= self._sources[0]:
            self._unseal(bisect_left(self._block_sources, source))
        self._cut(bisect_left(self._sources, source))

    def _cut(self, index: int) -> None:
        del self._targets[index:], self._sources[index:]

    def _unseal(self, kept: int) -> None:
        """Keep the first `kept` blocks, and unpack the last of these."""
        self._cut(0)
        if kept:
            targets, sources = _unpacked(self._blocks[kept - 1])
            self._targets, self._sources = targets[:], sources[:]
        first = max(0, kept - 1)
        del self._blocks[first:], self._block_targets[first:], self._block_sources[first:]
