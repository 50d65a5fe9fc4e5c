"""Names partitions that move nothing though records are missing, and for no reason told; pure.

A partition that waits says why: it is paused, stopped or retried, or a transaction is open. One
that says it copies, whose lane reports, and that moves nothing for a minute while it lags, is a
fault of ours or of a broker that nobody else notices: a rate of nothing looks like a quiet topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.status.lag import missing_records

AFTER_S = 60.0
"""Longer than lanes leave a partition unreported, than a broker fails over, and than a request may
take."""
NAMED_MAX = 20
_MOVING = (PartitionState.COPYING, PartitionState.ALIGNING)
"""States that need no reason."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """A partition that lags and has not moved."""

    source: TopicPartition
    position: int
    """Next source offset to copy."""
    target_end: int
    """Where its mirror ends: that moves also while records are appended that count as none."""
    since_ms: int
    """When it was first reported there, and lagging, by its lane's clock."""
    seen_ms: int
    """When it was last."""
    missing: int
    """Records that are missing."""

    def text(self) -> str:
        """Return a line about it."""
        seconds = (self.seen_ms - self.since_ms) / 1000
        return (
            f"{self.source} has not moved for {seconds:.0f} s at source offset {self.position:,}, "
            f"though {self.missing:,} records are missing: its lane reports, and tells no reason"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for the driver's report."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "position": self.position,
            "target_end": self.target_end,
            "since_ms": self.since_ms,
            "seen_ms": self.seen_ms,
            "missing": self.missing,
        }


def standstill_of(row: Mapping[str, Any]) -> Standstill:
    """Return one of a driver's report."""
    return Standstill(
        TopicPartition(TopicName(row["topic"]), PartitionId(row["partition"])),
        row["position"],
        row["target_end"],
        row["since_ms"],
        row["seen_ms"],
        row["missing"],
    )


class ProgressWatch:
    """Takes partitions' reports in their order. Not thread-safe."""

    def __init__(self) -> None:
        self._standing: dict[TopicPartition, Standstill] = {}

    def take(self, item: PartitionReport, at_ms: int) -> None:
        """Take the newest report of a partition."""
        source = item.source
        if not item.is_known and item.state in {*_MOVING, PartitionState.STARTING}:
            return  # a new round looks where it stands: that is no progress yet
        missing = missing_records(item)
        if not missing or item.code or item.state not in _MOVING:
            self._standing.pop(source, None)
            return
        standstill = self._standing.get(source)
        if standstill is None or (standstill.position, standstill.target_end) != (
            item.position,
            item.target_end,
        ):
            here = (source, item.position, item.target_end, at_ms, at_ms, missing)
            self._standing[source] = Standstill(*here)
        else:
            self._standing[source] = replace(standstill, seen_ms=at_ms, missing=missing)

    def keep(self, sources: Collection[TopicPartition]) -> None:
        """Forget all others: they are not copied any more."""
        if self._standing.keys() - sources:
            kept = {
                source: standstill
                for source, standstill in self._standing.items()
                if source in sources
            }
            self._standing = kept

    def found(self) -> list[Standstill]:
        """Return those that stand for too long, the longest first."""
        standstills = (
            standstill
            for standstill in self._standing.values()
            if standstill.seen_ms - standstill.since_ms >= AFTER_S * 1000
        )
        return sorted(
            standstills, key=lambda standstill: (standstill.since_ms, str(standstill.source))
        )


def report_of(standstills: Iterable[Standstill]) -> dict[str, Any]:
    """Return them for the driver's report, which is written each second."""
    every = list(standstills)
    return {
        "count": len(every),
        "partitions": [standstill.to_json() for standstill in every[:NAMED_MAX]],
    }


def reported(driver: Mapping[str, Any]) -> list[Standstill]:
    """Return those that a driver's report names."""
    return [standstill_of(row) for row in driver.get("no_progress", {}).get("partitions", ())]
