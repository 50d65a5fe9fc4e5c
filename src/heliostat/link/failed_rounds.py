"""Rounds that failed: their tasks may go on, and send while they have a lease (I10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.link.leases import Leases
from heliostat.names import TopicPartition


@dataclass(frozen=True, slots=True)
class _Failed:
    round_id: str
    partitions: frozenset[TopicPartition]


class FailedRounds:
    """The failed rounds whose leases are not over. Not thread-safe.

    Parameters
    ----------
    leases
        The rounds' leases.
    clock
        The driver's clock.
    """

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._all: list[_Failed] = []

    def add(self, round_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that a round which had these partitions has failed."""
        self._all.append(_Failed(round_id, frozenset(partitions)))

    def ids(self) -> list[str]:
        """Return those that may still send."""
        return [each.round_id for each in self._live()]

    def of(self, partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
        """Return those that may still send records of these partitions."""
        wanted = set(partitions)
        found = (each for each in self._live() if not each.partitions.isdisjoint(wanted))
        return tuple(each.round_id for each in found)

    def _live(self) -> list[_Failed]:
        now_s = self._clock.monotonic_s()
        over = [one for one in self._all if now_s >= self._leases.over_at_s(one.round_id)]
        for each in over:
            self._all.remove(each)
            self._leases.forget(each.round_id)
        return self._all
