"""Times and spans in sentences, no more exact than they are known; pure."""

from __future__ import annotations

from heliostat.ops.shown import time_text

HOUR_S, DAY_S = 3_600.0, 86_400.0
TO_THE_SECOND_S, TO_THE_MINUTE_S = 2.0, 120.0
"""Times that lie no farther apart are told as one."""


def copied_text(copied_s: tuple[float, float], now_s: float) -> str:
    """Return when a record was copied: between two times, s since the epoch.

    To the second within an hour, to the minute within a day, else before which time.
    """
    from_s, to_s = copied_s
    ago_s, width_s = now_s - to_s, to_s - from_s
    if from_s <= 0 or ago_s > DAY_S:
        return before_text(int(to_s * 1000))
    if ago_s <= HOUR_S and width_s <= TO_THE_SECOND_S:
        return f"at {time_text(int(to_s * 1000))}"
    if ago_s <= HOUR_S and width_s <= TO_THE_MINUTE_S:
        return f"between {time_text(int(from_s * 1000))} and {time_text(int(to_s * 1000))}"
    if width_s <= TO_THE_MINUTE_S:
        return f"at about {_to_the_minute(to_s)}"
    return f"between {_to_the_minute(from_s)} and {_to_the_minute(to_s)}"


def before_text(at_ms: int) -> str:
    """Return that something was so at a time, since when is not known."""
    return f"before {time_text(at_ms)}"


def _to_the_minute(at_s: float) -> str:
    return time_text(int(at_s * 1000))[:-4] + "Z"


def span_text(seconds: float) -> str:
    """Return a span in the greatest unit that leaves two figures."""
    for unit, size in (("days", DAY_S), ("h", HOUR_S), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
