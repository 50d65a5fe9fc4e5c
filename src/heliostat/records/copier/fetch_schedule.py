"""Decides when a lane fetches from which source broker, and over which connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from heliostat.clock import Clock
from heliostat.names import BrokerId
from heliostat.records.copier.fetch_plan import FetchPlan, channels_of, make_plans, watches_for
from heliostat.records.copier.group_wants import GroupWants
from heliostat.records.copier.lane import LaneSpec
from heliostat.records.copier.lane_limits import ByteLimits
from heliostat.records.copier.limited_fetches import LimitedFetches
from heliostat.records.copier.network import (
    LIVE,
    Channel,
    ChannelKey,
    Fetched,
    GroupAnswer,
    Network,
    Traffic,
    Want,
    Watched,
)
from heliostat.records.copier.partition_copy import PartitionCopy

FETCH_PACE_S_PER_PARTITION = 100e-6
"""For each fetch the broker checks all partitions in it, 10 us each: with this pause it spends at
most a tenth of a core on a lane's waiting fetches."""
SCAN_EVERY_S = 0.02
"""How often all connections are asked whether they are free; those that were just answered are
known. Asking a hundred after each answer took a tenth of a lane's processor time."""


class FetchSchedule:
    """The fetches of one lane.

    Parameters
    ----------
    lane
        Specification of the round.
    partitions
        Partitions of the lane, by index.
    network, clock
        Network and clock of the lane.
    """

    def __init__(
        self,
        lane: LaneSpec,
        partitions: Sequence[PartitionCopy],
        network: Network,
        clock: Clock,
    ) -> None:
        self._lane = lane
        self._partitions = partitions
        self._network = network
        self._clock = clock
        self._plans: dict[BrokerId, FetchPlan] = {}
        self._watches_max = 0
        self._turn: dict[ChannelKey, int] = {}
        self._wants_of_groups = GroupWants()
        self._not_before_s: dict[ChannelKey, float] = {}
        self._free: dict[ChannelKey, None] = {}
        """Connections without a fetch in flight, as far as known, in the order of their answers."""
        self._scan_at_s = 0.0
        self._asked_s: dict[int, float] = {}
        """When partitions far behind were asked for, by index."""
        self._rates = dict(lane.rates)
        self.limited = LimitedFetches(lane, partitions, clock.monotonic_s())
        self._leaders: tuple[Mapping[int, BrokerId], float] = {}, 0.0

    def expect_rate(self, index: int, rate: float) -> None:
        """Note how many records a second a partition that the lane takes is known to have."""
        self._rates[index] = rate

    def plan(self, leaders: Mapping[int, BrokerId], open_s: float) -> None:
        """Spread the partitions over connections to the brokers that lead them now.

        `open_s` is how long connecting took, if both clusters were connected to just now.
        """
        self._leaders = leaders, open_s
        if not self._watches_max:  # the first time both clusters were connected to
            self._watches_max = watches_for(open_s)
        self._plans = make_plans(
            self._partitions,
            leaders,
            self._plans,
            self._lane.settings,
            sets=self.limited.sets(),
            watches_max=self._watches_max,
            rates=self._rates,
        )
        self._scan_at_s = 0.0
        self._network.expect(channels_of(self._plans))
        plan_of = {item.index: plan for plan in self._plans.values() for item in plan.items}
        for index in self.limited.plan(plan_of):
            self._wants_of_groups.answered(index)

    def limit(self, limits: ByteLimits | None, now_s: float) -> None:
        """Change the limits if they are others (None: not known yet).

        What is in flight is answered as it was asked for.
        """
        if self.limited.become(limits, now_s) and self._leaders[0]:
            self.plan(*self._leaders)

    def channel_of(self, index: int) -> Channel:
        """Return the channel that a partition is fetched over now."""
        plan = self.plan_of.get(index)
        return plan.channel_of(index) if plan is not None else LIVE

    @property
    def plan_of(self) -> Mapping[int, FetchPlan]:
        """Fetch plans by partition index; a partition without a leader is missing."""
        return self.limited.plan_of

    def send(self, now_s: float, room_bytes: int) -> None:
        """Send the fetches that are due, and for whose answers there is room in memory."""
        may_send = self.limited.sends_with(room_bytes)
        are_limited, not_before_s = self.limited.are_any, self._not_before_s
        for plan in self._plans.values():
            plan.regroup(now_s)
        if now_s >= self._scan_at_s:
            self._scan_at_s = now_s + SCAN_EVERY_S
            self._free = {
                (broker, channel): None
                for broker, plan in self._plans.items()
                for channel in plan.groups
                if self._network.can_fetch(broker, channel)
            }
        for key in tuple(self._free):
            free_at_s = self._free_at_s(key) if are_limited else not_before_s.get(key, 0.0)
            if now_s < free_at_s or (may_send is not None and not may_send(key[1])):
                continue
            broker, channel = key
            plan_of_it = self._plans.get(broker)
            items = None if plan_of_it is None else plan_of_it.groups.get(channel)
            is_free = bool(items) and self._network.can_fetch(broker, channel)
            if not is_free or self._fetch(broker, channel, items or [], now_s):
                del self._free[key]

    def _fetch(
        self, broker: BrokerId, channel: Channel, items: list[PartitionCopy], now_s: float
    ) -> bool:
        """Send a group's fetch; False if none of its partitions wants anything."""
        is_far = self._plans[broker].line.is_far
        most = self.limited.answer_bytes(channel, is_far=is_far)
        if channel.traffic is Traffic.SPARSE:
            pace, key = self._plans[broker].pace, (broker, channel)
            self._not_before_s[key] = pace.began(channel, now_s, self._clock.wall_ms())
            known = self._wants_of_groups
            if known.is_settled(key, items, now_s) and self._network.fetch_again(
                broker, channel, most
            ):
                return True
            wants = known.of(items, now_s)
            known.settle(key, items, wants)
        else:
            wants = self._wants((broker, channel), items, now_s)
            for want in wants:
                self._partitions[want.index].fetches.under_way = want
                self._asked_s[want.index] = now_s
            self._not_before_s[broker, channel] = now_s + FETCH_PACE_S_PER_PARTITION * len(wants)
        if wants:
            self._network.fetch(broker, channel, wants, most)
        return bool(wants)

    def _wants(
        self, channel_key: ChannelKey, items: list[PartitionCopy], now_s: float
    ) -> list[Want]:
        """Return what to fetch from one broker, each time beginning with the next partition.

        The broker fills its answer in the order of the request and returns a batch above the
        limit only for the first partition that has data.
        """
        turn = self._turn.get(channel_key, 0) % len(items)
        self._turn[channel_key] = turn + 1
        wants = (item.want(now_s) for item in items[turn:] + items[:turn])
        return [want for want in wants if want is not None]

    def pause_s(self, now_s: float, most_s: float) -> float:
        """Return how long to wait for answers: not past the next fetch that pacing delays."""
        held_s = (at_s - now_s for at_s in self.held_back_until_s() if at_s > now_s)
        return min((most_s, *held_s))

    def held_back_until_s(self) -> Collection[float]:
        """Return when pacing lets each free connection fetch; some times are in the past."""
        if self.limited.are_any:
            return [self._free_at_s(key) for key in self._free]
        return [self._not_before_s[key] for key in self._free if key in self._not_before_s]

    def _free_at_s(self, key: ChannelKey) -> float:
        """Return when a connection may be used: at its pace, and within its limits."""
        return max(self._not_before_s.get(key, 0.0), self.limited.free_at_s(key[1]))

    def answered(self, index: int) -> None:
        """Forget what a partition wants, because an answer for it may have changed that."""
        self._wants_of_groups.answered(index)
        plan = self.plan_of.get(index)
        if plan is not None:
            channel = plan.channel_of(index)
            if channel.traffic is not Traffic.SPARSE:
                self._scan_at_s = 0.0

    def forget_wants(self) -> None:
        """Forget what all partitions want, as after a failure."""
        self._wants_of_groups.forget()
        self._scan_at_s = 0.0

    def asked_ms(self, answer: GroupAnswer) -> int:
        """Return the wall clock when a group's answer was asked for; -1: not known."""
        plan = self._plans.get(answer.broker)
        return plan.pace.asked_ms.get(answer.channel, -1) if plan is not None else -1

    def taken(
        self, answer: GroupAnswer, indexes: Sequence[int], left: Sequence[int], now_s: float
    ) -> None:
        """Note that compiled code has taken these partitions' records from a group's answer.

        It has left those at the places `left` in the answer to objects.
        """
        self.limited.group_came(answer, left, now_s)
        self._wants_of_groups.taken(indexes)
        plan = self._plans.get(answer.broker)
        if plan is not None:
            for index in indexes:
                plan.saw_records(index, is_behind=False)

    def watched(
        self, event: Watched | GroupAnswer, now_s: float, *, was_single: bool = False
    ) -> None:
        """Schedule the next fetch of a group that was answered, at the pace of its broker.

        What was answered goes on at once; what comes next may wait a little for others, unless the
        answer had one record at most: then waiting would seldom bring two together.
        """
        if plan := self._plans.get(event.broker):
            at_s = plan.watched(event.channel, now_s)
            together_s = now_s if was_single else now_s + self._lane.settings.latency_target_s
            self._not_before_s[event.broker, event.channel] = max(at_s, together_s)
            self._free[event.broker, event.channel] = None

    def was_level(self, item: PartitionCopy) -> None:
        """Note that a partition with new records was caught up when its group was fetched last.

        Groups answer only for partitions with news, so quiet ones are not seen to be caught up.
        """
        plan = self.plan_of.get(item.index)
        if plan is not None:
            asked_ms = plan.pace.asked_ms.get(plan.channel_of(item.index), -1)
            item.progress.caught_up_ms = max(item.progress.caught_up_ms, asked_ms)

    def judge(self, item: PartitionCopy, event: Fetched, now_s: float) -> None:
        """Note from an answer how busy a partition is, and whether it is far behind."""
        plan = self.plan_of.get(item.index)
        asked_s = self._asked_s.pop(item.index, None)
        if plan is None:
            return
        lag, size = item.progress.last_stable_offset - item.fetches.offset, event.end - event.start
        asked = event.want.bytes_max
        wanted = min(asked, item.fetches.size.batch)
        plan.judge(item.index, lag, size, wanted, is_cut=item.fetches.size.most > 0)
        if asked_s is not None and size:
            took_s, is_full = now_s - asked_s, size * 2 >= asked
            item.fetches.size.line = plan.line_bytes(item.index, asked, took_s, is_full=is_full)
