"""How often a link that halted has begun again, when it does so next, and when no more; pure.

A link that halted begins again after 0, 2, 6, 12 … minutes: n² + n, at most 60, where n counts its
restarts. After as long a quiet time n is 0 again. So a fault that passes costs seconds, and one
that lasts is looked at each hour, until `restarts.max` is reached: then it has given up.

What is remembered is a row beside the wishes, so that another process, on any machine, counts on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

from heliostat.errors import ConfigError, HeliostatError, LinkTakenOver, PipelineRefused

RESTARTS_KEY = "restarts"
PAUSE_MAX_MIN = 60
REASON_CHARS_MAX = 1_000
LATE_MS = 60_000
"""A restart that is so much overdue waits for a driver: none is there to carry it out."""


class Cure(Enum):
    """What makes it worth to try a link again that halted."""

    TIME = "time"
    """The world may change: a topic is repaired, a right is given."""
    STANDBY = "standby"
    """Nothing is wrong: another instance owns the link, and this one may stand by."""
    CONFIGURATION = "configuration"
    """The same configuration would be refused again."""


def cure_of(error: BaseException) -> Cure:
    """Return what may cure the error that halted a link."""
    if isinstance(error, LinkTakenOver):
        return Cure.STANDBY
    if isinstance(error, ConfigError | PipelineRefused):
        return Cure.CONFIGURATION
    return Cure.TIME


def pause_s(count: int) -> float:
    """Return how long a link rests that has begun again `count` times."""
    return 60.0 * min(PAUSE_MAX_MIN, count * count + count)


class Phase(Enum):
    """How a link goes that has halted once."""

    RUNS = "runs"
    WAITS = "waits"
    """It has halted, and begins again by itself."""
    REFUSED = "refused"
    """It has halted, and begins again once its configuration has changed."""
    GAVE_UP = "gave_up"
    """It has halted, and begins again only if somebody says so."""


@dataclass(frozen=True, slots=True)
class RestartMemory:
    """What is remembered of a link's restarts."""

    phase: Phase = Phase.RUNS
    count: int = 0
    """Restarts since the last quiet time."""
    limit: int = 0
    """After so many of them the link gives up."""
    total: int = 0
    """Restarts ever; it never becomes less."""
    code: str = ""
    """Code of the error that halted it last; empty: it never did, or it was no error of ours."""
    reason: str = ""
    halted_ms: int = 0
    """When that was (wall clock of who drove it, for people)."""
    next_ms: int | None = None
    """When it begins again (the same clock)."""
    host: str = ""
    """Where it was driven."""

    @property
    def is_halted(self) -> bool:
        """Whether it has halted and not begun again."""
        return self.phase is not Phase.RUNS

    def halted(
        self, error: BaseException, now_ms: int, limit: int, host: str = ""
    ) -> RestartMemory:
        """Return what to remember of a link that halts now."""
        memory = replace(
            self,
            limit=limit,
            code=getattr(error, "code", ""),
            reason=words_of(error)[:REASON_CHARS_MAX],
            halted_ms=now_ms,
            next_ms=None,
            host=host,
        )
        if cure_of(error) is Cure.CONFIGURATION and limit:
            return replace(memory, phase=Phase.REFUSED)
        if self.count >= limit:
            return replace(memory, phase=Phase.GAVE_UP)
        return replace(
            memory,
            phase=Phase.WAITS,
            count=self.count + 1,
            next_ms=now_ms + round(pause_s(self.count) * 1000),
        )

    def tried(self) -> RestartMemory:
        """Return it for a link that is to begin again now; whether it runs then is not known."""
        return replace(self, total=self.total + 1, next_ms=None)

    def runs(self) -> RestartMemory:
        """Return it for a link that runs again."""
        return replace(self, phase=Phase.RUNS, next_ms=None)

    def quiet(self) -> RestartMemory:
        """Return it for a link that has run for long enough, or is told to begin again."""
        return replace(self, count=0)

    def text(self, now_ms: int) -> str:
        """Return how it goes on with a link that has halted."""
        match self.phase:
            case Phase.WAITS:
                return f"{self._when(now_ms)} (restart {self.count} of {self.limit})"
            case Phase.REFUSED:
                return "it begins again once its configuration has changed"
            case Phase.GAVE_UP if self.limit:
                return f"it has given up after {self.count} restarts: heliostat restart begins anew"
            case Phase.GAVE_UP:
                return "it does not begin again by itself (restarts.max is 0)"
            case _:
                return "it runs again"

    def _when(self, now_ms: int) -> str:
        if self.next_ms is None:
            return "it begins again now"
        left_ms = self.next_ms - now_ms
        if left_ms < -LATE_MS:
            return "it was to begin again, and no driver has done so"
        return f"it begins again {_in(left_ms / 1000)}"

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "phase": self.phase.value,
            "count": self.count,
            "limit": self.limit,
            "total": self.total,
            "code": self.code,
            "reason": self.reason,
            "halted_ms": self.halted_ms,
            "next_ms": self.next_ms,
            "host": self.host,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row.
        """
        next_ms = value["next_ms"]
        return cls(
            Phase(value["phase"]),
            int(value["count"]),
            int(value["limit"]),
            int(value["total"]),
            str(value["code"]),
            str(value["reason"])[:REASON_CHARS_MAX],
            int(value["halted_ms"]),
            None if next_ms is None else int(next_ms),
            str(value["host"]),
        )


def words_of(error: BaseException) -> str:
    """Return an error for people; one that is not ours with its type."""
    return str(error) if isinstance(error, HeliostatError) else f"{type(error).__name__}: {error}"


def _in(seconds: float) -> str:
    if seconds < 1:
        return "at once"
    return f"in {seconds:.0f} s" if seconds < 120 else f"in {seconds / 60:.0f} min"
