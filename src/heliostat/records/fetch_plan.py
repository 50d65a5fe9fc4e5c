"""Which partitions of one source broker are fetched how: busy, watched in groups, or as a backlog.

A fetch that waits at the broker for thousands of partitions makes every append there look through
all of them, and an incremental fetch session costs more still (design, section 5). So few busy
partitions wait together, the many sparse ones are watched in small groups, each by a fetch that
waits on a connection of its own and goes out anew at a pace that costs the broker little, and those
that are far behind have connections of their own, so that live ones don't wait behind their bytes.
A group in which nothing happens costs nearly nothing; a record in it comes within milliseconds
(docs/adr/0009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliostat.names import BrokerId
from heliostat.records.lane import CopySettings
from heliostat.records.network import DIALS_AT_ONCE, LIVE, Channel, Traffic
from heliostat.records.partition_copy import PartitionCopy

REGROUP_EVERY_S = 1.0
SMOOTHING = 0.5
"""Weight of the last second in a partition's rate."""
STAYS_RATIO = 1.5
"""A partition stays among the busy unless another one is so much busier: until its group is watched
anew, which may take a second, nobody looks at one that has just left them."""
RATE_MIN = 0.2
"""Answers with records a second below which a partition is sparse."""
_FORGOTTEN_BELOW = 0.01
WATCHED_MAX = 64
"""Partitions in a group, while that needs no more than `WATCHES_MAX` connections to a broker."""
OPEN_WITHIN_S = 1.0
"""Connections for groups are open after this: a round is prepared in two seconds."""
WATCHES_MIN, WATCHES_MAX = 2, 128
LOOK_S_PER_PARTITION, LOOK_S = 5e-6, 200e-6
"""What an answer costs the broker: for each partition of the group, and for the request (measured,
docs/scale.md)."""
BROKER_SHARE = 0.25
"""Of one of the broker's cores, for the watches of one lane."""
BURST_S = 0.1
"""Of that share, as much as this may be used at once after a silence."""
WATCH_PACE_S_MIN = 0.02
"""Between two fetches of one group whose answer does not come."""


class WatchPace:
    """When a group may be watched anew: all groups of a broker together keep to a share of it."""

    def __init__(self) -> None:
        self.asked_ms: dict[Channel, int] = {}
        """Wall clock of the last fetch: what it has no news of was level then."""
        self._free_at_s = 0.0

    def began(self, channel: Channel, now_s: float, now_ms: int) -> float:
        """A fetch is sent; when the next one may follow if nothing is heard of this one."""
        self.asked_ms[channel] = now_ms
        return now_s + WATCH_PACE_S_MIN

    def ended(self, partitions: int, now_s: float) -> float:
        """It was answered; when the next one of the group may go (monotonic seconds)."""
        cost_s = (LOOK_S + LOOK_S_PER_PARTITION * partitions) / BROKER_SHARE
        self._free_at_s = max(self._free_at_s, now_s - BURST_S) + cost_s
        return max(now_s, self._free_at_s)


class FetchPlan:
    """Groups of the partitions that one source broker leads for a lane.

    Parameters
    ----------
    items
        All of them.
    live_max
        How many are busy at most.
    backlog_slots
        Connections over which those far behind are spread.
    watches_max
        Groups at most.
    """

    def __init__(
        self,
        items: Sequence[PartitionCopy],
        *,
        live_max: int,
        backlog_slots: int,
        watches_max: int = WATCHES_MAX,
    ) -> None:
        self.pace = WatchPace()
        self._live_max = live_max
        self.items = list(items)
        self._items = {item.index: item for item in items}
        group = max(WATCHED_MAX, -(-len(items) // watches_max))
        self._watch = {
            item.index: Channel(Traffic.SPARSE, place // group) for place, item in enumerate(items)
        }
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
        """Partitions by channel, none empty."""
        if self._is_stale:
            self._is_stale = False
            self._groups = self._grouped()
        return self._groups

    @property
    def channels(self) -> set[Channel]:
        """Those that are in use, and the one of busy partitions, which are found soon."""
        return {LIVE, *self.groups}

    def channel_of(self, index: int) -> Channel:
        """Where a partition is fetched now."""
        if index in self._behind:
            return Channel(Traffic.BACKLOG, index % self._slots)
        return LIVE if index in self._live else self._watch[index]

    def watched(self, channel: Channel, now_s: float) -> float:
        """A group was answered; when it may be watched anew."""
        return self.pace.ended(len(self.groups.get(channel, ())), now_s)

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
        """Decide anew, if a second has passed, who is busy."""
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
        return groups


def watches_for(open_s: float) -> int:
    """How many groups there may be at one broker where a connection takes so long to open."""
    return max(
        WATCHES_MIN, min(WATCHES_MAX, int(DIALS_AT_ONCE * OPEN_WITHIN_S / max(open_s, 1e-3)))
    )


def lines_of(plans: Mapping[BrokerId, FetchPlan]) -> set[tuple[BrokerId, Channel]]:
    """Connections that are needed."""
    return {(broker, channel) for broker, plan in plans.items() for channel in plan.channels}


def make_plans(
    partitions: Sequence[PartitionCopy],
    leaders: Mapping[int, BrokerId],
    before: Mapping[BrokerId, FetchPlan],
    settings: CopySettings,
    watches_max: int = WATCHES_MAX,
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
                watches_max=watches_max,
            )
        plans[broker] = known
    return plans
