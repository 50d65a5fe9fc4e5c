"""Which brokers lead a lane's partitions on both sides; asked again when that may have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heliostat.clock import Clock
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId
from heliostat.records.copier.network import BrokerProblem, Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

_SILENT = (Phase.STOPPED, Phase.GIVEN_UP)
"""A stop must stay visible."""
LEADERS_EVERY_S = 0.5  # at least this long between metadata requests while a leader is missing


class LaneLeaders:
    """The leaders by the last metadata answer.

    Parameters
    ----------
    partitions
        Partitions of the lane; one without a leader is set to retry.
    network, clock
        Network and clock of the lane.
    """

    def __init__(self, partitions: Sequence[PartitionCopy], network: Network, clock: Clock) -> None:
        self._partitions = partitions
        self._network = network
        self._clock = clock
        self.source: dict[int, BrokerId] = {}
        """Source leaders by partition index; missing where there is none now."""
        self.target: dict[int, BrokerId] = {}
        """Target leaders by partition index; missing where there is none now."""
        self.took_s = 0.0
        """How long the last answer took (seconds)."""
        self._asked_at_s = -1e9
        self._are_stale = True
        self._new: list[int] = []

    def ask_of(self, indexes: Iterable[int]) -> None:
        """Ask, at once, for the leaders of new partitions."""
        self._new += indexes

    def may_be_others(self) -> None:
        """Ask again: a change of leaders may explain a failure."""
        self._are_stale = True

    def find(self, now_s: float) -> bool:
        """Ask for the leaders if they may have changed, not too often; return whether they came."""
        is_due = self._are_stale and now_s >= self._asked_at_s + LEADERS_EVERY_S
        if not is_due and not self._new:
            return False
        asked, self._new = (None if is_due else self._new), []
        if is_due:
            self._asked_at_s = now_s
        now_ms = self._clock.wall_ms()
        began_s = self._clock.monotonic_s()
        try:
            leaders = self._network.leaders(asked)
        except ConnectionLost as error:
            self._are_stale = True
            for item in (each for each in self._partitions if each.phase not in _SILENT):
                no_leader(item, error, now_s, now_ms, is_target=False)
            return False
        if is_due:
            self.took_s = self._clock.monotonic_s() - began_s
            self._are_stale = False
        self.source, self.target = dict(leaders.source), dict(leaders.target)
        for index, (problem, is_target) in leaders.problems.items():
            item = self._partitions[index]
            if item.phase not in _SILENT:
                no_leader(item, problem, now_s, now_ms, is_target=is_target)
                self._are_stale = True
        for index in self.target.keys() - leaders.problems.keys():
            item = self._partitions[index]
            if item.phase not in _SILENT and item.standing.has_no_leader:
                item.standing.recovered(now_ms, aligns=item.phase is Phase.ALIGN_START)
        return True


def no_leader(
    item: PartitionCopy, problem: BrokerProblem, now_s: float, now_ms: int, *, is_target: bool
) -> None:
    """Note that a side has no leader for a partition now, or can't be asked for one."""
    item.progress.is_end_old |= not is_target
    item.standing.no_leader(problem, now_s, now_ms, is_target=is_target)
