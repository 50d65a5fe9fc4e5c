"""When one round of a lane begins and ends, by the clock's monotonic seconds (I10)."""

from __future__ import annotations

from heliostat.clock import Clock
from heliostat.invariants import may_send
from heliostat.records.copier.lane import LaneSpec

PREPARED_S_MAX = 15.0  # no round is given out so early: more is a clock that differs
FIRST_REPORT_S = 0.2  # it names all partitions: not while what waited for the change is copied


class RoundTime:
    """The time that a round has.

    Parameters
    ----------
    lane
        What the round was told.
    clock
        Both clocks are looked at once, here; from then on the monotonic one decides.
    """

    def __init__(self, lane: LaneSpec, clock: Clock) -> None:
        self.clock = clock
        # The wall clock is looked at last: a process that is stopped in between ends the earlier.
        now_s, now_ms = clock.monotonic_s(), clock.wall_ms()
        left_s = (lane.expires_at_ms - now_ms) / 1000
        to_wait_s = min(PREPARED_S_MAX, max(0.0, (lane.begin_at_ms - now_ms) / 1000))
        # From here on by the monotonic clock alone: the wall clock may be stepped.
        self.made_ms = now_ms
        """Wall clock when it was worked out."""
        self.begin_at_s = now_s + to_wait_s
        self.deadline_s = now_s + min(to_wait_s + lane.round_s, left_s)
        """Nothing is sent from then on."""
        self.report_from_s = self.begin_at_s + (FIRST_REPORT_S if lane.waits_for else 0.0)
        """Nothing is reported before."""

    def may_send(self) -> bool:
        """Whether the round may send now (I10)."""
        return may_send(self.clock.monotonic_s(), self.deadline_s)

    def to_wait_s(self) -> float:
        """How long until it begins; negative once it has."""
        return self.begin_at_s - self.clock.monotonic_s()

    def left_s(self) -> float:
        """How long it may send; negative behind its end."""
        return self.deadline_s - self.clock.monotonic_s()

    def end_by(self, switch_at_ms: int | None) -> None:
        """A newer plan comes into force at a moment (wall clock): send nothing after it."""
        if switch_at_ms is not None:
            # The wall clock last, as above.
            now_s, now_ms = self.clock.monotonic_s(), self.clock.wall_ms()
            self.deadline_s = min(self.deadline_s, now_s + (switch_at_ms - now_ms) / 1000)
