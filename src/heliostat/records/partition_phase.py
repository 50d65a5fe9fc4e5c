"""What a partition's copy is about, and what kind of trouble it is in."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """What the copier must do next for a partition."""

    FIND_END = "find end"
    LIFT = "lift"
    COPY = "copy"
    STOPPED = "stopped"


class Trouble(Enum):
    """Which side a passing fault is on: only success there ends it."""

    NONE = "none"
    FETCH = "fetch"
    APPEND = "append"


def counted(seen: tuple[int, int], offset: int) -> tuple[int, int]:
    """Count how often in a row something happened at one offset: (offset, times)."""
    return (offset, seen[1] + 1) if seen[0] == offset else (offset, 1)
