"""Divides a link's limits among its lanes, by what each has used; no threads, no I/O.

A lane that was held back gets what others leave, and one that needs less keeps a half more than it
used. Shares always add up to the limit, so that lanes together never exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from heliostat.names import LaneId, TopicName
from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits, LimitUse

SPARE = 1.5
"""A lane gets so much more than it used, and learns within a second or two whether it is enough."""
LEAST = 0.1
"""Part of an equal share that each lane has at least: from it a lane shows that it needs more."""
SHORT_SHARE = 0.1
"""A lane that was held back for this part of the time needs more."""
LEARN_S = 0.5
"""Shortest time between two reports by which a lane is judged."""


class Need(NamedTuple):
    """What a lane has used of a limit lately."""

    bytes_per_s: float
    is_short: bool
    """Whether it was held back."""


def shares(limit: int, needs: Mapping[LaneId, Need | None]) -> dict[LaneId, int]:
    """Return each lane's part of a limit; None: nothing is known of it yet.

    Those that need least are served first, and the others share the rest equally.
    """
    if not needs:
        return {}
    least = limit / len(needs) * LEAST
    wanted = {
        lane: math.inf if need is None or need.is_short else max(least, need.bytes_per_s * SPARE)
        for lane, need in needs.items()
    }
    left, given = float(limit), dict[LaneId, float]()
    for place, lane in enumerate(sorted(wanted, key=lambda lane: (wanted[lane], lane))):
        given[lane] = min(wanted[lane], left / (len(wanted) - place))
        left -= given[lane]
    return {lane: max(1, int(share + left / len(given))) for lane, share in given.items()}


@dataclass(slots=True)
class _Report:
    """What a round said last of one limit."""

    round_id: tuple[int, int]
    use: LimitUse
    at_s: float
    need: Need | None = None


@dataclass(slots=True)
class _Sum:
    """What all lanes have used of one limit since the driver began."""

    bytes: int = 0
    throttled_ms: int = 0


class LimitShares:
    """The limits of a link, and what its lanes have used of them. Not thread-safe."""

    def __init__(self) -> None:
        self.limits = NO_LIMITS
        self._reports: dict[tuple[LaneId, TopicName | None], _Report] = {}
        self._sums: dict[TopicName | None, _Sum] = {}

    def become(self, limits: ByteLimits) -> bool:
        """Change the limits; return whether they were others before."""
        is_new, self.limits = limits != self.limits, limits
        kept: set[TopicName | None] = {topic for topic, _ in limits.topics}
        kept |= {None} if limits.link else set()
        self._reports = {key: each for key, each in self._reports.items() if key[1] in kept}
        self._sums = {topic: each for topic, each in self._sums.items() if topic in kept}
        return is_new

    def reported(self, report: RoundReport, now_s: float) -> None:
        """Take what a round has used since it began."""
        lane, round_id = report.lane, (report.generation, report.round_number)
        for use in report.limits:
            known = self._reports.get((lane, use.topic))
            if known is None or known.round_id != round_id or known.use.bytes > use.bytes:
                # What was used before the first report is not known to be recent.
                self._reports[lane, use.topic] = _Report(round_id, use, now_s)
                continue
            passed_s = now_s - known.at_s
            if passed_s < LEARN_S:
                continue
            used = use.bytes - known.use.bytes
            held_ms = max(0, use.throttled_ms - known.use.throttled_ms)
            total = self._sums.setdefault(use.topic, _Sum())
            total.bytes += used
            total.throttled_ms += held_ms
            need = Need(used / passed_s, held_ms >= SHORT_SHARE * 1000 * passed_s)
            self._reports[lane, use.topic] = _Report(round_id, use, now_s, need)

    def of(self, topics: Mapping[LaneId, Collection[TopicName]]) -> dict[LaneId, ByteLimits]:
        """Return the limits of each lane, given which topics it has."""
        limits = self.limits
        if limits == NO_LIMITS:
            return dict.fromkeys(topics, NO_LIMITS)
        link = self._divided(None, limits.link, topics) if limits.link else {}
        own: dict[LaneId, list[tuple[TopicName, int]]] = {lane: [] for lane in topics}
        for topic, limit in limits.topics:
            having = [lane for lane, names in topics.items() if topic in names]
            for lane, share in self._divided(topic, limit, having).items():
                own[lane].append((topic, share))
        return {lane: ByteLimits(link.get(lane, 0), tuple(each)) for lane, each in own.items()}

    def _divided(
        self, topic: TopicName | None, limit: int, lanes: Collection[LaneId]
    ) -> dict[LaneId, int]:
        reports = {lane: self._reports.get((lane, topic)) for lane in lanes}
        needs = {lane: None if each is None else each.need for lane, each in reports.items()}
        return shares(limit, needs)

    def report(self) -> list[dict[str, object]]:
        """Return what was used of each limit, for the driver's report."""
        limits: list[TopicName | None] = [None] if self.limits.link else []
        limits += [topic for topic, _ in self.limits.topics]
        return [
            {
                "topic": topic,
                "used_bytes_per_second": round(
                    sum(
                        each.need.bytes_per_s
                        for (_, name), each in self._reports.items()
                        if name == topic and each.need is not None
                    )
                ),
                "throttled_s": round(self._sums.get(topic, _Sum()).throttled_ms / 1000, 1),
            }
            for topic in limits
        ]
