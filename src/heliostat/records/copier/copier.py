"""One round of one lane: fetch → convert → append, for as long as the driver wants it.

I7  Each partition has its own state; a broker's answer is split by partition.
I10 `may_send` is checked before every append, and a process that sends too late is killed. A round
    whose lease has ended sends nothing; with a new one it reads the target's ends again.

Natural batching: no record waits for others. While appends are in flight more records arrive, and
what one fetch returned for a partition is joined; so batches grow by themselves under load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heliostat.clock import Clock
from heliostat.errors import kafka_error
from heliostat.records.copier.append_schedule import AppendSchedule
from heliostat.records.copier.attention import Attention
from heliostat.records.copier.doubts import source_diverged
from heliostat.records.copier.fetch_schedule import FetchSchedule
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.copier.lane_copies import went_wrong
from heliostat.records.copier.lane_leaders import LaneLeaders
from heliostat.records.copier.lane_memory import LaneMemory
from heliostat.records.copier.lane_plan import LanePlan
from heliostat.records.copier.lane_reports import LaneReports
from heliostat.records.copier.lease import Lease
from heliostat.records.copier.map_writer import MapWriter
from heliostat.records.copier.network import (
    Appended,
    AppendLost,
    Event,
    Fetched,
    FetchLost,
    GroupAnswer,
    MapLost,
    MapWritten,
    Network,
    OneEvent,
    PlainAppended,
    Transformed,
    Unanswered,
    Watched,
)
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_leave import (
    are_awaited,
    lease_ended,
    lease_renewed,
    predecessors_ended,
)
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.plain_way import PlainWay
from heliostat.records.copier.round_reports import RoundReports
from heliostat.records.copier.schema_gate import SchemaGate
from heliostat.records.copier.transform import PipelineWay, Transform

IDLE_WAIT_S = 0.05  # longest wait for answers, so that retries and the end are in time
TURN_S = 0.01  # longest part of a turn in which compiled code alone is at work
DRAIN_S = 10.0  # how long the end of a round waits for outstanding answers


class Copier:
    """Copies one lane for one round; its times are monotonic seconds of the clock."""

    def __init__(
        self, lane: LaneSpec, network: Network, clock: Clock, way: Transform | None = None
    ) -> None:
        self._network = network
        self._clock = clock
        self.lease = Lease(lane.lease_s, clock)
        now_ms = clock.wall_ms()
        self._plan = LanePlan(lane, network, begins_s=clock.monotonic_s(), now_ms=now_ms)
        self.partitions = self._plan.partitions
        self._gate = SchemaGate(lane.pipeline)
        self._pipeline = PipelineWay(self.partitions, way, self._gate)
        self._fetches = FetchSchedule(lane, self.partitions, network, clock)
        given = lane, self.partitions, self._plan, self._gate, network
        self.reports = RoundReports(*given, limits=self._fetches.limited.uses)
        self._publishing = LaneReports(self.lease, self.reports, clock)
        self._leaders = LaneLeaders(self.partitions, network, clock)
        plain = PlainWay(lane, self.partitions, self._gate, self.reports.latency)
        self._appends = AppendSchedule(self.partitions, network, self.lease, self._fetches, plain)
        self._attention = Attention(
            self.partitions,
            network,
            clock,
            leaders=self._leaders,
            fetches=self._fetches,
            appends=self._appends,
            report=self._publishing.on_the_way,
            looks_first=bool(lane.rates),
            kept={} if lane.pipeline is None else lane.pipeline.kept_by_name,
        )
        self._memory = LaneMemory(network, lane.settings.lane_queued_bytes_max)
        self._map_writer = MapWriter(self.partitions, network)

    def run(self, hooks: Hooks) -> RoundReport:
        """Copy until the driver wants no more; then wait for what is in flight."""
        self.begin(hooks)
        while not (hooks.is_superseded() or self._network.is_outdated):
            self.step(hooks)
        return self.end()

    def begin(self, hooks: Hooks) -> None:
        """Ask for the first lease, and open connections meanwhile."""
        self._publishing.hooks = hooks
        self._publishing.publish(self.reports.hello())
        self._find_leaders(self._clock.monotonic_s())
        for _ in self._network.open(set(self._leaders.target.values())):
            self._publishing.on_the_way()

    def step(self, hooks: Hooks) -> None:
        """Heed the driver, do one turn, and report if that is due."""
        self._heed(hooks)
        self.turn(self._clock.monotonic_s())
        if self._publishing.is_due():
            if self.lease.has_ended:
                lease_ended(self.partitions, self._clock)
            self._publishing.publish(self.reports.report(""))

    def end(self) -> RoundReport:
        """Wait for answers; return the last report."""
        self._drain()
        ended_by = "maps" if self._network.is_outdated else "plan"
        return self.reports.last(ended_by, self._clock.monotonic_s())

    def _heed(self, hooks: Hooks) -> None:
        """Take what the driver has said: answers to reports, changes of the plan, ended rounds."""
        self.lease.answer(hooks.answered())
        if self.lease.begins_again():
            lease_renewed(self.partitions, self._clock.wall_ms())
            self._attention.at_once()
        self._fetches.limit(hooks.limits(), self._clock.monotonic_s())
        if self._gate.learn(hooks.schema_ids(), self.partitions):
            self._fetches.forget_wants()
        self._plan.take(hooks.changes())
        if self._plan.is_open:
            self._change_partitions()
        if self._plan.holds:
            self._look_for_predecessors(hooks.running())

    def _change_partitions(self) -> None:
        """Carry out what can be carried out of the plan's changes."""
        moved = self._plan.carry_out(self._clock.monotonic_s(), self._clock.wall_ms())
        if moved is None:
            return
        for item, rate in moved.new:
            self._fetches.expect_rate(item.index, rate)
        self._leaders.ask_of([item.index for item, _ in moved.new])
        if moved.out:  # what is new is planned once its leaders are known
            self._fetches.plan(self._leaders.source, self._leaders.took_s)

    def turn(self, now_s: float) -> None:
        """Do one turn: serve partitions in need, send what can be sent, process answers."""
        self._find_leaders(now_s)
        self._attention.give(now_s)
        self._send(now_s)
        until_s, is_plain = now_s + TURN_S, True
        while is_plain and now_s < until_s:  # ends: the clock goes on
            room_bytes = self._memory.room_bytes(now_s)
            if room_bytes > 0:
                self._fetches.send(now_s, room_bytes)
            events = self._network.wait(self._fetches.pause_s(now_s, IDLE_WAIT_S), room_bytes)
            for some in self._fetches.limited.in_turn(events):
                is_plain &= self._take(some)
                now_s = self._clock.monotonic_s()
                self._send(now_s)

    def _send(self, now_s: float) -> None:
        """Send what can be sent to the target."""
        if self._appends.has_any or self._map_writer.has_any or self._network.has_unsent():
            late_sends = self._publishing.hooks.late_sends
            late_sends.arm(self.lease.left_s())
            if self.lease.may_send():
                self._network.send_on()
            self._map_writer.write(self.lease.may_send)
            self._appends.send(now_s)
            late_sends.disarm()

    def _look_for_predecessors(self, running: frozenset[str] | None) -> None:
        """Release old records and breaks for sending once all earlier rounds have ended (I10)."""
        now_s, items = self._clock.monotonic_s(), self._plan.released(running)
        predecessors_ended(items, now_s)
        for item in items:
            self._appends.mark(item)
        self._map_writer.release(items, self._clock.wall_ms())

    def _find_leaders(self, now_s: float) -> None:
        if self._leaders.find(now_s):
            self._attention.at_once()
            self._fetches.plan(self._leaders.source, self._leaders.took_s)
            self._appends.led_by(self._leaders.target)

    # -- answers -------------------------------------------------------------------------------

    def _take(self, events: Iterable[Event]) -> bool:
        """Process answers; return whether all of them were taken by compiled code."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        is_plain = True
        for event in events:
            if isinstance(event, GroupAnswer):
                left: Sequence[OneEvent] = self._take_group(event, now_s, now_ms)
            elif isinstance(event, PlainAppended):
                left = self._appends.plain.landed(event, now_ms)
            else:
                left = (event,)
            for other in left:
                is_plain = False
                self._take_one(other, now_s, now_ms)
        return is_plain

    def _take_group(self, answer: GroupAnswer, now_s: float, now_ms: int) -> list[Fetched]:
        """Take what is plain of a group's answer; return the events of other partitions."""
        left = self._appends.take(answer, self._fetches.asked_ms(answer), now_ms)
        self._fetches.taken(answer, self._appends.plain.taken, left, now_s)
        self._fetches.watched(answer, now_s, was_single=self._appends.plain.was_single)
        return [answer.fetched(place) for place in left]

    def _take_one(self, event: OneEvent, now_s: float, now_ms: int) -> None:
        if isinstance(event, FetchLost | AppendLost) or getattr(event, "error", False):
            self._attention.at_once()
            self._fetches.forget_wants()
        match event:
            case Fetched():
                self._fetches.limited.came(event, now_s)
                self._take_fetched(event, now_s, now_ms, back=False)
            case Transformed():
                self._take_fetched(event.fetched, now_s, now_ms, back=True)
                self._pipeline.came_back(event, now_ms)
                self._mark(self.partitions[event.fetched.want.index])
            case Watched():
                self._fetches.watched(event, now_s)
            case Appended():
                self._take_appended(event, now_s, now_ms)
            case MapWritten() | MapLost():
                for item in self._map_writer.take(event, now_s, now_ms):
                    self._appends.mark(item)
            case Unanswered() | FetchLost() | AppendLost():
                went_wrong(self.partitions, event, now_s, now_ms)
                self._leaders.may_be_others()

    def _take_fetched(self, event: Fetched, now_s: float, now_ms: int, *, back: bool) -> None:
        want = event.want
        item = self.partitions[want.index]
        self._fetches.answered(want.index)
        if item.fetches.under_way is want:
            item.fetches.under_way = None
        if (
            want.attempt != item.attempt
            or not want.bytes_max
            or item.phase is not Phase.COPY
            or want.offset != item.fetches.offset  # another channel was quicker
        ):
            return
        if event.error:
            item.fetch_failed(event.error, "", now_s, now_ms)
            if kafka_error(event.error).stale_metadata:
                self._leaders.may_be_others()
            return
        if event.diverging_epoch is not None:
            source_diverged(item, event.diverging_epoch, now_ms)
            return
        if event.end > event.start and item.progress.is_level:
            self._fetches.was_level(item)
        if not back and self._pipeline.takes(event, now_s, now_ms):
            return
        item.fetches.target_is(far=self._network.is_target_far)
        self._gate.fetched(item, event, now_s, now_ms)
        self._fetches.judge(item, event, now_s)
        self._mark(item)

    def _mark(self, item: PartitionCopy) -> None:
        """Note what a partition has to send now."""
        self._map_writer.note(item)
        if item.appends.queue:
            self._memory.note(item)
            self._appends.mark(item)

    def _take_appended(self, event: Appended, now_s: float, now_ms: int) -> None:
        send = event.send
        item = self.partitions[send.index]
        self._fetches.answered(send.index)
        level_ms = item.progress.caught_up_ms
        if event.error:
            item.append_failed(
                send.batch, event.error, event.message, now_s, now_ms, refused=event.refused
            )
            if kafka_error(event.error).stale_metadata:
                self._leaders.may_be_others()
        elif (
            item.appended(send.batch, event.base_offset, now_ms, is_repeated=event.is_repeated)
            and item.phase is Phase.COPY
        ):
            batch, latency = send.batch, self.reports.latency
            latency.landed(send.index, batch.max_timestamp, batch.records, level_ms, now_ms)
        if item.map.fills:
            self._map_writer.note(item)  # a hole after the last record is filled now
            if item.filling.check_end is not None:
                self._attention.check_end(item)
        self._appends.mark(item)
        self._appends.judge(item)

    def _drain(self) -> None:
        """Wait for answers, so that the report is true and no map row lands after the next read."""
        self._network.send_no_more()
        self._appends.plain.end()
        until_s = self._clock.monotonic_s() + DRAIN_S
        while (now_s := self._clock.monotonic_s()) < until_s and (
            self._map_writer.is_under_way or are_awaited(self.partitions, now_s)
        ):
            self._take(self._network.wait(IDLE_WAIT_S, 0))  # nothing more is fetched
