"""When a failed request is sent again: pure, so that a test needs no time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a request is tried.

    Parameters
    ----------
    turns
        How often all addresses are asked.
    pause_s
        Before the second turn; doubled before each further one.
    pause_max_s
        Longest pause of our own choice.
    within_s
        No turn begins later than this after the request was made. Who waits for a schema for hours
        asks again; a request that took hours would hide that from who looks.
    """

    turns: int = 4
    pause_s: float = 0.25
    pause_max_s: float = 5.0
    within_s: float = 30.0

    def pause_before(self, turn: int, wanted_s: float | None, chance: float) -> float:
        """Seconds to wait before a turn (1 is the second).

        Parameters
        ----------
        turn
            From 1.
        wanted_s
            What an answer's `Retry-After` asks for: never waited for less.
        chance
            From 0 to 1: spreads the pauses of many processes over the upper half.
        """
        own_s = min(self.pause_s * 2.0 ** (turn - 1), self.pause_max_s)
        return max(own_s * (0.5 + chance / 2), wanted_s or 0.0)


def retry_after_s(value: str | None, now_ms: int) -> float | None:
    """Seconds that a `Retry-After` asks for: a number or a date (RFC 9110, 10.2.3).

    None if there is none, or it makes no sense.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])  # longer ones are years, too
    try:
        moment = parsedate_to_datetime(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now_ms / 1000)
    except (ValueError, OverflowError):
        return None
