"""What is wrong with lanes, partitions and transactions of a link, and what its end is told as."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heliostat.names import LaneId


@dataclass(frozen=True, slots=True)
class Alarm:
    """One such thing."""

    text: str
    ended: str
    """What is told once it is over."""
    lane: LaneId | None = None
    """The lane that it is about, if it is about one."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """Those of a link that runs, each under its own key."""

    by_key: Mapping[str, Alarm]
    lanes: Collection[LaneId]
    """All lanes that its driver runs."""

    def end_of(self, alarm: Alarm) -> str:
        """Return what is told of an alarm that is not among these any more."""
        if alarm.lane is not None and alarm.lane not in self.lanes:
            return f"there is no lane {alarm.lane} any more: others have its partitions"
        return alarm.ended
