"""Mirrors that are given away while the link runs: durable, and nothing of them is under way.

I1  A promotion is carried out once no round has a partition of it, and nothing that a failed round
    may have sent can land any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heliostat.clock import Clock
from heliostat.handover.promotion import Promotion
from heliostat.link.lane_set import LaneSet
from heliostat.names import TopicName, TopicPartition
from heliostat.records.copier.late_sends import LATE_S
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.state.link_state import LinkState
from heliostat.state.promotions import PromotedMirror


class GivenAway:
    """The former mirrors of one link, while this process owns it.

    Parameters
    ----------
    state
        Where they are recorded.
    clock
        Measures how long something may land.
    """

    def __init__(self, state: LinkState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self.mirrors: dict[TopicName, PromotedMirror] = {}
        """Those that this process has recorded, by source topic."""
        self._leaving: set[TopicPartition] = set()
        self._landed_at_s: float | None = None

    def new_in(self, promotions: Collection[TopicName]) -> set[TopicName]:
        """Return the topics that were not recorded yet."""
        return set(promotions) - self.mirrors.keys()

    def record(
        self, promotions: Iterable[Promotion], copied: Iterable[TopicPartition]
    ) -> dict[TopicName, PromotedMirror]:
        """Record them, and wait from now on for `copied`, which lanes had; return all.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or refuses; call it again.
        """
        self._leaving |= set(copied)
        self._landed_at_s = None
        self.mirrors |= self._state.promotions.promote(promotions)
        return self.mirrors

    def are_settled(self, lanes: LaneSet | None) -> bool:
        """Return whether nothing can land in them any more; lanes have what they should have."""
        if lanes is None or lanes.have_landed(self._leaving):
            self._leaving.clear()
        if not self._leaving:
            return True
        now_s = self._clock.monotonic_s()
        if self._landed_at_s is None:
            assert lanes is not None
            self._landed_at_s = now_s + lanes.lease_left_s() + LATE_S + LANDS_WITHIN_S
        return now_s >= self._landed_at_s
