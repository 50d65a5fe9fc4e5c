"""What a lane is told of limits and priorities, and what it tells of them: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from heliostat.names import TopicName


class Priority(StrEnum):
    """Class of a topic: chosen ones keep their latency while others catch up."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class ByteLimits:
    """Limits of a link, or a lane's shares of them: bytes a second, as read from the source."""

    link: int = 0
    """0: the link has no limit."""
    topics: tuple[tuple[TopicName, int], ...] = ()
    """Of topics with a limit of their own; of a lane, those that it has partitions of."""


NO_LIMITS = ByteLimits()


class LimitUse(NamedTuple):
    """What a lane has used of one limit since its round began."""

    topic: TopicName | None
    """None: the link's."""
    bytes: int
    throttled_ms: int
    """How long it has held fetches back."""
