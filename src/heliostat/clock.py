"""Time as a value that is passed in, so that a simulation can control it."""

from __future__ import annotations

import time
from typing import Protocol

_GOES_ON = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops CLOCK_MONOTONIC while it is suspended (clock_gettime(2))."""


class Clock(Protocol):
    """Monotonic seconds for deadlines, wall milliseconds for what people read."""

    def monotonic_s(self) -> float:
        """Seconds that never jump; only differences mean something."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as Kafka's timestamps count them."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic_s(self) -> float:
        """Seconds of the system's monotonic clock, including those while it was suspended.

        A laptop that sleeps, or a paused virtual machine, may wake up after its deadlines (I10).
        """
        return time.clock_gettime(_GOES_ON)

    def wall_ms(self) -> int:
        """Milliseconds of the system's wall clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)
