"""Decides how each partition of a source broker is fetched: busy, sparse, or backlog.

A fetch that waits at the broker for thousands of partitions makes every append there look through
all of them, and an incremental fetch session costs even more (docs/adr/0009). So partitions are
watched in groups, each by a fetch that waits on a connection of its own and is sent again at a pace
that costs the broker little; compiled code finds the few with news in an answer. Sparse partitions
are in many small groups: an idle group costs nearly nothing, and a new record arrives within
milliseconds. Busy partitions are in a few groups of their own: each response brings records of many
of them. Partitions that lag far have connections of their own, so that live ones don't queue after
their bytes (docs/adr/0011).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from heliostat.names import BrokerId
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.line_fit import LineFit
from heliostat.records.copier.network import DIALS_AT_ONCE, Channel, Traffic
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase

REGROUP_EVERY_S = 1.0
RATE_MEMORY_S = 10.0
"""Time constant of the average that a rate is."""
BUSY_FROM, BUSY_TO = 0.5, 0.2
"""Responses with records per second at which a partition becomes busy, and below which it stops
being busy. A record of a sparse partition costs a response of its group; a busy partition costs a
look at it about every 15 ms. Both cost the same at about 0.5 records a second."""
BUSY_GROUPS = 2
"""At most, for one broker and lane: the fewer, the more records a response brings, for the same
looks at partitions. With four the lanes took a tenth more processor time, and latency was the same
(`bench/compare efd --rate 2200`, 2026-11-25)."""
_FORGOTTEN_BELOW = 0.01
USUAL = 0
SET_SLOTS = 1000
"""Numbers of connections of one kind that each set of partitions has (`LaneBuckets`)."""
NO_SETS: Mapping[int, int] = {}
WATCHED_MAX = 64
"""Partitions in a group, while that needs no more than `WATCHES_MAX` connections to a broker."""
OPEN_WITHIN_S = 1.0
"""Within this the connections for groups must be open: a round is prepared in two seconds."""
WATCHES_MIN, WATCHES_MAX = 2, 128
LOOK_S_PER_PARTITION, LOOK_S = 5e-6, 200e-6
"""Broker CPU of a response: per partition of the group, and per request (measured,
docs/scale.md)."""
BROKER_SHARE = 0.3
"""Share of one broker core that the watches of one lane may use. With it, and two busy groups,
2,200 records a second in 4,846 partitions cost both brokers as much as with MirrorMaker 2."""
BURST_S = 0.1
"""After silence, so many seconds of that share may be used at once."""
WATCH_PACE_S_MIN = 0.02
"""Between two fetches of a group while no response comes."""


class WatchPace:
    """Paces the fetches of groups: all groups of a broker together keep to a share of its CPU."""

    def __init__(self) -> None:
        self.asked_ms: dict[Channel, int] = {}
        """Wall clock of the last fetch: partitions without new records had none at that time."""
        self._free_at_s = 0.0

    def began(self, channel: Channel, now_s: float, now_ms: int) -> float:
        """Note a fetch; return when the next may be sent if this one stays unanswered."""
        self.asked_ms[channel] = now_ms
        return now_s + WATCH_PACE_S_MIN

    def ended(self, partitions: int, now_s: float) -> float:
        """Note a response; return when the group's next fetch may be sent (monotonic seconds)."""
        cost_s = (LOOK_S + LOOK_S_PER_PARTITION * partitions) / BROKER_SHARE
        self._free_at_s = max(self._free_at_s, now_s - BURST_S) + cost_s
        return max(now_s, self._free_at_s)


class RecordRates:
    """Answers with records, a second and partition: an average over `RATE_MEMORY_S`.

    Parameters
    ----------
    known
        Rates by index, as known from earlier rounds.
    """

    def __init__(self, known: Mapping[int, float]) -> None:
        self._rates = dict(known)
        self._hits: dict[int, int] = {}
        self._learned_s = RATE_MEMORY_S if known else 0.0

    @property
    def known(self) -> Mapping[int, float]:
        """The rates by index."""
        return self._rates

    def saw_records(self, index: int) -> None:
        """Count an answer that held records of a partition."""
        self._hits[index] = self._hits.get(index, 0) + 1

    def busy(self, before: Collection[int]) -> set[int]:
        """Return the busy partitions, given those that were busy before."""
        return {
            index
            for index, rate in self._rates.items()
            if rate >= (BUSY_TO if index in before else BUSY_FROM)
        }

    def learn(self, passed_s: float) -> None:
        """Take in what was counted in the last `passed_s` seconds; at first all of it."""
        self._learned_s += passed_s
        weight = max(passed_s / self._learned_s, 1.0 - math.exp(-passed_s / RATE_MEMORY_S))
        for index in {*self._rates, *self._hits}:
            before = self._rates.get(index, 0.0)
            rate = before + weight * (self._hits.get(index, 0) / passed_s - before)
            if rate < _FORGOTTEN_BELOW:
                self._rates.pop(index, None)
            else:
                self._rates[index] = rate
        self._hits.clear()


class Learnt(NamedTuple):
    """What a plan has learnt of a broker's partitions."""

    pace: WatchPace
    rates: Mapping[int, float]
    busy: AbstractSet[int] = frozenset()
    behind: AbstractSet[int] = frozenset()
    line: LineFit | None = None


class FetchPlan:
    """Groups the partitions of a lane that one source broker leads.

    Parameters
    ----------
    items
        The partitions.
    line
        How far the broker is.
    sets
        Partitions that are fetched apart, by index, see `LaneBuckets.sets`.
    watches_max
        Largest number of groups of sparse partitions.
    known
        What is known of them from earlier rounds, or from the broker's plan so far.
    """

    def __init__(
        self,
        items: Sequence[PartitionCopy],
        *,
        line: LineFit,
        sets: Mapping[int, int] = NO_SETS,
        watches_max: int = WATCHES_MAX,
        known: Learnt | None = None,
    ) -> None:
        known = known or Learnt(WatchPace(), {})
        self.pace = known.pace
        self.items = list(items)
        self._items = {item.index: item for item in items}
        size = max(WATCHED_MAX, -(-len(items) // watches_max))
        self.sets = {item.index: sets[item.index] for item in items if item.index in sets}
        self._watch: dict[int, Channel] = {}
        self._busy_watch: dict[int, Channel] = {}
        by_set: dict[int, list[PartitionCopy]] = {}
        for item in items:
            by_set.setdefault(self.sets.get(item.index, USUAL), []).append(item)
        for number, some in by_set.items():
            self._spread(some, number * SET_SLOTS, size)
        self.line = line
        self._slots = line.connections
        self._behind = set(known.behind & self._items.keys())
        rates = {index: known.rates[index] for index in self._items if index in known.rates}
        self._rates = RecordRates(rates)
        self._busy = self._rates.busy(known.busy)
        self._leaving: set[int] = set()
        """Were busy until lately: the last fetch of their sparse group may have left them out."""
        self._regroup_at_s: float | None = None
        self._groups: dict[Channel, list[PartitionCopy]] = {}
        self._is_stale = True

    def _spread(self, items: Sequence[PartitionCopy], slot: int, size: int) -> None:
        """Put partitions into groups whose connections are numbered from `slot` on."""
        sparse = -(-len(items) // size)
        busy = min(BUSY_GROUPS, sparse)
        for place, item in enumerate(items):
            self._watch[item.index] = Channel(Traffic.SPARSE, slot + place // size)
            # Neighbors are mostly of one topic and equally busy: spread them over the groups.
            self._busy_watch[item.index] = Channel(Traffic.SPARSE, slot + sparse + place % busy)

    @property
    def learnt(self) -> Learnt:
        """What is known of the partitions, for a plan with others."""
        return Learnt(self.pace, self._rates.known, self._busy, self._behind, self.line)

    @property
    def groups(self) -> dict[Channel, list[PartitionCopy]]:
        """Partitions by channel, none empty."""
        if self._is_stale:
            self._is_stale = False
            before, now = self._groups, self._grouped()
            # A group that stays the same stays the same list: its request is not made again.
            self._groups = {
                channel: before[channel] if before.get(channel) == items else items
                for channel, items in now.items()
            }
        return self._groups

    @property
    def channels(self) -> set[Channel]:
        """Channels in use, and those that partitions found to be busy will need."""
        return {*self._busy_watch.values(), *self.groups}

    def channel_of(self, index: int) -> Channel:
        """Return the channel on which a partition is fetched now."""
        if index in self._behind:
            slot = self.sets.get(index, USUAL) * SET_SLOTS if self.sets else 0
            return Channel(Traffic.BACKLOG, slot + index % self._slots)
        return self._busy_watch[index] if index in self._busy else self._watch[index]

    def is_busy(self, index: int) -> bool:
        """Whether new records of it are expected at any moment."""
        return index in self._busy

    def watched(self, channel: Channel, now_s: float) -> float:
        """Note a group's response; return when its next fetch may be sent."""
        return self.pace.ended(len(self.groups.get(channel, ())), now_s)

    def judge(
        self, index: int, lag: int, got_bytes: int, wanted_bytes: int, *, is_cut: bool = False
    ) -> None:
        """Take in a response: how busy a partition is, and whether it lags far.

        `is_cut`: it had a limit for all its partitions together, so that a short one tells nothing.

        One without the records that it says are there had no room for them: a batch above the limit
        is returned only for the first partition with data (KIP-74), which in a group is another.
        """
        if got_bytes:
            self.saw_records(index, is_behind=lag > 0 and got_bytes * 2 >= wanted_bytes)
        elif lag > 0:
            self._fell_behind(index)
        if lag <= 0 or (0 < got_bytes * 4 < wanted_bytes and not is_cut):
            self.caught_up(index)

    def saw_records(self, index: int, *, is_behind: bool) -> None:
        """Count a response with records, and note whether more are left than a response holds."""
        self._rates.saw_records(index)
        if is_behind:
            self._fell_behind(index)

    def _fell_behind(self, index: int) -> None:
        if index not in self._behind:
            self._behind.add(index)
            self._is_stale = True

    def line_bytes(self, index: int, asked: int, took_s: float, *, is_full: bool) -> int:
        """Note how long a partition's answer took; return what its next fetch asks for at least.

        0 unless it is far behind: other fetches are to be answered soon.
        """
        self.line.answered(took_s)
        if self._slots != self.line.connections:
            self._slots = self.line.connections
            self._is_stale = True
        if index not in self._behind:
            return 0
        return self.line.wanted_bytes(asked, took_s, len(self._behind)) if is_full else asked

    def caught_up(self, index: int) -> None:
        """Note that a response held the last records that the source had."""
        if index in self._behind:
            self._behind.remove(index)
            self._is_stale = True

    def regroup(self, now_s: float) -> None:
        """Decide again which partitions are busy, once a second."""
        if self._regroup_at_s is None:
            self._regroup_at_s = now_s
        passed_s = now_s - self._regroup_at_s
        if passed_s < REGROUP_EVERY_S:
            return
        self._regroup_at_s = now_s
        self._rates.learn(passed_s)
        busy = self._rates.busy(self._busy)
        leaving = self._busy - busy
        if (busy, leaving) != (self._busy, self._leaving):
            self._busy, self._leaving = busy, leaving
            self._is_stale = True

    def _grouped(self) -> dict[Channel, list[PartitionCopy]]:
        groups: dict[Channel, list[PartitionCopy]] = {}
        for index, item in self._items.items():
            groups.setdefault(self.channel_of(index), []).append(item)
            if index in self._leaving and index not in self._behind:
                groups.setdefault(self._busy_watch[index], []).append(item)
        return groups


def watches_for(open_s: float) -> int:
    """Return how many groups one broker may have, given how long a connection takes to open."""
    return max(
        WATCHES_MIN, min(WATCHES_MAX, int(DIALS_AT_ONCE * OPEN_WITHIN_S / max(open_s, 1e-3)))
    )


def channels_of(plans: Mapping[BrokerId, FetchPlan]) -> set[tuple[BrokerId, Channel]]:
    """Return the connections that these plans need."""
    return {(broker, channel) for broker, plan in plans.items() for channel in plan.channels}


def make_plans(
    partitions: Sequence[PartitionCopy],
    leaders: Mapping[int, BrokerId],
    before: Mapping[BrokerId, FetchPlan],
    settings: CopySettings,
    *,
    sets: Mapping[int, int] = NO_SETS,
    watches_max: int = WATCHES_MAX,
    rates: Mapping[int, float] | None = None,
) -> dict[BrokerId, FetchPlan]:
    """Return a plan per source broker; its plan `before` where it leads the same partitions."""
    led: dict[BrokerId, list[PartitionCopy]] = {}
    for item in partitions:
        broker = leaders.get(item.index)
        if broker is not None and item.phase is not Phase.GIVEN_UP:
            led.setdefault(broker, []).append(item)
    plans: dict[BrokerId, FetchPlan] = {}
    for broker, items in led.items():
        plan = before.get(broker)
        own = {item.index: sets[item.index] for item in items if item.index in sets}
        if plan is None or plan.items != items or plan.sets != own:
            told = rates or {}
            known = Learnt(WatchPace(), told) if plan is None else plan.learnt
            plan = FetchPlan(
                items,
                line=known.line or LineFit(settings),
                sets=sets,
                watches_max=watches_max,
                known=known._replace(rates={**told, **known.rates}),
            )
        plans[broker] = plan
    return plans
