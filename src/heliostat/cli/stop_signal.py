"""Ctrl-C and SIGTERM, caught from the process's first moment: imports next to nothing."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopSignal:
    """Event set by Ctrl-C or SIGTERM; a second signal ends the process at once."""

    def __init__(self) -> None:
        self.is_set = threading.Event()

    def install(self) -> None:
        """Catch both signals from now on."""
        signal.signal(signal.SIGINT, self._caught)
        signal.signal(signal.SIGTERM, self._caught)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.is_set.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.is_set.set()


STOP = StopSignal()
"""The process's own: who needs it installs it, if the entry point has not yet."""
