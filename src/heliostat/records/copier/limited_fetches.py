"""Which fetches of a lane may be sent within its limits, and whose answers come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from heliostat.clusters.wire.scan import END, NEWS, START
from heliostat.records.copier.fetch_plan import SET_SLOTS, USUAL, FetchPlan
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.lane_buckets import HIGH, UNLIMITED, LaneBuckets, whole_bytes
from heliostat.records.copier.lane_limits import ByteLimits, LimitUse
from heliostat.records.copier.network import Channel, Event, Fetched, GroupAnswer, Watched
from heliostat.records.copier.partition_copy import PartitionCopy

FOR_HIGH_SHARE = 4
"""One part in so many of a lane's memory is for partitions of high priority, if it has any."""


class LimitedFetches:
    """The limits and priorities of one lane's fetches.

    Parameters
    ----------
    lane
        Specification of the round.
    partitions
        Partitions of the lane, by index.
    now_s
        Monotonic seconds.
    """

    def __init__(self, lane: LaneSpec, partitions: Sequence[PartitionCopy], now_s: float) -> None:
        self._partitions = partitions
        self._limits = lane.limits
        self._buckets = LaneBuckets(lane.limits, now_s)
        self._for_high_bytes = lane.settings.lane_queued_bytes_max // FOR_HIGH_SHARE
        self.plan_of: Mapping[int, FetchPlan] = {}
        """See `FetchSchedule`."""

    @property
    def are_any(self) -> bool:
        """Whether anything is limited."""
        return self._buckets.are_any

    @property
    def has_high(self) -> bool:
        """Whether partitions of high priority are in the lane."""
        return self._buckets.has_high

    def become(self, limits: ByteLimits | None, now_s: float) -> bool:
        """Change the limits; return whether they are others than before. None: not known yet."""
        if limits is None or limits is self._limits:
            return False
        self._limits = limits
        return self._buckets.become(limits, now_s)

    def sets(self) -> dict[int, int]:
        """Return which partitions are fetched apart, see `LaneBuckets.sets`."""
        return self._buckets.sets(self._partitions)

    def plan(self, plan_of: Mapping[int, FetchPlan]) -> list[int]:
        """Note the fetch plans; return which partitions ask for more, or for less, from now on."""
        self.plan_of = plan_of
        changed: list[int] = []
        for index, plan in plan_of.items():
            size, number = self._partitions[index].fetches.size, plan.sets.get(index, USUAL)
            most = self._buckets.answer_bytes(number, is_far=plan.line.is_far)
            if size.most != most:
                size.most = most
                changed.append(index)
        return changed

    # -- sending -------------------------------------------------------------------------------

    def free_at_s(self, channel: Channel) -> float:
        """Return from when on (s) limits let a connection fetch."""
        return self._buckets.free_at_s(channel.slot // SET_SLOTS)

    def answer_bytes(self, channel: Channel, *, is_far: bool) -> int:
        """Return how much the answer to a connection's fetch may hold; 0: as usual."""
        if self._buckets.is_usual:
            return UNLIMITED
        return self._buckets.answer_bytes(channel.slot // SET_SLOTS, is_far=is_far)

    def sends_with(self, room_bytes: int) -> Callable[[Channel], bool] | None:
        """Return which connections may fetch while the memory has so much room; None: all."""
        is_short = self._buckets.has_high and room_bytes < self._for_high_bytes
        return _is_high if is_short else None

    # -- answers -------------------------------------------------------------------------------

    def came(self, event: Fetched, now_s: float) -> None:
        """Count what an answer holds of a partition, if anything is limited."""
        if self._buckets.are_any and event.end > event.start:
            plan = self.plan_of.get(event.want.index)
            number = USUAL if plan is None else plan.sets.get(event.want.index, USUAL)
            size = whole_bytes(event.buffer, event.start, event.end)
            self._buckets.take(number, size, now_s)

    def group_came(self, answer: GroupAnswer, left: Sequence[int], now_s: float) -> None:
        """Count what compiled code has taken of a group's answer, if anything is limited."""
        if self._buckets.are_any and answer.news:
            sizes = answer.rows[:, END] - answer.rows[:, START]
            size = int(sizes[answer.watched[: answer.news, NEWS]].sum())
            size -= int(sizes[list(left)].sum()) if left else 0
            self._buckets.take(answer.channel.slot // SET_SLOTS, size, now_s)

    def uses(self) -> list[LimitUse]:
        """Return what was used of the limits."""
        return self._buckets.uses() if self._buckets.are_any else []

    def in_turn(self, events: Iterable[Event]) -> Sequence[Iterable[Event]]:
        """Return what to process first: what is not fetched, and of high priority; and the rest."""
        if not self._buckets.has_high:
            return (events,)
        first: list[Event] = []
        rest: list[Event] = []
        for event in events:
            (rest if self._is_in_the_way(event) else first).append(event)
        return first, rest

    def _is_in_the_way(self, event: Event) -> bool:
        if isinstance(event, Fetched):
            plan = self.plan_of.get(event.want.index)
            return plan is None or plan.sets.get(event.want.index) != HIGH
        if isinstance(event, GroupAnswer | Watched):
            return not _is_high(event.channel)
        return False


def _is_high(channel: Channel) -> bool:
    return channel.slot // SET_SLOTS == HIGH
