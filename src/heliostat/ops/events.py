"""Events as lines for people: written to the log, or shown in the live view on a terminal.

The last few hundred are kept in memory, so that the live view can show what it covers.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TextIO

from typing_extensions import override

KEPT = 200
"""Lines; more than any screen shows."""


def shortened(lines: Sequence[str], most: int, more: str) -> list[str]:
    """Return the first lines, and one more that counts the others: `and 3 more topics lag`."""
    left = len(lines) - most
    return [*lines[:most], f"and {left} more {more}"] if left > 0 else list(lines)


def joined(lines: Sequence[str], named: int = 3) -> list[str]:
    """Return lines that differ in their first word only as one: `a, b, c and 4 more are gone`."""
    alike: dict[str, list[str]] = {}
    for line in lines:
        first, _, rest = line.partition(" ")
        alike.setdefault(rest, []).append(first)
    return [_sentence(first, rest, named) for rest, first in alike.items()]


def _sentence(first: Sequence[str], rest: str, named: int) -> str:
    left = len(first) - named
    more = f" and {left} more" if left > 0 else ""
    if len(first) > 1 and rest.startswith("is "):
        rest = "are" + rest.removeprefix("is")
    return f"{', '.join(first[:named])}{more} {rest}".rstrip()


class Events:
    """A sink of one-line messages with a level. Thread-safe.

    Parameters
    ----------
    wall_ms
        Wall clock (ms).
    out
        Where lines are written at once; None keeps them for a view only.
    """

    def __init__(self, wall_ms: Callable[[], int], out: TextIO | None = sys.stderr) -> None:
        self._wall_ms = wall_ms
        self._out = out
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def of(self, link: str) -> Events:
        """Return a sink for one link: its lines go here, and each names it."""
        return _LinkEvents(self, link)

    def info(self, text: str) -> None:
        """Report an expected change."""
        self.write("INFO", text)

    def warn(self, text: str) -> None:
        """Report something that needs attention."""
        self.write("WARN", text)

    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, oldest first."""
        with self._lock:
            return list(self._lines)[-count:]

    def write(self, level: str, text: str) -> None:
        """Write a line of this level."""
        at = datetime.fromtimestamp(self._wall_ms() / 1000, tz=UTC)
        flat = " ".join(text.split())  # a broker's message must not forge lines
        line = f"{at:%Y-%m-%dT%H:%M:%SZ} {level} {flat}"
        with self._lock:
            self._lines.append(line)
            if self._out is not None:
                self._out.write(line + "\n")
                self._out.flush()


class _LinkEvents(Events):
    """The lines of one link."""

    def __init__(self, everything: Events, link: str) -> None:
        super().__init__(lambda: 0, None)
        self._everything = everything
        self._start = f"link {link}"

    @override
    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, of all links."""
        return self._everything.recent(count)

    @override
    def write(self, level: str, text: str) -> None:
        """Write a line that names the link."""
        named = text.startswith((f"{self._start}:", f"{self._start} "))
        self._everything.write(level, text if named else f"{self._start}: {text}")
