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
from array import array
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


class _SignalEvent(ctypes.Structure):
    """`struct sigevent`, 64 bytes (sigevent(7))."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_int * 12),
    )


class _BootTimer:
    """A timer of timer_create(2); Python offers none on a clock that counts a suspension.

    It is set twice for each send: with types looked up once and plain integers that takes 3 us,
    with structures of ctypes 15 us.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = ctypes.c_void_p()
        event = _SignalEvent(signal=signal.SIGKILL, notify=SIGEV_SIGNAL)
        self._check(
            "timer_create",
            self._libc.timer_create(
                CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._number)
            ),
        )
        self._settime = self._libc.timer_settime
        self._settime.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._times = array("l", (0, 0, 0, 0))
        """`struct itimerspec`: seconds and ns of its interval, and of its value."""
        self._times_at = self._times.buffer_info()[0]

    def set(self, in_s: float) -> None:
        whole_s = int(in_s)
        self._times[2] = whole_s
        self._times[3] = int((in_s - whole_s) * _NS_PER_S)
        if self._settime(self._number, 0, self._times_at, None):
            self._check("timer_settime", -1)

    def close(self) -> None:
        self._check("timer_delete", self._libc.timer_delete(self._number))

    @staticmethod
    def _check(name: str, answer: int) -> None:
        if answer:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
