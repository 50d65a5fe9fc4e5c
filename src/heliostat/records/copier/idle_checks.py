"""Looks now and then at partitions for which nothing happens: no answer would show what is wrong.

A mirror may lose its end, or get a stranger's record, while its source has no news; and a partition
in trouble that has nothing to copy would stay so, as only a success ends its trouble.

I1, I2  A mirror that does not end where it was left begins again at its end, which shows why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from heliostat.clock import Clock
from heliostat.names import BrokerId
from heliostat.records.copier.network import LogRange, Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase, Trouble

EACH_WITHIN_S = 30.0
"""Each partition's end is read once in this time."""
FEW, EVERY_S, FEW_EVERY_S = 64, 1.0, 5.0
"""A look takes a millisecond or two, in which the lane copies nothing: seldom for few partitions,
and few at a time for many."""


class IdleChecks:
    """The idle partitions of one lane.

    Parameters
    ----------
    partitions
        Partitions of the lane, by index.
    network, clock
        Network and clock of the lane.
    """

    def __init__(self, partitions: Sequence[PartitionCopy], network: Network, clock: Clock) -> None:
        self._partitions = partitions
        self._network = network
        self._clock = clock
        self._at_s = clock.monotonic_s() + EVERY_S
        self._next = 0

    def later(self) -> None:
        """Don't look soon: the partitions' ends have just been read."""
        self._at_s = max(self._at_s, self._clock.monotonic_s() + EVERY_S)

    def look(self, now_s: float, leaders: Mapping[int, BrokerId]) -> bool:
        """Look if it is time; return whether some partition must begin again.

        `leaders` are the target's, by partition index.
        """
        if now_s < self._at_s:
            return False
        every_s = FEW_EVERY_S if len(self._partitions) <= FEW else EVERY_S
        troubled = [item for item in self._partitions if _has_trouble(item, now_s)]
        # Trouble should end soon; it is rare, so few partitions are asked about more often.
        self._at_s = now_s + (EVERY_S if troubled else every_s)
        asked = {item.index: item for item in (*troubled, *self._slice(every_s))}
        idle = [index for index, item in asked.items() if _is_idle(item) and index in leaders]
        if not idle:
            return False
        ends = self._network.target_ranges(idle)
        back = [item.index for item in troubled if isinstance(ends.get(item.index), LogRange)]
        sources = self._network.source_ranges(back) if back else {}
        now_ms = self._clock.wall_ms()
        must_begin = False
        for index, target in ends.items():
            item = asked[index]
            if isinstance(target, LogRange) and _ends_elsewhere(item, target.end):
                item.look_again(now_ms)
                must_begin = True
            elif isinstance(sources.get(index), LogRange):
                item.standing.recovered(now_ms, aligns=False)
        return must_begin

    def _slice(self, every_s: float) -> list[PartitionCopy]:
        """Return the next partitions in turn."""
        count = len(self._partitions)
        share = min(count, int(count * every_s / EACH_WITHIN_S) + 1)
        turn = chain(islice(self._partitions, self._next, None), self._partitions)
        found = list(islice(turn, share))
        self._next = (self._next + share) % max(1, count)
        return found


def _has_trouble(item: PartitionCopy, now_s: float) -> bool:
    standing = item.standing
    return standing.trouble is not Trouble.NONE and now_s >= standing.not_before_s


def _is_idle(item: PartitionCopy) -> bool:
    is_free = not item.appends.in_flight and not item.appends.queue and not item.has_row_under_way
    return is_free and item.phase is Phase.COPY and item.fetches.stop is None


def _ends_elsewhere(item: PartitionCopy, end: int) -> bool:
    """Return whether a mirror has lost its end, or has a record more; markers are not counted."""
    expected = item.progress.target_end
    return end < expected or (end > expected and not item.map.fills)
