"""One round of one lane: fetch → carry → append, until the deadline or a newer plan.

I7  Each partition has its own state; a broker's answer is spread over the partitions it concerns.
I10 `may_send` is looked at before every append.

Natural batching: nothing waits for company. While appends are under way more records arrive, and
what one fetch returned for a partition is joined; so batches grow by themselves under load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heliostat.clock import Clock
from heliostat.errors import ConnectionLost, kafka_error
from heliostat.invariants import may_send
from heliostat.names import BrokerId
from heliostat.ops.latency import LatencyHistogram
from heliostat.records.lane import LaneSpec, RoundReport
from heliostat.records.network import (
    Appended,
    AppendLost,
    Event,
    Fetched,
    FetchLost,
    Network,
    Send,
    Want,
)
from heliostat.records.partition_copy import PartitionCopy, Phase

APPEND_REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""Stays far below a broker's `socket.request.max.bytes` (100 MiB)."""
LEADERS_EVERY_S = 0.5
"""Metadata is asked for at most so often while a partition lacks a leader."""
LOOK_EVERY_S = 0.005
"""Partitions in need are looked for at most so often, and at once after trouble: looking through
all of them on every turn would cost more than the copying of a few."""
IDLE_WAIT_S = 0.05
"""Longest wait for answers, so that retries and the deadline are seen in time."""
FETCH_PACE_S_PER_PARTITION = 20e-6
FETCH_PACE_S_MAX = 0.05
"""A fetch of many partitions makes the broker look through all of them: 20 us each, so that a
lane of 2,500 asks at most 20 times a second."""
SOURCE_ENDS_EVERY_S = 5.0
"""Lag must be visible while a partition is broken: its source end is asked for so often."""
DRAIN_S = 10.0
"""How long the end of a round waits for answers that are still under way."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a round tells and asks besides copying."""

    is_superseded: Callable[[], bool]
    """Whether a newer plan, or a stop, ends this round; called often, must be quick."""
    is_report_due: Callable[[], bool]
    """Whether a report is wanted now; called often, must be quick."""
    publish: Callable[[RoundReport], None]
    """Takes a report of the round so far."""


class Copier:
    """Copies one lane for one round.

    Parameters
    ----------
    lane
        What to copy and how.
    network
        Both clusters.
    clock
        Monotonic seconds for deadlines, wall clock for what people read.
    """

    def __init__(self, lane: LaneSpec, network: Network, clock: Clock) -> None:
        self._lane = lane
        self._network = network
        self._clock = clock
        now_ms = clock.wall_ms()
        left_s = (lane.expires_at_ms - now_ms) / 1000
        self._deadline_s = clock.monotonic_s() + min(lane.round_s, left_s)
        self.partitions = [
            PartitionCopy(index, spec, lane.settings, lane.producer_id, now_ms)
            for index, spec in enumerate(lane.partitions)
        ]
        self.latency = LatencyHistogram()
        self._source_leader: dict[int, BrokerId] = {}
        self._target_leader: dict[int, BrokerId] = {}
        self._leaders_at_s = -1e9
        self._leaders_stale = True
        self._by_source: dict[BrokerId, list[PartitionCopy]] = {}
        self._look_at_s = 0.0
        self._source_ends_at_s = 0.0
        self._fetch_turn: dict[BrokerId, int] = {}
        self._fetch_at_s: dict[BrokerId, float] = {}
        self._sendable: dict[BrokerId, dict[int, PartitionCopy]] = {}

    def run(self, hooks: Hooks) -> RoundReport:
        """Copy until the deadline or until superseded; then wait for what is under way."""
        ended_by = "deadline"
        while may_send(self._clock.monotonic_s(), self._deadline_s):
            if hooks.is_superseded():
                ended_by = "plan"
                break
            self.turn(self._clock.monotonic_s())
            if hooks.is_report_due():
                hooks.publish(self.report(""))
        self._drain()
        return self.report(ended_by)

    def turn(self, now_s: float) -> None:
        """One turn: look after partitions in need, send what can be sent, take answers."""
        self._find_leaders(now_s)
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S
            self._find_positions(now_s)
        appended = self._send_appends(now_s)
        fetched = self._send_fetches(now_s)
        self._take(self._network.wait(0.0 if appended or fetched else self._pause_s(now_s)))

    def _pause_s(self, now_s: float) -> float:
        """How long to wait for answers: not past the next fetch that pacing holds back."""
        due = [at for at in self._fetch_at_s.values() if at > now_s]
        return max(0.0, min([IDLE_WAIT_S, *(at - now_s for at in due)]))

    def report(self, ended_by: str) -> RoundReport:
        """Where the lane stands."""
        lane = self._lane
        return RoundReport(
            lane.lane,
            lane.generation,
            lane.round_number,
            sum(item.records for item in self.partitions),
            sum(item.bytes for item in self.partitions),
            ended_by,
            [item.report() for item in self.partitions],
            self.latency.compact(),
        )

    # -- looking after partitions --------------------------------------------------------------

    def _find_leaders(self, now_s: float) -> None:
        if not self._leaders_stale or now_s < self._leaders_at_s + LEADERS_EVERY_S:
            return
        self._leaders_at_s = now_s
        now_ms = self._clock.wall_ms()
        try:
            leaders = self._network.leaders()
        except ConnectionLost as error:
            for item in self.partitions:
                if item.phase is not Phase.STOPPED:
                    item.no_leader(error, now_s, now_ms)
            return
        self._source_leader = dict(leaders.source)
        self._target_leader = dict(leaders.target)
        self._look_at_s = 0.0
        self._sendable = {}
        self._by_source = {}
        for item in self.partitions:
            self._mark_sendable(item)
            broker = self._source_leader.get(item.index)
            if broker is not None:
                self._by_source.setdefault(broker, []).append(item)
        self._leaders_stale = False
        for index, problem in leaders.problems.items():
            item = self.partitions[index]
            if item.phase is not Phase.STOPPED:
                item.no_leader(problem, now_s, now_ms)
                self._leaders_stale = True

    def _find_positions(self, now_s: float) -> None:
        now_ms = self._clock.wall_ms()
        seekers = [
            item.index
            for item in self.partitions
            if item.must_find_end
            and now_s >= item.not_before_s
            and item.index in self._target_leader
        ]
        if seekers:
            for index, target in self._network.target_ranges(seekers).items():
                item = self.partitions[index]
                if isinstance(target, Exception):
                    item.find_end_failed(target, now_s, now_ms)
                    self._leaders_stale = True
                else:
                    item.begin_at(target, now_ms)
                    self._mark_sendable(item)
        self._delete_throw_away(now_s, now_ms)
        self._find_source_ends(now_s, now_ms)

    def _find_source_ends(self, now_s: float, now_ms: int) -> None:
        """Ask where the source stands: for a refused offset at once, for broken ones at times."""
        ranged = [item.index for item in self.partitions if item.needs_source_range]
        if now_s >= self._source_ends_at_s + SOURCE_ENDS_EVERY_S:
            self._source_ends_at_s = now_s
            ranged = [item.index for item in self.partitions if item.phase is not Phase.COPY]
        if ranged:
            for index, source in self._network.source_ranges(ranged).items():
                item = self.partitions[index]
                if not isinstance(source, Exception):
                    item.source_is(source, now_ms)
                elif item.needs_source_range:
                    item.needs_source_range = False
                    item.no_leader(source, now_s, now_ms)
                    self._leaders_stale = True

    def _delete_throw_away(self, now_s: float, now_ms: int) -> None:
        for item in self.partitions:
            before = item.delete_before
            if before is not None and now_s >= item.not_before_s:
                problem = self._network.delete_target_records(item.index, before)
                if problem is None:
                    item.deleted(before, now_ms)
                    self._mark_sendable(item)
                else:
                    item.find_end_failed(problem, now_s, now_ms)

    # -- sending -------------------------------------------------------------------------------

    def _mark_sendable(self, item: PartitionCopy) -> None:
        broker = self._target_leader.get(item.index)
        if broker is not None and (item.queue or item.phase is Phase.LIFT):
            self._sendable.setdefault(broker, {})[item.index] = item

    def _send_appends(self, now_s: float) -> bool:
        sent_any = False
        now_ms = self._clock.wall_ms()
        for broker, items in self._sendable.items():
            while items and self._network.can_append(broker):
                sends = self._one_batch_of_each(items, now_ms)
                if not sends or not may_send(self._clock.monotonic_s(), self._deadline_s):
                    self._give_back(sends, now_s, now_ms)
                    break
                self._network.append(broker, sends)
                sent_any = True
        return sent_any

    def _one_batch_of_each(self, items: dict[int, PartitionCopy], now_ms: int) -> list[Send]:
        """One batch of every ready partition: a broker takes one a partition and request."""
        sends: list[Send] = []
        size = 0
        for item in list(items.values()):
            send = item.next_send(now_ms)
            if send is None:
                del items[item.index]  # comes back when an answer or a fetch changes it
                continue
            # To the end of the line, so that a full request does not starve the others.
            items[item.index] = items.pop(item.index)
            sends.append(send)
            size += send.batch.size
            if size >= APPEND_REQUEST_BYTES_MAX:
                break
        return sends

    def _give_back(self, sends: list[Send], now_s: float, now_ms: int) -> None:
        """The deadline passed while a request was put together: nothing of it was sent."""
        for send in sends:
            item = self.partitions[send.index]
            item.append_lost(send.batch, "the round's deadline passed", now_s, now_ms)

    def _send_fetches(self, now_s: float) -> bool:
        ready = [
            broker
            for broker in self._by_source
            if now_s >= self._fetch_at_s.get(broker, 0.0) and self._network.can_fetch(broker)
        ]
        if not ready:
            return False
        queued = sum(item.queued_bytes for item in self.partitions)
        if queued >= self._lane.settings.lane_queued_bytes_max:
            return False
        sent_any = False
        for broker in ready:
            items = self._by_source[broker]
            wants = self._wants(broker, items, now_s)
            if wants:
                for want in wants:
                    self.partitions[want.index].fetching = True
                self._network.fetch(broker, wants)
                pace_s = min(FETCH_PACE_S_MAX, FETCH_PACE_S_PER_PARTITION * len(wants))
                self._fetch_at_s[broker] = now_s + pace_s
                sent_any = True
        return sent_any

    def _wants(self, broker: BrokerId, items: list[PartitionCopy], now_s: float) -> list[Want]:
        """What to fetch from one broker, each time beginning one partition further on.

        The broker fills its answer in the order of the request and returns a batch above the
        limit only for the first partition that has data.
        """
        turn = self._fetch_turn.get(broker, 0) % len(items)
        self._fetch_turn[broker] = turn + 1
        wants = (item.want(now_s) for item in items[turn:] + items[:turn])
        return [want for want in wants if want is not None]

    # -- taking answers ------------------------------------------------------------------------

    def _take(self, events: Iterable[Event]) -> None:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        for event in events:
            if not isinstance(event, Fetched | Appended) or event.error:
                self._look_at_s = 0.0
            match event:
                case Fetched():
                    self._take_fetched(event, now_s, now_ms)
                case Appended():
                    self._take_appended(event, now_s, now_ms)
                case FetchLost():
                    for want in event.wants:
                        item = self.partitions[want.index]
                        if want.attempt == item.attempt:
                            item.fetching = False
                            if item.phase is not Phase.STOPPED:
                                item.fetch_failed(13, event.reason, now_s, now_ms)
                    self._leaders_stale = True
                case AppendLost():
                    for send in event.sends:
                        item = self.partitions[send.index]
                        item.append_lost(send.batch, event.reason, now_s, now_ms)
                    self._leaders_stale = True

    def _take_fetched(self, event: Fetched, now_s: float, now_ms: int) -> None:
        item = self.partitions[event.want.index]
        if event.want.attempt != item.attempt:
            return
        item.fetching = False
        if item.phase is not Phase.COPY:
            return
        if event.error:
            item.fetch_failed(event.error, "", now_s, now_ms)
            self._leaders_stale |= kafka_error(event.error).stale_metadata
            return
        item.fetched(
            event.buffer,
            event.start,
            event.end,
            high_watermark=event.high_watermark,
            now_s=now_s,
            now_ms=now_ms,
        )
        if item.queue:
            self._mark_sendable(item)

    def _take_appended(self, event: Appended, now_s: float, now_ms: int) -> None:
        send = event.send
        item = self.partitions[send.index]
        if event.error:
            item.append_failed(send.batch, event.error, event.message, now_s, now_ms)
            self._leaders_stale |= kafka_error(event.error).stale_metadata
        elif item.appended(send.batch, event.base_offset, now_ms) and item.phase is Phase.COPY:
            self.latency.add(now_ms - send.batch.max_timestamp, send.batch.records)
        self._mark_sendable(item)

    def _drain(self) -> None:
        """Wait for the answers to what was sent, so that the report is as true as it can be."""
        until_s = self._clock.monotonic_s() + DRAIN_S
        while (
            any(item.in_flight for item in self.partitions) and self._clock.monotonic_s() < until_s
        ):
            self._take(self._network.wait(IDLE_WAIT_S))
