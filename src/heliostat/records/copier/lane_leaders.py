"""Which brokers lead a lane's partitions on both sides, asked for anew when they may be others."""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.clock import Clock
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

LEADERS_EVERY_S = 0.5  # metadata is asked for at most so often while a partition lacks a leader


class LaneLeaders:
    """The leaders as they were answered last.

    Parameters
    ----------
    partitions
        The lane's; they are told when one of their leaders can't be found.
    network, clock
        The lane's.
    """

    def __init__(self, partitions: Sequence[PartitionCopy], network: Network, clock: Clock) -> None:
        self._partitions = partitions
        self._network = network
        self._clock = clock
        self.source: dict[int, BrokerId] = {}
        """By index of the partition; missing where it has no leader now."""
        self.target: dict[int, BrokerId] = {}
        """So, too."""
        self.took_s = 0.0
        """How long the last answer took."""
        self._asked_at_s = -1e9
        self._are_stale = True

    def may_be_others(self) -> None:
        """Something went wrong that a change of leaders explains: ask again."""
        self._are_stale = True

    def find(self, now_s: float) -> bool:
        """Ask for them if they may be others, not too often; whether they were answered now."""
        if not self._are_stale or now_s < self._asked_at_s + LEADERS_EVERY_S:
            return False
        self._asked_at_s = now_s
        now_ms = self._clock.wall_ms()
        began_s = self._clock.monotonic_s()
        try:
            leaders = self._network.leaders()
        except ConnectionLost as error:
            for item in (each for each in self._partitions if each.phase is not Phase.STOPPED):
                item.standing.no_leader(error, now_s, now_ms)
            return False
        self.took_s = self._clock.monotonic_s() - began_s
        self.source, self.target = dict(leaders.source), dict(leaders.target)
        self._are_stale = False
        for index, problem in leaders.problems.items():
            item = self._partitions[index]
            if item.phase is not Phase.STOPPED:
                item.standing.no_leader(problem, now_s, now_ms)
                self._are_stale = True
        return True
