"""One round of one lane: fetch → carry → append, until the deadline or a newer plan.

I7  Each partition has its own state; a broker's answer is spread over the partitions it concerns.
I10 `may_send` is looked at before every append, and a process that is late with one is ended.

Natural batching: nothing waits for company. While appends are under way more records arrive, and
what one fetch returned for a partition is joined; so batches grow by themselves under load.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.clock import Clock
from heliostat.errors import ConnectionLost, kafka_error
from heliostat.invariants import may_send, predecessors_have_ended
from heliostat.names import BrokerId
from heliostat.ops.latency import LiveLatency
from heliostat.records.copier.doubts import settle_doubts, source_diverged
from heliostat.records.copier.fetch_plan import FetchPlan, channels_of, make_plans, watches_for
from heliostat.records.copier.group_wants import GroupWants
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.copier.lane_copies import (
    NeedsAttention,
    any_old,
    ask_high_watermarks,
    begin,
    copies_of,
    delete_throw_away,
    last_batches_of,
    look_after_markers,
    went_wrong,
)
from heliostat.records.copier.lane_memory import LaneMemory
from heliostat.records.copier.late_sends import NOT_WATCHED, LateSends
from heliostat.records.copier.map_writer import MapWriter
from heliostat.records.copier.network import (
    LIVE,
    Appended,
    AppendLost,
    Channel,
    Event,
    Fetched,
    FetchLost,
    LogRange,
    MapLost,
    MapWritten,
    Network,
    Send,
    Traffic,
    Unanswered,
    Want,
    Watched,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import at_end_of_round, report_of
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.provisional import ProvisionalPlaces, busy_first

APPEND_REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""Far below a broker's `socket.request.max.bytes` (100 MiB), and read by it within milliseconds."""
LEADERS_EVERY_S = 0.5  # metadata is asked for at most so often while a partition lacks a leader
LOOK_EVERY_S = 0.005
LOOK_S_PER_PARTITION = 20e-6
"""Partitions in need are looked after so often at most, on every turn it would cost too much."""
IDLE_WAIT_S = 0.05  # longest wait for answers: retries and the deadline are seen in time
FETCH_PACE_S_PER_PARTITION = 100e-6
"""A fetch makes the broker look through all its partitions, 10 us each: so it spends at most a
tenth of a core on a lane's waiting fetches."""
PREPARED_S_MAX = 15.0  # no round is given out so early: more is a clock that differs
PREPARE_LOOK_S = 0.005  # how often a round that has not begun looks at the clock
HIGH_WATERMARKS_EVERY_S = 5.0  # of partitions that are broken: their lag must be visible
FIRST_REPORT_S = 0.2  # it names all partitions: not while what waited for the change is copied
ChannelKey = tuple[BrokerId, Channel]  # one connection: requests in it are served in order
Sendable = dict[int, PartitionCopy]
DRAIN_S = 10.0  # how long the end of a round waits for answers that are under way


class Copier:
    """Copies one lane for one round, by the clock's monotonic seconds."""

    def __init__(self, lane: LaneSpec, network: Network, clock: Clock) -> None:
        self._lane = lane
        self._network = network
        self._clock = clock
        # The wall clock is looked at last: a process that is stopped in between ends the earlier.
        now_s, now_ms = clock.monotonic_s(), clock.wall_ms()
        left_s = (lane.expires_at_ms - now_ms) / 1000
        to_wait_s = min(PREPARED_S_MAX, max(0.0, (lane.begin_at_ms - now_ms) / 1000))
        # From here on by the monotonic clock alone: the wall clock may be stepped.
        self._begin_at_s = now_s + to_wait_s
        self._deadline_s = now_s + min(to_wait_s + lane.round_s, left_s)
        self._report_from_s = self._begin_at_s + (FIRST_REPORT_S if lane.waits_for else 0.0)
        self.partitions = copies_of(lane, self._begin_at_s, now_ms)
        self.latency = LiveLatency(now_ms)
        self._source_leader: dict[int, BrokerId] = {}
        self._target_leader: dict[int, BrokerId] = {}
        self._leaders_at_s, self._leaders_stale = -1e9, True
        self._plans: dict[BrokerId, FetchPlan] = {}
        self._plan_of: dict[int, FetchPlan] = {}
        self._watches_max, self._reported_all = 0, False
        self._spare_s: float | None = None
        self._provisional = ProvisionalPlaces(self.partitions, lane.begin_at_ms)
        self._look_at_s = self._high_watermarks_at_s = 0.0
        self._attention = NeedsAttention(self.partitions)
        self._fetch_turn: dict[ChannelKey, int] = {}
        self._group_wants = GroupWants()
        self._fetch_at_s: dict[ChannelKey, float] = {}
        self._sendable: dict[ChannelKey, Sendable] = {}
        self._append_channel: dict[int, ChannelKey] = {}
        self._memory = LaneMemory(network, lane.settings.lane_queued_bytes_max)
        self._to_check: list[int] = []
        self._map_writer = MapWriter(self.partitions, network, is_held=bool(lane.waits_for))
        self._late_sends: LateSends = NOT_WATCHED
        self._holds_old = self._looks_first = bool(lane.waits_for)

    def run(self, hooks: Hooks) -> RoundReport:
        """Copy until the deadline or until superseded; then wait for what is under way.

        Connections are open before the round begins, so that its beginning is not felt.
        """
        ended_by = "deadline"
        self._late_sends = hooks.late_sends
        self._find_leaders(self._clock.monotonic_s())
        self._network.open(set(self._target_leader.values()))
        if self._lane.waits_for:
            self._spare_s = self._begin_at_s - self._clock.monotonic_s()
        while may_send(self._clock.monotonic_s(), self._deadline_s):
            switch_at_ms = hooks.switch_at_ms()
            # One that would begin behind the switch makes room for those of the new plan.
            is_void = switch_at_ms is not None and switch_at_ms <= self._lane.begin_at_ms
            if is_void or hooks.is_superseded():
                ended_by = "plan"
                break
            self._end_by(switch_at_ms)
            to_wait_s = self._begin_at_s - self._clock.monotonic_s()
            if to_wait_s > 0:
                if self._lane.waits_for and self._provisional.is_due(to_wait_s):
                    self._provisional.ask(self._network, self._plan_of, self._clock.wall_ms())
                    continue
                self._clock.sleep(min(to_wait_s, PREPARE_LOOK_S))
                continue
            if self._holds_old:
                self._look_for_predecessors(hooks.running())
            self.turn(self._clock.monotonic_s())
            if hooks.is_report_due() and self._clock.monotonic_s() >= self._report_from_s:
                hooks.publish(self.report(""))
        self._drain()
        return self.report(ended_by)

    def turn(self, now_s: float) -> None:
        """One turn: look after partitions in need, send what can be sent, take answers."""
        self._find_leaders(now_s)
        if now_s >= self._look_at_s:
            attention = self._attention.now(now_s, at_once=not self._look_at_s)
            self._look_at_s = now_s + max(LOOK_EVERY_S, LOOK_S_PER_PARTITION * len(attention))
            self._find_positions(attention, now_s)
        if self._to_check:
            self._look_after_markers(now_s)
        self._late_sends.arm(self._deadline_s - self._clock.monotonic_s())
        if may_send(self._clock.monotonic_s(), self._deadline_s):
            self._network.send_on()
        self._map_writer.write(lambda: may_send(self._clock.monotonic_s(), self._deadline_s))
        appended = self._send_appends(now_s)
        self._late_sends.disarm()
        room_bytes = self._memory.room_bytes(now_s)
        fetched = room_bytes > 0 and self._send_fetches(now_s)
        pause_s = 0.0 if appended or fetched else self._pause_s(now_s)
        self._take(self._network.wait(pause_s, room_bytes))

    def _pause_s(self, now_s: float) -> float:
        """How long to wait for answers: not past the next fetch that pacing holds back."""
        due = [at for at in (self._deadline_s, *self._fetch_at_s.values()) if at > now_s]
        return max(0.0, min([IDLE_WAIT_S, *(at - now_s for at in due)]))

    def report(self, ended_by: str) -> RoundReport:
        """Where the lane stands; between the first report and the last only what has news."""
        lane = self._lane
        news = [item for item in self.partitions if item.has_news()]
        # A round that ends in its time is followed by one that names all, and needs the processor.
        is_news = self._reported_all and ended_by != "plan"
        reported, self._reported_all = (news if is_news else self.partitions), True
        return RoundReport(
            lane.lane,
            lane.generation,
            lane.round_number,
            sum(item.records for item in self.partitions),
            sum(item.bytes for item in self.partitions),
            ended_by,
            [report_of(item) for item in reported],
            self.latency.compact(),
            *at_end_of_round(self.partitions, ended_by),
            self._spare_s,
        )

    def _end_by(self, switch_at_ms: int | None) -> None:
        """A newer plan comes into force at a moment: send nothing behind it."""
        if switch_at_ms is not None:
            now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()  # the latter last
            self._deadline_s = min(self._deadline_s, now_s + (switch_at_ms - now_ms) / 1000)

    def _look_for_predecessors(self, running: frozenset[str] | None) -> None:
        """Once those before us have ended, old records and breaks are ours to send too (I10)."""
        if not predecessors_have_ended(self._lane.round_id, self._lane.waits_for, running):
            return
        self._holds_old = False
        for item in self.partitions:
            item.holds_old = False
            self._mark_sendable(item)
        self._map_writer.release(self._clock.wall_ms())

    # -- looking after partitions --------------------------------------------------------------

    def _find_leaders(self, now_s: float) -> None:
        if not self._leaders_stale or now_s < self._leaders_at_s + LEADERS_EVERY_S:
            return
        self._leaders_at_s = now_s
        now_ms = self._clock.wall_ms()
        began_s = self._clock.monotonic_s()
        try:
            leaders = self._network.leaders()
        except ConnectionLost as error:
            for item in (each for each in self.partitions if each.phase is not Phase.STOPPED):
                item.no_leader(error, now_s, now_ms)
            return
        self._source_leader, self._target_leader = dict(leaders.source), dict(leaders.target)
        self._look_at_s = 0.0
        if not self._watches_max:  # the first time both clusters were connected to
            self._watches_max = watches_for(self._clock.monotonic_s() - began_s)
        self._plans = make_plans(
            self.partitions,
            self._source_leader,
            self._plans,
            self._lane.settings,
            watches_max=self._watches_max,
            rates=dict(self._lane.rates),
        )
        self._network.expect(channels_of(self._plans))
        self._plan_of = {item.index: plan for plan in self._plans.values() for item in plan.items}
        self._sendable = {}
        for item in self.partitions:
            self._mark_sendable(item)
        self._leaders_stale = False
        for index, problem in leaders.problems.items():
            item = self.partitions[index]
            if item.phase is not Phase.STOPPED:
                item.no_leader(problem, now_s, now_ms)
                self._leaders_stale = True

    def _find_positions(self, attention: list[PartitionCopy], now_s: float) -> None:
        now_ms = self._clock.wall_ms()
        seekers = [
            item.index
            for item in attention
            if item.must_find_end
            and now_s >= item.not_before_s
            and item.index in self._target_leader
        ]
        if self._looks_first:
            self._looks_first, self._look_at_s = False, 0.0
            seekers = busy_first(seekers, self._plan_of)
        if seekers:
            self._group_wants.forget()
            ranges = self._network.target_ranges(seekers)
            tails, unread = last_batches_of(self._network, ranges, self.partitions)
            maps = self._network.offset_maps(seekers)  # after the ends: they cover these (I2)
            unread |= settle_doubts(self._network, ranges, tails, maps, self.partitions)
            for index, target in ranges.items():
                item = self.partitions[index]
                problem = target if isinstance(target, Exception) else maps
                if isinstance(problem, Exception):
                    item.find_end_failed(problem, now_s, now_ms)
                    self._leaders_stale = True
                elif index in unread:
                    item.last_batch_unread(now_s, now_ms)
                elif isinstance(target, LogRange):
                    begin(item, target, tails.get(index), problem[index], now_ms, now_s=now_s)
                    self._mark_sendable(item)
        for item in delete_throw_away(attention, self._network, now_s, now_ms):
            self._mark_sendable(item)
        self._find_high_watermarks(attention, now_s, now_ms)

    def _look_after_markers(self, now_s: float) -> None:
        asked, self._to_check = self._to_check, []
        now_ms = self._clock.wall_ms()
        for item in look_after_markers(self.partitions, asked, self._network, now_s, now_ms):
            self._mark_sendable(item)

    def _find_high_watermarks(
        self, attention: list[PartitionCopy], now_s: float, now_ms: int
    ) -> None:
        """Ask where the source stands: for a refused offset at once, for broken ones at times."""
        ranged = [item for item in attention if item.needs_source_range]
        if now_s >= self._high_watermarks_at_s + HIGH_WATERMARKS_EVERY_S:
            self._high_watermarks_at_s = now_s
            ranged = [item for item in attention if item.phase is not Phase.COPY]
        self._leaders_stale |= ask_high_watermarks(self._network, ranged, now_s, now_ms)

    # -- sending -------------------------------------------------------------------------------

    def _mark_sendable(self, item: PartitionCopy) -> None:
        """Put a partition into the line of those that have something to send.

        It changes lines only with nothing in flight: two connections keep no order.
        """
        index = item.index
        broker = self._target_leader.get(index)
        if broker is None or not (item.queue or item.phase is Phase.ALIGN_START):
            return
        channel_key = self._append_channel.get(index)
        if channel_key is None or item.in_flight == 0 or channel_key[0] != broker:
            plan = self._plan_of.get(index)
            channel = plan.channel_of(index) if plan is not None else LIVE
            wanted = (broker, channel if channel.traffic is Traffic.BACKLOG else LIVE)
            if channel_key is not None and channel_key != wanted:
                self._sendable.get(channel_key, {}).pop(index, None)
            channel_key = self._append_channel[index] = wanted
        self._sendable.setdefault(channel_key, {})[index] = item

    def _send_appends(self, now_s: float) -> bool:
        sent_any = False
        now_ms = self._clock.wall_ms()
        for (broker, channel), items in self._sendable.items():
            while items and self._network.can_append(broker, channel):
                if self._network.is_appending(broker, channel) and any_old(items, now_ms):
                    break
                sends = self._one_batch_of_each(items, now_s, now_ms)
                if not sends or not may_send(self._clock.monotonic_s(), self._deadline_s):
                    # It passed while a request was put together: nothing of it was sent.
                    reason = "the round's deadline passed"
                    went_wrong(self.partitions, AppendLost(sends, reason), now_s, now_ms)
                    break
                self._network.append(broker, channel, sends)
                sent_any = True
        return sent_any

    def _one_batch_of_each(self, items: Sendable, now_s: float, now_ms: int) -> list[Send]:
        """One batch of every ready partition: a broker takes one a partition and request."""
        sends: list[Send] = []
        size = 0
        for item in list(items.values()):
            send = item.next_send(now_s, now_ms)
            if send is None:
                if now_s >= item.may_land_until_s:
                    del items[item.index]  # comes back when an answer or a fetch changes it
                continue
            # To the end of the line, so that a full request does not starve the others.
            items[item.index] = items.pop(item.index)
            sends.append(send)
            size += send.batch.size
            if size >= APPEND_REQUEST_BYTES_MAX:
                break
        return sends

    def _send_fetches(self, now_s: float) -> bool:
        sent_any = False
        for broker, plan in self._plans.items():
            plan.regroup(now_s)
            for channel, items in plan.groups.items():
                channel_key = (broker, channel)
                if now_s < self._fetch_at_s.get(channel_key, 0.0) or not self._network.can_fetch(
                    *channel_key
                ):
                    continue
                sent_any |= self._fetch(broker, channel, items, now_s)
        return sent_any

    def _fetch(
        self, broker: BrokerId, channel: Channel, items: list[PartitionCopy], now_s: float
    ) -> bool:
        if channel.traffic is Traffic.SPARSE:
            wants = self._group_wants.of(items, now_s)
            pace = self._plans[broker].pace
            self._fetch_at_s[broker, channel] = pace.began(channel, now_s, self._clock.wall_ms())
        else:
            wants = self._wants((broker, channel), items, now_s)
            for want in wants:
                self.partitions[want.index].fetching = want
            self._fetch_at_s[broker, channel] = now_s + FETCH_PACE_S_PER_PARTITION * len(wants)
        if wants:
            self._network.fetch(broker, channel, wants)
        return bool(wants)

    def _wants(
        self, channel_key: ChannelKey, items: list[PartitionCopy], now_s: float
    ) -> list[Want]:
        """What to fetch from one broker, each time beginning one partition further on.

        The broker fills its answer in the order of the request and returns a batch above the
        limit only for the first partition that has data.
        """
        turn = self._fetch_turn.get(channel_key, 0) % len(items)
        self._fetch_turn[channel_key] = turn + 1
        wants = (item.want(now_s) for item in items[turn:] + items[:turn])
        return [want for want in wants if want is not None]

    # -- taking answers ------------------------------------------------------------------------

    def _take(self, events: Iterable[Event]) -> None:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        for event in events:
            if isinstance(event, FetchLost | AppendLost) or getattr(event, "error", False):
                self._look_at_s = 0.0
                self._group_wants.forget()
            match event:
                case Fetched():
                    self._take_fetched(event, now_s, now_ms)
                case Watched():
                    if plan := self._plans.get(event.broker):
                        at_s = plan.watched(event.channel, now_s)
                        self._fetch_at_s[event.broker, event.channel] = at_s
                case Appended():
                    self._take_appended(event, now_s, now_ms)
                case MapWritten() | MapLost():
                    for item in self._map_writer.take(event, now_s, now_ms):
                        self._mark_sendable(item)
                case Unanswered() | FetchLost() | AppendLost():
                    went_wrong(self.partitions, event, now_s, now_ms)
                    self._leaders_stale = True

    def _take_fetched(self, event: Fetched, now_s: float, now_ms: int) -> None:
        want = event.want
        item = self.partitions[want.index]
        self._group_wants.answered(want.index)
        if item.fetching is want:
            item.fetching = None
        if (
            want.attempt != item.attempt
            or not want.bytes_max
            or item.phase is not Phase.COPY
            or want.offset != item.fetch_offset  # another channel was quicker
        ):
            return
        if self._provisional.must_look(event):
            item.look_again(now_ms)
            self._look_at_s = 0.0
            return
        if event.error:
            item.fetch_failed(event.error, "", now_s, now_ms)
            self._leaders_stale |= kafka_error(event.error).stale_metadata
            return
        if event.diverging_epoch is not None:
            source_diverged(item, event.diverging_epoch, now_ms)
            return
        plan = self._plan_of.get(item.index)
        was_level = event.end > event.start and item.position >= item.high_watermark
        if plan is not None and was_level:
            # Quiet partitions are heard of only with news: nothing was missing when last asked for.
            asked_ms = plan.pace.asked_ms.get(plan.channel_of(item.index), -1)
            item.caught_up_ms = max(item.caught_up_ms, asked_ms)
        item.fetched(
            event.buffer,
            event.start,
            event.end,
            high_watermark=event.high_watermark,
            now_s=now_s,
            now_ms=now_ms,
            last_stable_offset=event.last_stable_offset,
            aborted=event.aborted,
        )
        self._map_writer.note(item)
        if plan is not None:
            lag = item.high_watermark - item.fetch_offset
            plan.judge(item.index, lag, event.end - event.start, want.bytes_max)
        if item.queue:
            self._memory.note(item)
            self._mark_sendable(item)

    def _take_appended(self, event: Appended, now_s: float, now_ms: int) -> None:
        send = event.send
        item = self.partitions[send.index]
        self._group_wants.answered(send.index)
        level_ms = item.caught_up_ms
        if event.error:
            item.append_failed(
                send.batch, event.error, event.message, now_s, now_ms, refused=event.refused
            )
            self._leaders_stale |= kafka_error(event.error).stale_metadata
        elif (
            item.appended(send.batch, event.base_offset, now_ms, is_repeated=event.is_repeated)
            and item.phase is Phase.COPY
        ):
            self.latency.landed(send.batch.max_timestamp, send.batch.records, level_ms, now_ms)
        if item.map.fills:
            self._map_writer.note(item)  # what follows without records is filled behind the last
            if item.filling.check_end is not None:
                self._to_check.append(item.index)
        self._mark_sendable(item)

    def _drain(self) -> None:
        """Wait for answers: the report is true then, and no row lands behind the next look."""
        self._network.send_no_more()
        until_s = self._clock.monotonic_s() + DRAIN_S
        while self._clock.monotonic_s() < until_s and (
            self._map_writer.is_under_way
            or any(item.is_awaited(self._clock.monotonic_s()) for item in self.partitions)
        ):
            self._take(self._network.wait(IDLE_WAIT_S, 0))  # nothing more is fetched
