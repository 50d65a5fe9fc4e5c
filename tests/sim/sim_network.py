"""A `Network` over model logs, with a simulated clock and seeded faults."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sim.log_answers import Answer, FetchOf, batches_of, fetch, size_of_first
from sim.partition_log import HEADER, PartitionLog
from sim.sim_world import NOT_ENOUGH, PRODUCER, World
from sim.whole_answers import OfCompiled, whole_answer

from heliostat.clusters.wire.buffers import HeldBytes
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.copier.lane import LineUse, PartitionSpec
from heliostat.records.copier.network import (
    Appended,
    AppendLost,
    BrokerProblem,
    Channel,
    Event,
    Fetched,
    FetchLost,
    GroupAnswer,
    LastBatch,
    Leaders,
    LogRange,
    MapLost,
    MapWrite,
    MapWritten,
    MirrorEnd,
    PlainAppended,
    PlainSends,
    Send,
    SourceSays,
    Traffic,
    Unanswered,
    Want,
    Watched,
)
from heliostat.records.copier.plain_sends import LANDED_AT
from heliostat.records.transport.mirror_ends import compare_ends, times_at

BROKER = BrokerId(1)
NOT_LEADER, TIMED_OUT, AFTER_APPEND, UNKNOWN = 6, 7, 20, -1
STRETCH_BYTES = 400  # a few markers
UNKNOWN_TOPIC_ID = 100
OFFSET_BYTES = 8


def _bytes_in(answer: Sequence[Event]) -> int:
    whole = sum(len(each.data) for each in answer if isinstance(each, GroupAnswer))
    return whole + sum(each.end for each in answer if isinstance(each, Fetched))


class SimNetwork:
    """See `heliostat.records.copier.network.Network`; one broker a side."""

    def __init__(self, world: World, in_flight_max: int) -> None:
        self.world = world
        self._in_flight_max = in_flight_max
        self.is_target_far = world.random.random() < 0.5
        self._due: list[tuple[float, int, Sequence[Event], Channel]] = []
        """Second, tie, what a fetch is answered, and the channel that is free again with it."""
        self._held = HeldBytes()
        self._fetching: set[Channel] = set()
        self._asked: dict[Channel, tuple[list[Want], GroupAnswer]] = {}
        """What groups asked for last, and the answer in which that has moved on."""
        self._heard: dict[int, int] = {}
        """High watermarks in the last answers to groups."""
        self._appends: dict[Channel, list[tuple[float, Sequence[Send]]]] = {}
        """By connection to the target; each is served strictly in order."""
        self._served_until_s: dict[Channel, float] = {}
        self._map_line: tuple[float, list[MapWrite]] | None = None
        """Rows under way, and when they arrive."""
        self._given_up: list[Event] = []
        self._confirmed: set[int] = set()
        """Partitions whose newest leader is known: a deposed one refuses (KIP-320)."""

    is_outdated = False

    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """Add logs by their partitions' numbers; one taken again has two indexes."""
        source, target = self.world.every or (self.world.source, self.world.target)
        numbers = [spec.source.partition for spec in new]
        self.world.source += [source[number] for number in numbers]
        self.world.target += [target[number] for number in numbers]
        self.world.identities += [source[number].identity for number in numbers]

    def leaders(self, indexes: Sequence[int] | None = None) -> Leaders:
        if self.world.happens(0.2):
            raise ConnectionLost("no broker answers")
        self._confirmed |= {i for i in self.world.deposed if self.world.random.random() < 0.3}
        every = dict.fromkeys(range(len(self.world.source)), BROKER)
        return Leaders(every, dict(every), {})

    def target_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        del confirmed  # no leader of the target is deposed here
        self.world.clock.sleep(self.world.random.random() * 0.01)
        self.world.settle_late()
        if self.world.happens(0.2):
            return dict.fromkeys(indexes, ConnectionLost("lost"))
        logs = self.world.target
        return {i: LogRange(Offset(logs[i].start), Offset(logs[i].end)) for i in indexes}

    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        found: dict[int, LastBatch | None] = {}
        for index, target in ranges.items():
            log = self.world.target[index]
            if self.world.happens(0.2):
                continue
            known = log.producers.get(PRODUCER)
            remembered = None if known is None else LastBatch(PRODUCER, known.last_sequence)
            if remembered is not None and remembered.sequence == (target.end - 1) % 2**31:
                found[index] = remembered
                continue
            last = log.batches[-1] if log.batches else None
            if last is None or last.next_offset <= log.start or last.next_offset < target.end:
                found[index] = remembered
            elif last.next_offset == target.end:
                fields = HEADER.unpack_from(last.data, 0)
                found[index] = LastBatch(fields[9], (fields[11] + fields[6]) % 2**31)
        return found

    def own_note(self, index: int) -> None:
        del index

    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        if self.world.happens(0.2):
            return {}
        target = dict(enumerate(self.world.target))
        return compare_ends(ends, batches_of(target), batches_of(self.world.known_sources()))

    def source_times(self, places: Mapping[int, Offset]) -> Mapping[int, int]:
        return (
            {}
            if self.world.happens(0.2)
            else times_at(places, batches_of(dict(enumerate(self.world.source))))
        )

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | BrokerProblem:
        if self.world.happens(0.2):
            return ConnectionLost("lost")
        return {index: self.world.offset_map(index) for index in indexes}

    def can_write_map(self) -> bool:
        return self._map_line is None

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        taken = list(writes)[: self.world.random.choice([1, 9])]
        self._map_line = (self.world.clock.now_s + self.world.random.random() * 0.02, taken)
        return taken

    def _serve_map(self) -> list[Event]:
        """Make rows that are due durable; or break the connection, with an unknown result."""
        if self._map_line is None or self._map_line[0] > self.world.clock.now_s:
            return []
        _, writes = self._map_line
        if self.world.happens():
            self._cut_map()
            return [MapLost(writes, "cut")]
        self._map_line = None
        self.world.map_rows += writes
        return [MapWritten(writes)]

    def _cut_map(self) -> None:
        """Rows under way are durable, become so later, or never arrive."""
        if self._map_line is None:
            return
        _, writes = self._map_line
        self._map_line = None
        if self.world.random.random() < 0.7:
            late_s = self.world.clock.now_s + self.world.random.choice([0.0, 0.02, 0.5])
            heapq.heappush(self.world.late_rows, (late_s, next(iter(self.world.ties)), writes))

    def source_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        self._confirmed |= set(indexes) if confirmed else set()
        logs = {index: self._led(index) for index in indexes}
        return {i: LogRange(Offset(log.start), Offset(log.end)) for i, log in logs.items()}

    def _led(self, index: int) -> PartitionLog:
        """Return the log of who is asked as the source partition's leader."""
        log = self.world.source[index]
        return log if index in self._confirmed else self.world.deposed.get(index, log)

    def delete_target_records(self, index: int, before: Offset) -> BrokerProblem | None:
        if self.world.happens(0.2):
            return ConnectionLost("lost")
        code = self.world.target[index].delete_before(before)
        return BrokerError("delete records", kafka_code=code) if code else None

    def expect(self, channel_keys: Iterable[tuple[BrokerId, Channel]]) -> None: ...

    def open(self, target: Iterable[BrokerId]) -> Iterator[None]:
        return iter(())

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        return channel not in self._fetching

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        return len(self._appends.get(channel, ())) < self._in_flight_max

    def is_appending(self, broker: BrokerId, channel: Channel) -> bool:
        return bool(self._appends.get(channel))

    def fetch(
        self, broker: BrokerId, channel: Channel, wants: Sequence[Want], bytes_max: int = 0
    ) -> None:
        self._fetching.add(channel)
        at_s = self.world.clock.now_s + self.world.random.random() * 0.02
        if self.world.happens():
            self._push(at_s, [FetchLost(list(wants), "cut")], channel)
            return
        answers = self._answers(wants, bytes_max)
        events: list[Event] = [*answers]
        if channel.traffic is Traffic.SPARSE:
            news = [*filter(self._is_news, answers)]
            events = [*news, Watched(broker, channel)]
            self._asked.pop(channel, None)
            if next(iter(self.world.ties)) % 5:  # mostly whole, as compiled code takes them
                answer = whole_answer(broker, channel, news, self._counted)
                events, self._asked[channel] = [answer], (list(wants), answer)
        self._push(at_s, events, channel)

    def fetch_again(self, broker: BrokerId, channel: Channel, bytes_max: int = 0) -> bool:
        if channel not in self._asked:
            return False
        wants, answer = self._asked[channel]
        moved = {row[0]: Want(*row) for row in answer.asked.tolist()}
        again = [moved.get(want.index, want) for want in wants]
        self.fetch(broker, channel, again, bytes_max)
        return True

    def _is_news(self, event: Fetched) -> bool:
        index, end = event.want.index, event.high_watermark
        is_news = bool(event.error) or event.end > 0 or event.diverging_epoch is not None
        is_news = is_news or self._heard.get(index) != end
        self._heard[index] = end
        return is_news

    def _answers(self, wants: Sequence[Want], bytes_max: int) -> list[Fetched]:
        """As one request is answered: its limit is that of all partitions together."""
        errors = [self._error(want) for want in wants]
        served = [want for want, error in zip(wants, errors, strict=True) if not error]
        limits, room = self._limits(served, bytes_max)
        asked = [
            FetchOf(self._led(want.index), want.offset, limit, want.last_epoch)
            for want, limit in zip(served, limits, strict=True)
        ]
        given = iter(fetch(asked, room, committed=True))
        found: list[Fetched] = []
        for want, error in zip(wants, errors, strict=True):
            got = Answer(error) if error else next(given)
            data = bytearray(got.data if want.bytes_max else b"")
            self._damage(want.index, data)
            aborted = [Aborted(*each) for each in got.aborted]
            found.append(
                Fetched(
                    *(want, got.error, got.high_watermark, data, 0, len(data)),
                    *(got.last_stable_offset, aborted, got.diverging_epoch),
                )
            )
        return found

    def _limits(self, wants: Sequence[Want], bytes_max: int) -> tuple[list[int], int]:
        """How much of each partition, and of all, an answer has: here less than what is asked."""
        random = self.world.random
        limits = [random.choice([1, 300, 2000]) if each.bytes_max else 0 for each in wants]
        room = random.choice([1, 300, 4000])
        return limits, min(room, bytes_max or room)

    def _damage(self, index: int, data: bytearray) -> None:
        """On the way a bit flips in a base offset: it is outside of its batch's checksum.

        Never in two answers one after the other, and never the same bit as the time before, as an
        answer in between may have been lost: that the same bit does is past believing.
        """
        random, damaged = self.world.random, self.world.damaged
        if not data or not self.world.damage_rate or index in damaged:
            damaged.discard(index)
            return
        if random.random() > self.world.damage_rate:
            return
        damaged.add(index)
        starts, at = [], 0
        while at + OFFSET_BYTES <= len(data):
            starts.append(at)
            at += size_of_first(data[at:]) or len(data)
        bit = random.choice([bit for bit in range(12) if bit != self.world.flipped.get(index)])
        self.world.flipped[index] = bit
        at = random.choice(starts) + OFFSET_BYTES - 1 - bit // 8
        data[at] ^= 1 << bit % 8

    def _error(self, want: Want) -> int:
        if self.world.happens(0.3):
            return NOT_LEADER
        is_another = self.world.source[want.index].identity != self.world.identities[want.index]
        return UNKNOWN_TOPIC_ID if is_another else 0

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        start_s = max(self.world.clock.now_s, self._served_until_s.get(channel, 0.0))
        served_s = start_s + self.world.random.random() * 0.02
        self._served_until_s[channel] = served_s
        self._appends.setdefault(channel, []).append((served_s, sends))

    def append_plain(self, broker: BrokerId, channel: Channel, sends: PlainSends) -> None:
        self.append(broker, channel, OfCompiled(sends))

    def has_unsent(self) -> bool:
        return bool(next(iter(self.world.ties)) % 2)

    def send_on(self) -> None:
        pass

    def send_no_more(self) -> None:
        """A broker that has not taken all at the round's end gets nothing more of it."""
        for channel_key in self._appends.values():
            if channel_key and self.world.happens():
                _, sends = channel_key.pop()
                self._given_up += [*self._cut(channel_key), AppendLost(sends, "not taken in time")]

    def held_bytes(self) -> int:
        return self._held.bytes

    def lines(self) -> tuple[LineUse | None, LineUse | None]:
        return None, None

    def moved(self) -> tuple[int, int]:
        return 0, 0

    def requests(self) -> list[int]:
        return []

    def copy_unsent(self) -> None:
        pass

    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        clock = self.world.clock
        until_s = clock.now_s + timeout_s + 0.0001
        coming = (due[0] for due in self._due if room_bytes > 0 or not _bytes_in(due[2]))
        pending = sorted(coming)[:1]
        pending += [channel_key[0][0] for channel_key in self._appends.values() if channel_key]
        pending += [self._map_line[0]] if self._map_line is not None else []
        clock.now_s = max(clock.now_s, min([until_s, *pending]))
        self.world.settle_late()
        events, self._given_up = [*self._serve_map(), *self._given_up], []
        if self.world.happens(0.1):
            events.append(self._silence())
        for channel_key in self._appends.values():
            while channel_key and channel_key[0][0] <= clock.now_s:
                if self.world.happens():
                    events.extend(self._cut(channel_key))
                    break
                _, sends = channel_key.pop(0)
                events.extend(self._served(sends))
        return events + self._taken(room_bytes)

    def _taken(self, room_bytes: int) -> list[Event]:
        """Answers to fetches that have come; what finds no room stays where it is."""
        events: list[Event] = []
        left = []
        while self._due and self._due[0][0] <= self.world.clock.now_s:
            due = heapq.heappop(self._due)
            _, _, answer, channel = due
            size = _bytes_in(answer)
            if size and room_bytes <= 0:
                left.append(due)
                continue
            room_bytes -= size
            self._fetching.discard(channel)
            events.extend(
                self._counted(each) if isinstance(each, Fetched) else each for each in answer
            )
        for due in left:
            heapq.heappush(self._due, due)
        return events

    def _counted(self, event: Fetched) -> Fetched:
        if not event.end:
            return event
        return event._replace(buffer=self._held.view(bytearray(event.buffer)))

    def _silence(self) -> Unanswered:
        """A broker does not answer for a while: what is under way may be answered yet."""
        indexes = [i for i in range(len(self.world.source)) if self.world.random.random() < 0.5]
        is_target = self.world.random.random() < 0.5
        return Unanswered(indexes, ConnectionLost("the broker does not answer"), is_target)

    def _served(self, sends: Sequence[Send]) -> list[Event]:
        answers = [self._serve(send) for send in sends]
        if not isinstance(sends, OfCompiled) or any(
            each.error or each.is_repeated for each in answers
        ):
            return [*answers]
        sends.plain.rows[:, LANDED_AT] = [each.base_offset for each in answers]
        return [PlainAppended(sends.plain)]

    def _serve(self, send: Send) -> Appended:
        data = b"".join(send.batch.parts)
        if self.world.happens(0.5):
            error = self.world.random.choice([NOT_LEADER, NOT_ENOUGH, TIMED_OUT, AFTER_APPEND])
            if error == AFTER_APPEND or (error == TIMED_OUT and self.world.random.random() < 0.5):
                code, _ = self.world.serve(send, data)
                error = code or error
            return Appended(send, error, -1, "")
        code, base = self.world.serve(send, data)
        is_repeated = not send.batch.fills and self.world.target[send.index].was_known
        return Appended(send, code, base, "", is_repeated=is_repeated)

    def _cut(self, channel_key: list[tuple[float, Sequence[Send]]]) -> list[Event]:
        """The connection breaks: each request was served, is served later, or never arrives."""
        lost: list[Event] = []
        late_s, waits_s = self.world.clock.now_s, 0.0
        is_arriving = True
        for _, sends in channel_key:
            late_s += waits_s
            waits_s = self.world.random.random() * self.world.replicas_s
            is_arriving = is_arriving and self.world.random.random() < 0.7
            for send in sends if is_arriving else ():
                data = b"".join(send.batch.parts)
                late_s += self.world.random.random() * self.world.late_s
                tie = next(iter(self.world.ties))
                heapq.heappush(self.world.late, (late_s, tie, send, data))
            lost.append(AppendLost(list(sends), "cut"))
        channel_key.clear()
        if self.world.random.random() < 0.5:
            self.world.settle_late()
        return lost

    def cut_all(self) -> None:
        """Close every connection: no answer is waited for any more."""
        for channel_key in self._appends.values():
            self._cut(channel_key)
        self._cut_map()
        self._due.clear()

    def _push(self, at_s: float, answer: Sequence[Event], channel: Channel) -> None:
        heapq.heappush(self._due, (at_s, next(iter(self.world.ties)), answer, channel))
