"""Events of one link as rows with a number, for those who ask what is new."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TextIO

from typing_extensions import override

from heliostat.names import LinkName
from heliostat.ops.events import NOTHING, Events, LogFormat, Subject
from heliostat.status.history_records import PastEvent

KEPT = 1_000
COMPARED = 200
"""Of so many of the last events is looked whether both the driver and who watches it tell them."""
SAME_WITHIN_MS = 15_000
IN_A_MS = 1_000
"""Numbers of events for each ms."""
_LAST = [0]
_LAST_LOCK = threading.Lock()


def _next_number(at_ms: int) -> int:
    """Return a number for an event: by its time, and larger than any before in this process."""
    with _LAST_LOCK:
        _LAST[0] = max(_LAST[0] + 1, at_ms * IN_A_MS)
        return _LAST[0]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event."""

    id: int
    """Later events have larger ones, over all links of a service, after its restart too."""
    at_ms: int
    """When it was noticed, in ms since the epoch."""
    level: str
    """`INFO` or `WARN`."""
    link: str
    """Name of the link; empty: it is about the service itself."""
    text: str
    """What has happened."""
    topic: str
    """Name of the topic at the source that it is about; empty: of none, or of several."""
    partition: int | None
    """Number of the partition, likewise."""
    code: str
    """As docs/reference/errors.md lists it; empty: there is none."""


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
        self._ours: deque[EventRow] = deque(maxlen=COMPARED)
        self._drivers: deque[EventRow] = deque(maxlen=COMPARED)
        self._rows_lock = threading.Lock()

    @override
    def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
        """Keep an event."""
        own = " ".join(text.split()).removeprefix(f"link {self._link}: ")
        with self._rows_lock:
            at_ms = self._clock_ms()
            of = about.topic, about.partition, about.code
            row = EventRow(_next_number(at_ms), at_ms, level, self._link, own, *of)
            self._add(row, self._ours, self._drivers)
        named = f"link {self._link}: {own}" if self._link else own
        super().write(level, named, replace(about, link=self._link))

    def take(self, event: PastEvent) -> None:
        """Take what the link's driver tells, unless it was seen from outside just so."""
        with self._rows_lock:
            number = _next_number(event.at_ms)
            row = EventRow(number, event.at_ms, event.level, self._link, *event[2:])
            self._add(row, self._drivers, self._ours)

    def _add(self, row: EventRow, same: deque[EventRow], other: Iterable[EventRow]) -> None:
        """Add a row, unless who else tells events has told this one."""
        if not any(_is_same(row, earlier) for earlier in other):
            self._rows.append(row)
        same.append(row)

    def remember(self, events: Iterable[PastEvent]) -> None:
        """Put what the link's history tells before what is kept already."""
        with self._rows_lock:
            until_ms = self._rows[0].at_ms if self._rows else sys.maxsize
            earlier = [
                EventRow(
                    event.at_ms * IN_A_MS + number % IN_A_MS,
                    event.at_ms,
                    event.level,
                    self._link,
                    event.text,
                    event.topic,
                    event.partition,
                    event.code,
                )
                for number, event in enumerate(events)
                if event.at_ms < until_ms
            ]
            self._rows = deque(sorted([*earlier, *self._rows], key=lambda row: row.id), KEPT)

    def rows(self, after: int = 0) -> list[EventRow]:
        """Return events with larger numbers, the oldest first."""
        with self._rows_lock:
            return [row for row in self._rows if row.id > after]


def _is_same(row: EventRow, other: EventRow) -> bool:
    """Return whether two rows tell the same, one as the driver saw it, one from outside."""
    if abs(row.at_ms - other.at_ms) > SAME_WITHIN_MS or row.level != other.level:
        return False
    about = row.topic, row.partition, row.code
    is_about_same = about == (other.topic, other.partition, other.code)
    return row.text == other.text or (row.code != "" and is_about_same)
