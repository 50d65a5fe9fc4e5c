"""Whether a file has changed, once it has rested: an editor may write it in several steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

from heliostat.clock import Clock

RESTS_S = 2.0
"""How long a changed file must stay as it is."""


def stamp_of(path: Path) -> Hashable | None:
    """Return what tells a file's versions apart, through links; None: there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


class ChangedFile:
    """A file that is looked at now and then; make it before the file is read.

    Parameters
    ----------
    path
        The file.
    clock
        The clock.
    stamp
        Returns what tells its versions apart; by default `stamp_of`.
    """

    def __init__(
        self, path: Path, clock: Clock, stamp: Callable[[], Hashable | None] | None = None
    ) -> None:
        self.path = path
        self._clock = clock
        self._stamp = stamp or partial(stamp_of, path)
        self._read = self._last = self._stamp()
        self._since_s = clock.monotonic_s()

    def is_due(self) -> bool:
        """Look; return, once for each version, whether another one has rested long enough."""
        now, now_s = self._stamp(), self._clock.monotonic_s()
        if now != self._last:
            self._last, self._since_s = now, now_s
        if now == self._read or now_s - self._since_s < RESTS_S:
            return False
        self._read = now
        return True

    def is_read(self) -> None:
        """Take it that the file is read as it is now."""
        self._read = self._last = self._stamp()
