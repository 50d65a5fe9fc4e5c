"""The reference that a simulation compares with the target: every record ever committed, by offset.

Compaction and truncation take records from logs; a witness remembers them. So it can say what a
record at the target is, also when it is gone from both logs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from weakref import WeakKeyDictionary

from sim.log_batches import Kept, records_of
from sim.partition_log import PartitionLog
from sim.sim_world import World

from heliostat.offsets.offset_map import OffsetMap

Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
Through = Callable[[Content], Content | None]
"""What a pipeline makes of a record; None: nothing."""
_KNOWN: WeakKeyDictionary[PartitionLog, tuple[int, Mapping[int, Content]]] = WeakKeyDictionary()
"""What logs held when they had changed so often."""


def content(record: Kept) -> Content:
    """All that readers see of a record but its offset."""
    return record.timestamp, record.key, record.value, tuple(record.headers)


@lru_cache(maxsize=20_000)
def contents_of(data: bytes) -> tuple[tuple[int, Content], ...]:
    """A batch's, with their distances from its base offset."""
    return tuple((record.delta, content(record)) for record in records_of(data))


class Witness:
    """Sees both sides of a world again and again, before anything is taken from them."""

    def __init__(
        self, world: World, *, is_filled: bool = False, through: Through | None = None
    ) -> None:
        self.world = world
        self.is_filled = is_filled
        """Holes are filled: offsets are equal."""
        self._through = through
        """A pipeline between both sides."""
        count = range(len(world.source))
        self.source: list[dict[int, Content]] = [{} for _ in count]
        self.target: list[dict[int, Content]] = [{} for _ in count]
        self._checked = [0 for _ in count]

    def look(self) -> None:
        """Remember what is there."""
        for seen, log in zip(self.source, self.world.source, strict=True):
            seen.update(self.wanted(log))
        for seen, log in zip(self.target, self.world.target, strict=True):
            seen.update(contents(log))

    def wanted(self, log: PartitionLog, before: int | None = None) -> dict[int, Content]:
        """What the target should have of a source's log, by source offset."""
        found = {
            offset: each
            for offset, each in contents(log).items()
            if before is None or offset < before
        }
        if self._through is None:
            return found
        made = {offset: self._through(each) for offset, each in found.items()}
        return {offset: each for offset, each in made.items() if each is not None}

    def check(self, seed: int, *, all_again: bool = False) -> None:
        """Check that each target record is the one that the durable map gives, without omissions.

        I2 and I3: only what is durable is looked at, as a successor would. I5 and I6: order and
        contents are the source's, and nothing committed is missing before the position.
        """
        self.look()
        for index, log in enumerate(self.world.target):
            if self.is_filled:
                self._check_filled(seed, index)
                continue
            known, mine = self.source[index], self.target[index]
            offsets = self.world.offset_map(index)
            assert len(mine) == log.end, f"seed {seed}: not dense"
            for target in range(0 if all_again else self._checked[index], log.end):
                source = offsets.source_of(target)
                assert mine[target] == known.get(source), (
                    f"seed {seed}: partition {index} target {target} is not source {source}: "
                    f"{mine[target]} {known.get(source)} {list(offsets.breaks())}"
                )
            self._checked[index] = log.end
            for offset in self.wanted(self.world.source[index], offsets.source_of(log.end)):
                assert offsets.holds(offset), f"seed {seed}: partition {index} lost {offset}"

    def check_what_is_left(self, seed: int, *, but: Collection[int] = ()) -> None:
        """As `check`, of records that the source still has: others are not checked."""
        self.look()
        for index, log in enumerate(self.world.target):
            offsets, mine = self.world.offset_map(index), self.target[index]
            for offset in self.wanted(self.world.source[index], offsets.source_of(log.end)):
                is_there = mine.get(offsets.target_of(offset)) == self.source[index][offset]
                assert is_there or index in but, f"seed {seed}: partition {index} lost {offset}"

    def _check_filled(self, seed: int, index: int) -> None:
        """As `check`, where offsets are equal; and the map counts our records."""
        known, mine, log = self.source[index], self.target[index], self.world.target[index]
        numbers = self.world.offset_map(index)
        offsets = sorted(mine)
        assert mine.items() <= known.items(), f"seed {seed}: {index}: {mine} {known}"
        assert offsets_of(numbers, len(offsets)) == offsets, f"seed {seed}: {index}"
        for offset in self.wanted(self.world.source[index], log.end):
            assert offset in mine, f"seed {seed}: partition {index} lost {offset}"

    def is_level(self) -> bool:
        """Whether all that is committed now is at the target."""
        for index, (source, target) in enumerate(
            zip(self.world.source, self.world.target, strict=True)
        ):
            end = (
                target.end if self.is_filled else self.world.offset_map(index).source_of(target.end)
            )
            if end < source.last_stable_offset and any(
                offset >= end for offset in self.wanted(source)
            ):
                return False
        return True


def offsets_of(numbers: OffsetMap, count: int) -> list[int]:
    """Return the offsets of the first `count` records by a filled mirror's map."""
    found: list[int] = []
    for extent in numbers.extents():
        left = count - len(found)
        length = left if extent.length is None else min(left, extent.length)
        found += range(extent.source, extent.source + length)
    return found


def contents(log: PartitionLog) -> Mapping[int, Content]:
    """Committed records by offset."""
    changes, known = _KNOWN.get(log, (-1, {}))
    if changes != log.changes:
        known = {
            batch.base_offset + delta: each
            for batch in log.visible(log.last_stable_offset)
            for delta, each in contents_of(batch.data)
            if batch.base_offset + delta >= log.start
        }
        _KNOWN[log] = log.changes, known
    return known
