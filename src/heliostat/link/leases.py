"""The leases that a driver gives to its rounds: which are valid, and when one is over (I10).

An answer is given in this order: the reports that have come are noted, the owner's record is
written, and only then they are answered. So every lease under a record has begun before it was
written, and ends before a record that lasts as long does (docs/adr/0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.state.ownership import owner_lasts_s

RENEWALS_A_LEASE, RENEW_S_MAX = 10, 2.0
"""A lease is renewed so often while it lasts, and at least each `RENEW_S_MAX`: a hung broker delays
answers until the cluster notices, 9 s by default (`broker.session.timeout.ms`)."""


def renew_every_s(lease_s: float) -> float:
    """Return the interval (s) at which leases are renewed."""
    return min(RENEW_S_MAX, lease_s / RENEWALS_A_LEASE)


@dataclass(slots=True)
class _Reported:
    number: int
    received_s: float
    """By the driver's monotonic clock; the lane handed the report over earlier."""
    answered: int = 0
    answered_s: float = float("-inf")
    """When the report that was answered last was received."""


class Leases:
    """The leases of a link's rounds. Not thread-safe.

    Parameters
    ----------
    lease_s
        How long a lease lasts from when its report was sent.
    clock
        The driver's clock.
    """

    def __init__(self, lease_s: float, clock: Clock) -> None:
        self.lease_s = lease_s
        self._clock = clock
        self._rounds: dict[str, _Reported] = {}

    def reported(self, round_id: str, number: int) -> bool:
        """Note that report `number` of a round has come; return whether it is the round's first."""
        now_s = self._clock.monotonic_s()
        known = self._rounds.get(round_id)
        if known is None:
            self._rounds[round_id] = _Reported(number, now_s)
            return True
        if number > known.number:
            known.number, known.received_s = number, now_s
        return False

    def to_answer(self, round_ids: Iterable[str]) -> dict[str, int]:
        """Return the newest reports of these rounds, to be answered once the claim is renewed."""
        return {each: self._rounds[each].number for each in round_ids if each in self._rounds}

    def answer(self, reports: Mapping[str, int]) -> None:
        """Note, before it is announced, that reports from before a renewal are answered."""
        for round_id, number in reports.items():
            known = self._rounds.get(round_id)
            if known is not None and number > known.answered:
                known.answered = number
                # A newer report may have come since: its time is later, which only waits longer.
                known.answered_s = known.received_s

    def answered(self, round_ids: Iterable[str]) -> dict[str, int]:
        """Return the reports of these rounds that have been answered."""
        found = ((each, self._rounds.get(each)) for each in round_ids)
        return {each: one.answered for each, one in found if one is not None and one.answered}

    def heard_s(self, round_id: str) -> float | None:
        """Return when a round was last heard (monotonic seconds); None: never."""
        known = self._rounds.get(round_id)
        return None if known is None else known.received_s

    def over_at_s(self, round_id: str) -> float:
        """Return when a round's lease, if it is not renewed, is surely over (monotonic seconds)."""
        known = self._rounds.get(round_id)
        if known is None:
            return float("-inf")
        return known.answered_s + owner_lasts_s(self.lease_s)

    def forget(self, round_id: str) -> None:
        """Forget a round that has ended."""
        self._rounds.pop(round_id, None)
