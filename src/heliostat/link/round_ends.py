"""Counts how rounds of a link have ended, by reasons that are few whatever happens; pure."""

from __future__ import annotations

import re
from collections import Counter

from heliostat.errors import HeliostatError, code_of
from heliostat.ops.spark_session import essence

PLANNED = "planned"
"""It ended as the driver wished."""
CANCELLED = "CANCELLED"
"""It did not end, and its job was cancelled."""
UNKNOWN = "UNKNOWN"
"""Spark's text names no code, or there are too many."""
REASONS_MAX = 50
_CODED = re.compile(r"heliostat\.[\w.]+: \[([A-Z][A-Z0-9_]{1,39})\]")
"""Spark passes on only the text of a worker's exception."""


class RoundEnds:
    """The ends of rounds since the driver began. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def ended(self, error: Exception | None, *, is_cancelled: bool) -> None:
        """Count the end of a round; an error: it has failed."""
        reason = reason_of(error, is_cancelled=is_cancelled)
        is_new = reason not in self._counts and len(self._counts) >= REASONS_MAX
        self._counts[UNKNOWN if is_new else reason] += 1

    def report(self) -> list[tuple[str, str, int]]:
        """Return results, their reasons, and counts for the driver's report."""
        return [
            ("ended" if reason == PLANNED else "failed", reason, count)
            for reason, count in sorted(self._counts.items())
        ]


def reason_of(error: Exception | None, *, is_cancelled: bool) -> str:
    """Return why a round has ended: a code where it failed."""
    match error:
        case None:
            return PLANNED
        case HeliostatError():
            return code_of(error)
        case _ if is_cancelled:
            return CANCELLED
        case _:
            coded = _CODED.match(essence(str(error)))
            return coded[1] if coded else UNKNOWN
