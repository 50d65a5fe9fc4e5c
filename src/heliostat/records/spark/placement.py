"""Where rounds run: spread over Spark's executors by cores, moved only for balance.

Pure. Spark itself picks a random executor with a free slot; as a lane counts as part of a core,
all of them could end up on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.ops.spark_session import Executor


class Placement:
    """Which executor runs which round. Not thread-safe: call it under a lock."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], str] = {}  # executor by lane and round
        self._last: dict[str, str] = {}  # executor by lane

    def take(self, lane: str, number: int, executors: Sequence[Executor]) -> Executor | None:
        """Choose for round `number` of `lane`: the least busy by cores, or its last one if as good.

        The lane's previous round, if it still runs, does not count: it is about to end.
        None when there are no executors.
        """
        taken = [where for (other, _), where in self._running.items() if other != lane]
        last = self._last.get(lane)

        def cost(executor: Executor) -> tuple[float, bool, str]:
            load = (taken.count(executor.number) + 1) / max(1, executor.cores)
            return load, executor.number != last, executor.number

        chosen = min(executors, key=cost, default=None)
        if chosen is not None:
            self._running[lane, number] = self._last[lane] = chosen.number
        return chosen

    def give_back(self, lane: str, number: int) -> None:
        """Note that round `number` of `lane` has ended."""
        self._running.pop((lane, number), None)


def lanes_for(executors: Sequence[Executor]) -> int:
    """Return the number of lanes that use all executors: one per core."""
    return max(1, sum(executor.cores for executor in executors))
