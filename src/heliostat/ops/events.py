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

KEPT = 200
"""Lines; more than any screen shows."""


def shortened(lines: Sequence[str], most: int, more: str) -> list[str]:
    """Return the first lines, and one more that counts the others: `and 3 more topics lag`."""
    left = len(lines) - most
    return [*lines[:most], f"and {left} more {more}"] if left > 0 else list(lines)


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

    def info(self, text: str) -> None:
        """Report an expected change."""
        self._add("INFO", text)

    def warn(self, text: str) -> None:
        """Report something that needs attention."""
        self._add("WARN", text)

    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, oldest first."""
        with self._lock:
            return list(self._lines)[-count:]

    def _add(self, level: str, text: str) -> None:
        at = datetime.fromtimestamp(self._wall_ms() / 1000, tz=UTC)
        flat = " ".join(text.split())  # a broker's message must not forge lines
        line = f"{at:%Y-%m-%dT%H:%M:%SZ} {level} {flat}"
        with self._lock:
            self._lines.append(line)
            if self._out is not None:
                self._out.write(line + "\n")
                self._out.flush()
