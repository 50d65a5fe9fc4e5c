"""Which partitions of one source broker are fetched how: waiting, swept, or as a backlog.

A fetch that waits at the broker for thousands of partitions makes every append there look through
all of them, and an incremental fetch session costs more still (design, section 5). So few busy
partitions wait, the many sparse ones are swept at a pace that costs the broker little, and those
that are far behind have connections of their own, so that live ones don't wait behind their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.names import BrokerId
from heliostat.records.lane import CopySettings
from heliostat.records.network import LIVE, SPARSE, Channel, Traffic
from heliostat.records.partition_copy import PartitionCopy

REGROUP_EVERY_S = 1.0
SMOOTHING = 0.5
"""Weight of the last second in a partition's rate."""
STAYS_RATIO = 1.5
"""A partition waits on unless another one is so much busier: moving rebuilds the sweep."""
RATE_MIN = 0.2
"""Answers with records a second below which a partition is sparse."""
_FORGOTTEN_BELOW = 0.01
SWEEP_REST_RATIO = 3.0
"""A sweep rests so many times as long as its answer took: a quarter of a core of the broker's."""
SWEEP_S, SWEEP_SLOWER_MAX = 0.02, 1.5
"""How long the first one is thought to take, and how much slower than the last one may count: one
that was held up by something else must not hold up the next."""
SWEEP_PACE_S_MIN, SWEEP_PACE_S_MAX = 0.02, 1.0
SWEEP_FULL_BYTES = 8 * 1024 * 1024
"""After an answer so large the next sweep does not rest."""


class SweepPace:
    """When the next sweep of one broker may go: it rests in proportion to what it takes."""

    def __init__(self) -> None:
        self.at_ms = -1
        """Wall clock of the last sweep, for what it had no news of."""
        self._sent_at_s = 0.0
        self._took_s = SWEEP_S

    def began(self, now_s: float, now_ms: int) -> float:
        """A sweep is sent; when the next one may follow if nothing is heard of this one."""
        self._sent_at_s, self.at_ms = now_s, now_ms
        return now_s + SWEEP_PACE_S_MIN

    def ended(self, answer_bytes: int, now_s: float) -> float:
        """It was answered; when the next one may go (monotonic seconds)."""
        self._took_s = min(now_s - self._sent_at_s, SWEEP_SLOWER_MAX * self._took_s)
        if answer_bytes >= SWEEP_FULL_BYTES:
            return now_s
        pace_s = min(SWEEP_PACE_S_MAX, max(SWEEP_PACE_S_MIN, self._took_s * SWEEP_REST_RATIO))
        return now_s + pace_s


class FetchPlan:
    """Groups of the partitions that one source broker leads for a lane.

    Parameters
    ----------
    items
        All of them.
    live_max
        How many wait together at most.
    backlog_slots
        Connections over which those far behind are spread.
    """

    def __init__(
        self, items: Sequence[PartitionCopy], *, live_max: int, backlog_slots: int
    ) -> None:
        self.sweep = SweepPace()
        self._live_max = live_max
        self.items = list(items)
        self._items = {item.index: item for item in items}
        self._slots = backlog_slots
        self._behind: set[int] = set()
        self._live: set[int] = set(self._items if len(items) <= live_max else ())
        self._hits: dict[int, int] = {}
        self._rates: dict[int, float] = {}
        self._regroup_at_s = 0.0
        self._groups: dict[Channel, list[PartitionCopy]] = {}
        self._is_stale = True

    @property
    def groups(self) -> dict[Channel, list[PartitionCopy]]:
        """Partitions by channel, none empty.

        A sweep is of all of them, to be muted where they are fetched otherwise: its request stays
        the same then, and to make one of thousands takes as long as ten sweeps.
        """
        if self._is_stale:
            self._is_stale = False
            self._groups = self._grouped()
        return self._groups

    def channel_of(self, index: int) -> Channel:
        """Where a partition is fetched now."""
        if index in self._behind:
            return Channel(Traffic.BACKLOG, index % self._slots)
        return LIVE if index in self._live else SPARSE

    def judge(self, index: int, lag: int, got_bytes: int, wanted_bytes: int) -> None:
        """Take note of an answer: how busy a partition is, and whether it is far behind."""
        if got_bytes:
            self.saw_records(index, is_behind=lag > 0 and got_bytes * 2 >= wanted_bytes)
        if lag <= 0 or 0 < got_bytes * 4 < wanted_bytes:
            self.caught_up(index)

    def saw_records(self, index: int, *, is_behind: bool) -> None:
        """An answer held records of a partition, and whether more are left than one holds."""
        self._hits[index] = self._hits.get(index, 0) + 1
        if is_behind and index not in self._behind:
            self._behind.add(index)
            self._is_stale = True

    def caught_up(self, index: int) -> None:
        """An answer held the last that there was of a partition."""
        if index in self._behind:
            self._behind.remove(index)
            self._is_stale = True

    def regroup(self, now_s: float) -> None:
        """Decide anew, if a second has passed, who waits and who is swept."""
        passed_s = now_s - self._regroup_at_s
        if passed_s < REGROUP_EVERY_S:
            return
        self._regroup_at_s = now_s
        for index in {*self._rates, *self._hits}:
            now = self._hits.get(index, 0) / min(passed_s, 10.0)
            before = self._rates.get(index, now)
            rate = SMOOTHING * now + (1 - SMOOTHING) * before
            if rate < _FORGOTTEN_BELOW:
                self._rates.pop(index, None)
            else:
                self._rates[index] = rate
        self._hits.clear()
        if len(self._items) - len(self._behind) <= self._live_max:
            live = set(self._items)
        else:
            live = self._busiest()
        if live != self._live:
            self._live = live
            self._is_stale = True

    def _busiest(self) -> set[int]:
        rated = [
            (rate * (STAYS_RATIO if index in self._live else 1.0), index)
            for index, rate in self._rates.items()
            if rate >= RATE_MIN and index not in self._behind
        ]
        rated.sort(reverse=True)
        return {index for _, index in rated[: self._live_max]}

    def _grouped(self) -> dict[Channel, list[PartitionCopy]]:
        groups: dict[Channel, list[PartitionCopy]] = {}
        for index, item in self._items.items():
            groups.setdefault(self.channel_of(index), []).append(item)
        if SPARSE in groups:
            groups[SPARSE] = self.items
        return groups


def make_plans(
    partitions: Sequence[PartitionCopy],
    leaders: Mapping[int, BrokerId],
    before: Mapping[BrokerId, FetchPlan],
    settings: CopySettings,
) -> dict[BrokerId, FetchPlan]:
    """A plan for each source broker; one of those `before` where it leads the same partitions."""
    led: dict[BrokerId, list[PartitionCopy]] = {}
    for item in partitions:
        broker = leaders.get(item.index)
        if broker is not None:
            led.setdefault(broker, []).append(item)
    plans: dict[BrokerId, FetchPlan] = {}
    for broker, items in led.items():
        known = before.get(broker)
        if known is None or known.items != items:
            known = FetchPlan(
                items,
                live_max=settings.live_partitions_max,
                backlog_slots=settings.backlog_connections,
            )
        plans[broker] = known
    return plans
