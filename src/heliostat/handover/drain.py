"""What still answers is copied before a failover: how long that is waited for; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from heliostat.names import TopicPartition
from heliostat.records.copier.lane import PartitionReport
from heliostat.status.lag import missing_records

QUIET_S = 10.0
"""Lanes report what moves each second: nothing has moved, though they have had the time to look for
new leaders and to give up dead connections."""


class DrainEnd(StrEnum):
    """Why waiting ended."""

    LEVEL = "level"
    """All partitions have what their source had."""
    NO_PROGRESS = "no_progress"
    """None that is behind has moved."""
    TIME_OVER = "time_over"
    """The time was over."""
    NO_DRIVER = "no_driver"
    """Nobody copies."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What waiting came to."""

    end: DrainEnd
    took_s: float
    records: int
    """Source offsets that were copied meanwhile."""
    behind: tuple[TopicPartition, ...]
    """Partitions that did not become level, or of which that is not known."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "end": self.end.value,
            "took_s": round(self.took_s, 3),
            "records": self.records,
            "behind": [str(place) for place in self.behind],
        }

    def text(self) -> str:
        """Return a line about it."""
        words = {
            DrainEnd.LEVEL: "all partitions became level",
            DrainEnd.NO_PROGRESS: f"nothing moved for {QUIET_S:.0f} s",
            DrainEnd.TIME_OVER: "the time was over",
            DrainEnd.NO_DRIVER: "no driver copies",
        }[self.end]
        more = f"; {len(self.behind):,} partitions are not level" if self.behind else ""
        return f"{words} after {self.took_s:.1f} s, {self.records:,} records were copied{more}"


class Drain:
    """Follows partitions until they are level, none moves, or the time is over. No I/O.

    Parameters
    ----------
    partitions
        What is waited for.
    within_s
        For how long.
    now_s
        When it begins.
    """

    def __init__(
        self, partitions: Collection[TopicPartition], within_s: float, now_s: float
    ) -> None:
        self._partitions = frozenset(partitions)
        self._began_s = self._moved_at_s = now_s
        self._until_s = now_s + within_s
        self._first: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._behind = self._partitions

    @property
    def records(self) -> int:
        """Source offsets that were copied so far."""
        return sum(position - self._first[place] for place, position in self._positions.items())

    def progress(self, now_s: float) -> str:
        """Return a line about how far it is."""
        return (
            f"after {now_s - self._began_s:.0f} s: {self.records:,} records copied, "
            f"{len(self._behind):,} of {len(self._partitions):,} partitions not level"
        )

    def look(
        self, reports: Iterable[PartitionReport], now_s: float, *, has_driver: bool
    ) -> Drained | None:
        """Take the newest report of each partition; return how it ended, None: it goes on."""
        behind = set(self._partitions)
        for item in reports:
            place = item.source
            if place not in self._partitions:
                continue
            if item.position >= 0:
                self._first.setdefault(place, item.position)
                if item.position > self._positions.get(place, -1):
                    self._positions[place], self._moved_at_s = item.position, now_s
            if item.is_known and not item.is_end_old and not missing_records(item):
                behind.discard(place)
        self._behind = frozenset(behind)
        end: DrainEnd | None = None
        if not behind:
            end = DrainEnd.LEVEL
        elif not has_driver:
            end = DrainEnd.NO_DRIVER
        elif now_s >= self._until_s:
            end = DrainEnd.TIME_OVER
        elif now_s >= self._moved_at_s + QUIET_S:
            end = DrainEnd.NO_PROGRESS
        if end is None:
            return None
        return Drained(end, now_s - self._began_s, self.records, tuple(sorted(behind)))
