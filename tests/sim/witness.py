"""What a simulation holds against the target: every record that was ever committed, by offset.

Compaction and truncation take records from logs; a witness remembers them. So it can say what a
record at the target is, also when it is gone from both logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.log_batches import Kept
from sim.partition_log import PartitionLog
from sim.sim_network import World

Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def content(record: Kept) -> Content:
    """All that readers see of a record but its offset."""
    return record.timestamp, record.key, record.value, tuple(record.headers)


class Witness:
    """Sees both sides of a world again and again, before anything is taken from them."""

    def __init__(self, world: World, *, is_filled: bool = False) -> None:
        self.world = world
        self.is_filled = is_filled
        """Holes are filled: offsets are equal."""
        count = range(len(world.source))
        self.source: list[dict[int, Content]] = [{} for _ in count]
        self.target: list[dict[int, Content]] = [{} for _ in count]
        self._checked = [0 for _ in count]

    def look(self) -> None:
        """Remember what is there."""
        for seen, log in zip(self.source, self.world.source, strict=True):
            seen.update(contents(log))
        for seen, log in zip(self.target, self.world.target, strict=True):
            seen.update(contents(log))

    def check(self, seed: int, *, all_again: bool = False) -> None:
        """Each record at the target is the one that the durable map says; none was left out.

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
            for offset, _ in before(self.world.source[index], offsets.source_of(log.end)):
                assert offsets.holds(offset), f"seed {seed}: partition {index} lost {offset}"

    def _check_filled(self, seed: int, index: int) -> None:
        """As `check`, where offsets are equal; and the map counts our records."""
        known, mine, log = self.source[index], self.target[index], self.world.target[index]
        numbers = self.world.offset_map(index)
        for number, offset in enumerate(sorted(mine)):
            assert mine[offset] == known.get(offset), f"seed {seed}: {index} at {offset}"
            assert numbers.source_of(number) == offset, f"seed {seed}: {index} number {number}"
        for offset, _ in before(self.world.source[index], log.end):
            assert offset in mine, f"seed {seed}: partition {index} lost {offset}"

    def is_level(self) -> bool:
        """Whether all that is committed now is at the target."""
        if self.is_filled:
            logs = zip(self.world.source, self.world.target, strict=True)
            return all(source.stable_end == target.end for source, target in logs)
        return all(
            not any(True for _ in behind(log, offsets.source_of(target.end)))
            for log, target, offsets in zip(
                self.world.source,
                self.world.target,
                map(self.world.offset_map, range(len(self.world.source))),
                strict=True,
            )
        )


def contents(log: PartitionLog) -> dict[int, Content]:
    """Committed records by offset."""
    return {offset: content(record) for offset, record in log.committed()}


def before(log: PartitionLog, offset: int) -> Iterator[tuple[int, Kept]]:
    """Committed records below an offset."""
    return (each for each in log.committed() if each[0] < offset)


def behind(log: PartitionLog, offset: int) -> Iterator[tuple[int, Kept]]:
    """Committed records from an offset on."""
    return (each for each in log.committed() if each[0] >= offset)
