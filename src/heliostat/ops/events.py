"""Events as lines for people: written to the log, or shown in the live view on a terminal.

The last few hundred are kept in memory, so that the live view can show what it covers. For programs
that collect logs a line can be a JSON object, with what it is about in fields of their own.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
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


class LogFormat(Enum):
    """How lines of a log are written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about, as far as it is about one thing."""

    link: str = ""
    topic: str = ""
    """Name at the source."""
    partition: int | None = None
    code: str = ""
    """As docs/reference/errors.md lists it."""


NOTHING = Subject()


class Events:
    """A sink of one-line messages with a level. Thread-safe.

    Parameters
    ----------
    wall_ms
        Wall clock (ms).
    out
        Where lines are written at once; None keeps them for a view only.
    form
        How they are written there.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int],
        out: TextIO | None = sys.stderr,
        form: LogFormat = LogFormat.TEXT,
    ) -> None:
        self._wall_ms = wall_ms
        self._out = out
        self._form = form
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def of(self, link: str) -> Events:
        """Return a sink for one link: its lines go here, and each names it."""
        return _LinkEvents(self, link)

    def info(self, text: str, about: Subject = NOTHING) -> None:
        """Report an expected change."""
        self.write("INFO", text, about)

    def warn(self, text: str, about: Subject = NOTHING) -> None:
        """Report something that needs attention."""
        self.write("WARN", text, about)

    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, oldest first."""
        with self._lock:
            return list(self._lines)[-count:]

    def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
        """Write a line of this level."""
        at_ms = self._wall_ms()
        flat = " ".join(text.split())  # a broker's message must not forge lines
        line = f"{datetime.fromtimestamp(at_ms / 1000, tz=UTC):%Y-%m-%dT%H:%M:%SZ} {level} {flat}"
        with self._lock:
            self._lines.append(line)
            if self._out is not None:
                is_json = self._form is LogFormat.JSON
                self._out.write((as_json(at_ms, level, flat, about) if is_json else line) + "\n")
                self._out.flush()


class _LinkEvents(Events):
    """The lines of one link."""

    def __init__(self, everything: Events, link: str) -> None:
        super().__init__(lambda: 0, None)
        self._everything = everything
        self._link, self._start = link, f"link {link}"

    @override
    def recent(self, count: int) -> list[str]:
        """Return the last `count` lines, of all links."""
        return self._everything.recent(count)

    @override
    def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
        """Write a line that names the link."""
        named = text.startswith((f"{self._start}:", f"{self._start} "))
        of_link = replace(about, link=self._link)
        self._everything.write(level, text if named else f"{self._start}: {text}", of_link)


def as_json(at_ms: int, level: str, text: str, about: Subject) -> str:
    """Return an event as a JSON object in one line; fields that are not known are absent."""
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    message = text.removeprefix(f"link {about.link}: ") if about.link else text
    fields = {name: value for name, value in asdict(about).items() if value not in ("", None)}
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
    line = {"time": time, "level": level, "message": message, **fields}
    return json.dumps(line, ensure_ascii=False)
