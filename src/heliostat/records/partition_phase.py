"""What a partition's copy is about, and what kind of trouble it is in."""

from __future__ import annotations

from enum import Enum

LATE_PREDECESSOR = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER")
LATE_PREDECESSOR_S = 0.01
"""What the round before sent last may land just after the end was read: look again at once."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
"""A pause doubles up to this; the outage of a broker is then noticed to be over within 5 s."""


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


def truncated_text(parted_at: int | None) -> str:
    """What is told of a source that lost what was copied, from `parted_at` on if that is known."""
    where = "" if parted_at is None else f" from offset {parted_at} on"
    return (
        f"its leader epochs say that the source lost or replaced{where} records that the target "
        "has (unclean election)"
    )


def retry_pause_s(failures: int, code: str) -> float:
    """How long to wait after so many failures in a row before this one, of `code`."""
    if failures == 0 and code in LATE_PREDECESSOR:
        return LATE_PREDECESSOR_S
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(failures, 10))
