"""Kills a process that would send after its round's lease.

I10 Between checking the lease and sending the last byte, a process can be stopped, suspended
    with its machine, or blocked by a broker that reads nothing. What it sends when it resumes lands
    among its successor's records, and a broker that has forgotten the producer does not refuse it
    (2026-11-22: 3 records duplicated after an owner was stopped in mid copy). The kernel's timer
    keeps running meanwhile, and a process that it kills executes no further instruction.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Protocol

LATE_S = 1.0
"""How long after the lease (s) the process may still be sending what it began before. Whoever
waits for a predecessor waits this much longer (`link.leases`)."""
CLOCK_BOOTTIME = 7
"""Linux's number (`linux/time.h`) of a clock that counts while the machine is suspended."""
SIGEV_SIGNAL = 0
_NS_PER_S = 1_000_000_000


class LateSends(Protocol):
    """A guard against sending after the lease."""

    def arm(self, left_s: float) -> None:
        """Begin to guard a send that must be done `left_s` seconds from now."""
        ...

    def disarm(self) -> None:
        """End guarding: all is sent."""
        ...


class NotWatched:
    """A guard that does nothing, for a clock that is not the machine's."""

    def arm(self, left_s: float) -> None:
        """Do nothing."""

    def disarm(self) -> None:
        """Do nothing."""


NOT_WATCHED = NotWatched()


class KilledWhenLate:
    """A guard that kills the process by SIGKILL `LATE_S` after the time passed to `arm`.

    On other systems than Linux by SIGALRM, which a stopped process receives when it resumes.
    """

    def __init__(self) -> None:
        self._timer = _BootTimer() if sys.platform == "linux" else _Alarm()

    def close(self) -> None:
        """Delete the timer: nothing more is sent."""
        self._timer.close()

    def arm(self, left_s: float) -> None:
        """See `LateSends.arm`; for a time already past, `may_send` is False."""
        if left_s > 0:
            self._timer.set(left_s + LATE_S)

    def disarm(self) -> None:
        """See `LateSends.disarm`."""
        self._timer.set(0.0)


class _Alarm:
    def set(self, in_s: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, in_s)

    def close(self) -> None:
        self.set(0.0)


class _Time(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("ns", ctypes.c_long))


class _TimerTimes(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (("interval", _Time), ("value", _Time))


class _SignalEvent(ctypes.Structure):
    """`struct sigevent`, 64 bytes (sigevent(7))."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_int * 12),
    )


class _BootTimer:
    """A timer of timer_create(2); Python offers none on a clock that counts a suspension."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = ctypes.c_void_p()
        event = _SignalEvent(signal=signal.SIGKILL, notify=SIGEV_SIGNAL)
        self._ask("timer_create", CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._number))
        self._times = _TimerTimes()

    def set(self, in_s: float) -> None:
        whole_s = int(in_s)
        self._times.value.seconds = whole_s
        self._times.value.ns = int((in_s - whole_s) * _NS_PER_S)
        self._ask("timer_settime", self._number, 0, ctypes.byref(self._times), None)

    def close(self) -> None:
        self._ask("timer_delete", self._number)

    def _ask(self, name: str, *values: object) -> None:
        if getattr(self._libc, name)(*values):
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
