"""Records in topics of ours that others wrote there: each is ignored, and told once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from heliostat.names import TopicName

NOT_A_ROW = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)
"""What reading a record raises that is no row of ours: its text may hold anything."""
SHOWN_MAX = 60
"""Characters of a key in a line of the log."""


class ForeignRecords:
    """Tells of foreign records: of a topic's first, second, fourth ... one. Thread-safe.

    Parameters
    ----------
    tell
        Receives each line.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._counts: dict[TopicName, int] = {}
        self._ends: dict[tuple[TopicName, str], int] = {}
        """Offset after the last one noted: a record that is read again is told once."""

    def note(self, topic: TopicName, offset: int | None, key: object, why: object) -> None:
        """Note a record that is ignored; `offset` is None if only its key is known."""
        with self._lock:
            place = (topic, shown_key(key)) if offset is None else (topic, "")
            end = 1 if offset is None else offset + 1
            if end <= self._ends.get(place, 0):
                return
            self._ends[place] = end
            count = self._counts[topic] = self._counts.get(topic, 0) + 1
        if count & (count - 1) == 0:
            where = "" if offset is None else f" at offset {offset}"
            more = "" if count == 1 else f"; {count} so far"
            self._tell(
                f"topic {topic} has a record that is not ours{where}, with key {shown_key(key)}: "
                f"it is ignored ({str(why)[:SHOWN_MAX]}{more})"
            )


def shown_key(key: object) -> str:
    """Return a record's key for people; what is not text as Python shows it."""
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            key = repr(key)
    text = key if isinstance(key, str) else repr(key)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
