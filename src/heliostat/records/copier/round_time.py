"""When one round of a lane begins and ends, by the clock's monotonic seconds (I10)."""

from __future__ import annotations

from heliostat.clock import Clock
from heliostat.invariants import may_send
from heliostat.records.copier.lane import LaneSpec

PREPARED_S_MAX = 15.0  # rounds are not submitted earlier: a longer wait means that clocks differ
FIRST_REPORT_S = 0.2  # it names all partitions: not while waiting records are copied


class RoundTime:
    """The time that a round has.

    Parameters
    ----------
    lane
        Specification of the round.
    clock
        Wall clock and monotonic clock: both are read here once, later only the monotonic one.
    """

    def __init__(self, lane: LaneSpec, clock: Clock) -> None:
        self.clock = clock
        # The wall clock is read last: a process that is stopped in between ends earlier, not later.
        now_s, now_ms = clock.monotonic_s(), clock.wall_ms()
        left_s = (lane.expires_at_ms - now_ms) / 1000
        to_wait_s = min(PREPARED_S_MAX, max(0.0, (lane.begin_at_ms - now_ms) / 1000))
        # From here on by the monotonic clock alone: the wall clock may be stepped.
        self.made_ms = now_ms
        """Wall clock when these times were computed."""
        self.begin_at_s = now_s + to_wait_s
        self.deadline_s = now_s + min(to_wait_s + lane.round_s, left_s)
        """Nothing is sent from then on."""
        self.report_from_s = self.begin_at_s + (FIRST_REPORT_S if lane.waits_for else 0.0)
        """No report is sent before."""

    def may_send(self) -> bool:
        """Return whether the round may send now (I10)."""
        return may_send(self.clock.monotonic_s(), self.deadline_s)

    def to_wait_s(self) -> float:
        """Return how long until the round begins; negative once it has."""
        return self.begin_at_s - self.clock.monotonic_s()

    def left_s(self) -> float:
        """Return how long the round may still send; negative after its end."""
        return self.deadline_s - self.clock.monotonic_s()

    def end_by(self, switch_at_ms: int | None) -> None:
        """Send nothing after `switch_at_ms` (wall clock), when a newer plan takes effect."""
        if switch_at_ms is not None:
            # The wall clock last, as above.
            now_s, now_ms = self.clock.monotonic_s(), self.clock.wall_ms()
            self.deadline_s = min(self.deadline_s, now_s + (switch_at_ms - now_ms) / 1000)
