"""A round's lease: for how long it may send, by its own monotonic clock alone (I10).

The driver answers a report only under an owner's record that it wrote after it had that report, and
that lasts as long as the lease. So a successor, which waits until that record is over, begins after
the lease has ended, however slow answers are and whatever wall clocks show (docs/adr/0018).
"""

from __future__ import annotations

from collections import deque

from heliostat.clock import Clock
from heliostat.invariants import may_send

NOT_GRANTED = float("-inf")


class Lease:
    """The lease of one round.

    Parameters
    ----------
    lasts_s
        How long it lasts, from when the report that was answered was handed over to be sent.
    clock
        The round's clock.
    """

    def __init__(self, lasts_s: float, clock: Clock) -> None:
        self.clock = clock
        self.until_s = NOT_GRANTED
        """Nothing is sent from then on (monotonic seconds)."""
        self._lasts_s = lasts_s
        self._sent: deque[tuple[int, float]] = deque()
        """Numbers of reports without an answer, and when they were handed over."""
        self._has_lapsed = False

    def report(self, number: int) -> None:
        """Note that report `number` is handed over now, before it is sent."""
        self._sent.append((number, self.clock.monotonic_s()))

    def answer(self, number: int) -> None:
        """Take the driver's answer to report `number`, and so to all before it."""
        # The first lease follows none, and nothing is known yet that could be outdated.
        self._has_lapsed |= self.has_ended
        while self._sent and self._sent[0][0] <= number:
            _, at_s = self._sent.popleft()
            self.until_s = max(self.until_s, at_s + self._lasts_s)

    def may_send(self) -> bool:
        """Return whether the round may send now."""
        return may_send(self.clock.monotonic_s(), self.until_s)

    def left_s(self) -> float:
        """Return how long the round may still send; negative after the lease's end."""
        return self.until_s - self.clock.monotonic_s()

    @property
    def is_pending(self) -> bool:
        """Whether no report has been answered yet: there was none."""
        return self.until_s == NOT_GRANTED

    @property
    def has_ended(self) -> bool:
        """Whether there was one, which is over."""
        return not (self.is_pending or self.may_send())

    def begins_again(self) -> bool:
        """Return whether it had ended and is valid again since the last call.

        Another round may have sent meanwhile: what is known of the target is outdated.
        """
        if not self._has_lapsed or not self.may_send():
            return False
        self._has_lapsed = False
        return True
