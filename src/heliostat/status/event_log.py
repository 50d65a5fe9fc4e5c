"""Events of one link as rows with a number, for those who ask what is new."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

from typing_extensions import override

from heliostat.names import LinkName
from heliostat.ops.events import NOTHING, Events, LogFormat, Subject

KEPT = 1_000
_NUMBERS = itertools.count(1)
"""Over all links of this process."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event."""

    id: int
    """Later events have larger ones, over all links of a service, until it is started again."""
    at_ms: int
    """When it was noticed, in ms since the epoch."""
    level: str
    """`INFO` or `WARN`."""
    link: str
    """Name of the link; empty: it is about the service itself."""
    text: str
    """What has happened."""


class EventLog(Events):
    """Keeps the last events of one link. Thread-safe.

    Parameters
    ----------
    wall_ms
        Wall clock (ms).
    link
        Name of the link; empty: events of the service itself.
    out, form
        Where lines are written as well, if at all, and how.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int],
        link: LinkName,
        out: TextIO | None = None,
        form: LogFormat = LogFormat.TEXT,
    ) -> None:
        super().__init__(wall_ms, out, form)
        self._link = link
        self._clock_ms = wall_ms
        self._rows: deque[EventRow] = deque(maxlen=KEPT)
        self._rows_lock = threading.Lock()

    @override
    def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
        """Keep an event."""
        own = " ".join(text.split()).removeprefix(f"link {self._link}: ")
        with self._rows_lock:
            row = EventRow(next(_NUMBERS), self._clock_ms(), level, self._link, own)
            self._rows.append(row)
        named = f"link {self._link}: {own}" if self._link else own
        super().write(level, named, replace(about, link=self._link))

    def rows(self, after: int = 0) -> list[EventRow]:
        """Return events with larger numbers, the oldest first."""
        with self._rows_lock:
            return [row for row in self._rows if row.id > after]
