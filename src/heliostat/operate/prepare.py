"""Makes what a first start on this machine would make, so that links begin at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PARTS = (
    ("loops that copy records", ("heliostat.ops.compiled_ahead",)),
    ("Spark's classes", ("heliostat.records.spark.keep_classes",)),
    ("Spark SQL's classes", ("heliostat.records.spark.keep_classes", "rows")),
)
"""What is made, and the program that makes it; each needs a process of its own."""
ENDS_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """One part that was to be made."""

    name: str
    seconds: float
    why_not: str = ""
    """The end of the program's errors; empty: it is there now."""


def prepare(
    tell: Callable[[Prepared], None], parts: Sequence[tuple[str, tuple[str, ...]]] = PARTS
) -> list[Prepared]:
    """Make each part anew; without one of them links run as well, and begin later.

    Parameters
    ----------
    tell
        Receives each part as it is done.
    parts
        What is made.
    """
    made: list[Prepared] = []
    for name, words in parts:
        began_s = time.monotonic()
        why_not = _failure(words)
        made.append(Prepared(name, time.monotonic() - began_s, why_not))
        tell(made[-1])
    return made


def _failure(words: Sequence[str]) -> str:
    """Run a module of ours; return why it failed, empty if it did not."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {ENDS_WITHIN_S:.0f} s"
    if done.returncode == 0:
        return ""
    return next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
