"""Writes what rounds must know: one writer at a time, and one write for all who ask meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

from heliostat.records.copier.lane import Announcement


class Announcing:
    """Announces the newest plans of a link's lanes.

    Parameters
    ----------
    changed
        Guards the plans, and `is_due`.
    newest
        Returns what rounds must know now.
    write
        Writes it; durable when it returns.
    """

    def __init__(
        self,
        changed: threading.Condition,
        newest: Callable[[], Announcement],
        write: Callable[[Announcement], None],
    ) -> None:
        self._changed = changed
        self._newest = newest
        self._write = write
        self._writing = threading.Lock()
        self.is_due = False
        """Whether something has changed since the last one."""
        self._wanted = self._written = 0
        """How many were asked for, and which of them the last one has answered."""

    def write(self) -> None:
        """Announce; one caller at a time, so the newest is last."""
        with self._changed:
            self._wanted += 1
            mine = self._wanted
        with self._writing:
            with self._changed:
                if self._written >= mine:
                    return  # one that was written meanwhile has all that was there to tell
                latest = self._wanted
                plan, self.is_due = self._newest(), False
            try:
                self._write(plan)
            except BaseException:
                with self._changed:
                    self.is_due = True  # the next renewal of leases tries again
                raise
            self._written = latest
