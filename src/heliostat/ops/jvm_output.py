"""What Spark's JVM prints: its greetings are dropped, and the rest is passed on line by line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GREETINGS = (
    "WARNING: Using incubator modules",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "Setting Spark log level to",
    "To adjust logging level use",
)
"""How the lines begin that each session prints and that say nothing."""
NO_NATIVE_CODE = " WARN NativeCodeLoader: "
"""A session that sets its own log level prints it: Hadoop has no libraries for this machine."""
Tell = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Print a line where the JVM itself would have."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def is_greeting(line: str) -> bool:
    """Whether a line of the JVM is one that nobody needs."""
    return not line.strip() or line.lstrip().startswith(GREETINGS) or NO_NATIVE_CODE in line


@contextmanager
def passed_on(tell: Tell) -> Iterator[int]:
    """Yield a file descriptor for a child's output, whose lines are passed to `tell` until it ends.

    Inside the block the child is started; whether it is or not, its output is read to the end.
    """
    out, into = os.pipe()
    threading.Thread(target=_read, args=(out, tell), name="Spark's output", daemon=True).start()
    try:
        yield into
    finally:
        os.close(into)


def _read(out: int, tell: Tell) -> None:
    with os.fdopen(out, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not is_greeting(line):
                tell(line.rstrip("\n"))
