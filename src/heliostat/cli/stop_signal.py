"""Ctrl-C, SIGTERM and SIGHUP, caught from the process's first moment: imports next to nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

PARENT_S = 0.5


class StopSignal:
    """Event set by Ctrl-C or SIGTERM; a second signal ends the process at once."""

    def __init__(self) -> None:
        self.is_set = threading.Event()

    def install(self) -> None:
        """Catch both signals from now on."""
        signal.signal(signal.SIGINT, self._caught)
        signal.signal(signal.SIGTERM, self._caught)

    def set_with(self, parent: int | None) -> None:
        """Set it as well when this process that has started us ends, or has ended; None: never."""
        if parent is None:
            return

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(PARENT_S)
            self.is_set.set()

        threading.Thread(target=watch, name="parent", daemon=True).start()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.is_set.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.is_set.set()


STOP = StopSignal()
"""The process's own: who needs it installs it, if the entry point has not yet."""


class ConfirmSignal:
    """Event set by SIGHUP: the configuration file is taken as it is.

    A terminal that is closed sends it as well: then the process is to end, as before. Under `nohup`
    it stays ignored.
    """

    def __init__(self, stop: StopSignal) -> None:
        self.is_set = threading.Event()
        self._stop = stop
        self._has_terminal = False

    def install(self) -> None:
        """Catch it from now on, and what ends the process."""
        self._stop.install()
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._has_terminal = has_terminal()
            signal.signal(signal.SIGHUP, self._caught)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        is_left = self._has_terminal and not has_terminal()
        (self._stop if is_left else self).is_set.set()


def has_terminal() -> bool:
    """Return whether this process reads from or writes to a terminal that is there."""
    return any(os.isatty(number) for number in (0, 1, 2))
