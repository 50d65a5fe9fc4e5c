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
