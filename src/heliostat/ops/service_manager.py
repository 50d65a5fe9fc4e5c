"""Tells systemd how a service of `Type=notify` is: ready, alive, at its end; see sd_notify(3).

Does nothing where no such manager has started this process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from heliostat.clock import Clock

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = "WATCHDOG_USEC"
WATCHDOG_PID = "WATCHDOG_PID"
STATUS_EVERY_S = 5.0
TIMES_A_WATCHDOG = 3.0
"""Signs of life in each period of the watchdog."""


class ServiceManager:
    """The manager that has started this process, if it wants to be told.

    Parameters
    ----------
    environment
        Its variables; the manager's are taken out, so that no child of ours speaks to it.
    clock
        The clock.
    """

    def __init__(self, environment: MutableMapping[str, str], clock: Clock) -> None:
        self._address = environment.pop(SOCKET, "")
        self._clock = clock
        self._next_s = 0.0
        period_us = environment.pop(WATCHDOG, "")
        is_ours = environment.pop(WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
        self._has_watchdog = is_ours and period_us.isdigit() and int(period_us) > 0
        self._every_s = STATUS_EVERY_S
        if self._has_watchdog:
            self._every_s = min(STATUS_EVERY_S, int(period_us) / 1e6 / TIMES_A_WATCHDOG)

    def ready(self) -> None:
        """Tell that the service has started."""
        self._send("READY=1")

    def alive(self, status: Callable[[], str]) -> None:
        """Tell now and then that the service is alive, and how it is.

        Parameters
        ----------
        status
            Returns a line about it. If this call hangs, the manager's watchdog ends the service.
        """
        now_s = self._clock.monotonic_s()
        if not self._address or now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        line = " ".join(status().split())
        self._send(f"STATUS={line}", *(["WATCHDOG=1"] if self._has_watchdog else []))

    def stopping(self) -> None:
        """Tell that the service has begun to stop."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        """Send these lines; a manager that has gone is told nothing."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto("\n".join(lines).encode(), address)
