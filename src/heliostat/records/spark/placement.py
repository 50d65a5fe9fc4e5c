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
        chosen = self.best(lane, executors)
        if chosen is not None:
            self._running[lane, number] = self._last[lane] = chosen.number
        return chosen

    def best(self, lane: str, executors: Sequence[Executor]) -> Executor | None:
        """Return where the lane's next round would go."""
        taken = [where for (other, _), where in self._running.items() if other != lane]
        last = self._last.get(lane)

        def cost(executor: Executor) -> tuple[float, bool, str]:
            load = (taken.count(executor.number) + 1) / max(1, executor.cores)
            return load, executor.number != last, executor.number

        return min(executors, key=cost, default=None)

    def is_on_one_of(self, lane: str, executors: Sequence[Executor]) -> bool:
        """Whether the lane was placed on one of these last."""
        return any(each.number == self._last.get(lane) for each in executors)

    def misplaced(self, executors: Sequence[Executor]) -> str | None:
        """Return a lane whose round would have more of a core elsewhere; None: all are well placed.

        A round lasts as long as its executor: those that were alone for a while, when another was
        lost and before one came, would keep all lanes. An executor that is missing is lost, or is
        being decommissioned, and waits for its tasks.
        """
        taken = list(self._running.values())
        loads = {each.number: taken.count(each.number) / max(1, each.cores) for each in executors}
        if not loads:
            return None
        for (place, _), at in self._running.items():
            if at not in loads:
                return place
        busiest = max(executors, key=lambda each: (loads[each.number], each.number))
        after = min((taken.count(each.number) + 1) / max(1, each.cores) for each in executors)
        if after >= loads[busiest.number]:
            return None
        return max(place for (place, _), at in self._running.items() if at == busiest.number)

    def give_back(self, lane: str, number: int) -> None:
        """Note that round `number` of `lane` has ended."""
        self._running.pop((lane, number), None)


def lanes_for(executors: Sequence[Executor]) -> int:
    """Return the number of lanes that use all executors: one per core."""
    return max(1, sum(executor.cores for executor in executors))
