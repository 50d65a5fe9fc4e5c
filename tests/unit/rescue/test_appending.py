"""A tail is appended once, wherever its appending is cut short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.errors import BrokerError, Refused
from heliostat.exporting.exported import CREATE_TIME, ExportedRecord
from heliostat.exporting.origin import Origin
from heliostat.names import ClusterId, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.rescue import appending
from heliostat.rescue.appending import RefusedRecord, TailAppender, TailFrom, TailRules
from heliostat.rescue.newer_keys import NEWER, NO_KEY, NewerKeys
from heliostat.rescue.notes import TailNote
from heliostat.verify.stream import ConsumedRecord

SOURCE = TopicPartition(TopicName("orders"), PartitionId(3))
TARGET = TopicPartition(TopicName("west.orders"), PartitionId(3))
CLUSTER = ClusterId("east")
WANTED = TailNote(SOURCE, TARGET, "a", "b", Offset(100), Offset(100), by="ann")
END = Offset(130)


class Crash(Exception):
    """The process is killed here."""


@dataclass
class SteppedClock:
    now_s: float = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.monotonic_s() * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Broker:
    """One partition, and what its leader remembers of producers."""

    rows: list[ConsumedRecord] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    appended: dict[tuple[int, int, int], int] = field(default_factory=dict)
    notes: dict[str, TailNote] = field(default_factory=dict)
    producers: int = 0
    refuses: frozenset[bytes] = frozenset()

    def take(self, data: bytes) -> Offset | BrokerError:
        batch = DefaultRecordBatch(data)
        assert batch.validate_crc()
        rows = [(r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
        if any(row[2] in self.refuses for row in rows):
            return BrokerError("refused", kafka_code=10)
        if (pid := batch.producer_id) >= 0:
            last = batch.base_sequence + len(rows) - 1
            if (pid, batch.base_sequence, last) in self.appended:
                return Offset(self.appended[pid, batch.base_sequence, last])
            if pid in self.sequences and batch.base_sequence != self.sequences[pid] + 1:
                return BrokerError("out of order", kafka_code=45)
            self.sequences[pid] = last
            self.appended[pid, batch.base_sequence, last] = len(self.rows)
        base = len(self.rows)
        self.rows += [(base + n, *row) for n, row in enumerate(rows)]
        return Offset(base)

    def others(self, *keys: bytes) -> None:
        for key in keys:
            self.rows.append((len(self.rows), 5, key, b"new", []))

    def forget(self) -> None:
        self.sequences.clear()
        self.appended.clear()

    def rescued(self) -> list[int]:
        origins = [Origin.of(row[4]) for row in self.rows]
        return [origin.offset for origin in origins if origin is not None]


@dataclass
class Process:
    """One attempt, which is killed at its nth step."""

    broker: Broker
    dies_after: int = 1_000_000
    clock: SteppedClock = field(default_factory=SteppedClock)
    kept: list[RefusedRecord] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    steps: int = 0
    between: bytes | None = None
    """A key that others write right before the next append."""

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.dies_after:
            raise Crash

    def new_producer(self) -> ProducerId:
        self.broker.producers += 1
        return ProducerId(self.broker.producers)

    def last_sequence(self, partition: TopicPartition, producer: ProducerId) -> int | None:
        assert partition == TARGET
        return self.broker.sequences.get(producer)

    def end(self, partition: TopicPartition) -> Offset:
        return Offset(len(self.broker.rows))

    def records(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> Iterable[ConsumedRecord]:
        return [row for row in self.broker.rows if start <= row[0] < stop]

    def append(self, partition: TopicPartition, batch: bytes) -> Offset | BrokerError:
        if self.between is not None:
            self.broker.others(self.between)
            self.between = None
        self.sent.append(batch)
        self.step()
        answer = self.broker.take(batch)
        self.step()
        return answer

    def of(self, wanted: TailNote) -> TailNote:
        note = self.broker.notes.get(wanted.key)
        return wanted if note is None or not note.is_about(wanted) else note

    def write(self, note: TailNote, at_ms: int) -> TailNote:
        self.step()
        self.broker.notes[note.key] = note
        self.step()
        return note

    def run(self, newer: NewerKeys | None = None, tail: TailFrom | None = None) -> TailNote:
        rules = TailRules(_judge, self.kept.extend, newer)
        appender = TailAppender(self, self, self.clock, CLUSTER)
        return appender.append(WANTED, END, tail or tail_from, rules)


def record(offset: int) -> ExportedRecord:
    return ExportedRecord(
        *(SOURCE, Offset(offset), 1_000 + offset, CREATE_TIME),
        *(b"k%d" % (offset % 10), b"v%d" % offset, (("trace", None),)),
    )


def tail_from(first: Offset) -> Iterator[ExportedRecord]:
    return (record(offset) for offset in range(first, END) if offset != 115)  # a hole


def _judge(given: ExportedRecord) -> str:
    return "another schema" if given.offset == 120 else ""


ALL = [offset for offset in range(100, END) if offset not in {115, 120}]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "BATCH_RECORDS", 7)


def test_records_come_with_their_origin_and_all_they_had() -> None:
    """Given a tail / when it is appended / then each record is there once, as it was, and says

    from where; what may not be appended is kept elsewhere; the note says that all is done.
    """
    broker = Broker()
    process = Process(broker)
    note = process.run()
    assert broker.rescued() == ALL
    assert broker.rows[0][1:4] == (1_100, b"k0", b"v100")
    assert broker.rows[0][4] == [("trace", None), ("heliostat.origin", b"east/orders/3/100")]
    assert [(row.record.offset, row.why) for row in process.kept] == [(120, "another schema")]
    assert (note.appended, note.refused, note.next, note.is_open) == (len(ALL), 1, END, False)
    again = Process(broker)
    assert again.run() == note
    assert again.steps == 0


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("lands_late", [False, True])
def test_a_process_that_is_killed_anywhere_leaves_no_second_copy(
    *, is_forgotten: bool, lands_late: bool
) -> None:
    """Given a process that is killed at any step, whose last batch may land late, while others

    write / when another goes on, which may be killed as well / then each record is there once.
    """
    finished = 0
    for dies_after in range(60):
        broker = Broker()
        broker.others(b"x")
        first = Process(broker, dies_after)
        try:
            first.run()
            finished += 1
        except Crash:
            broker.others(b"y", b"z")
        if lands_late and first.sent:
            broker.take(first.sent[-1])
        if is_forgotten:
            broker.forget()
        second = Process(broker, dies_after // 2)
        with suppress(Crash):
            second.run()
        if lands_late and first.sent and not is_forgotten:
            broker.take(first.sent[-1])
        Process(broker).run()
        assert broker.rescued() == ALL, dies_after
    assert finished


def test_two_at_once_append_each_record_once() -> None:
    """Given a process that stands still while another goes on / when it wakes up / then it is

    refused, or its records are those that are there already.
    """
    broker = Broker()
    frozen = Process(broker, dies_after=6)
    with pytest.raises(Crash):
        frozen.run()
    Process(broker).run()
    frozen.dies_after = 1_000_000
    rules = TailRules(_judge, frozen.kept.extend)
    appender = TailAppender(frozen, frozen, frozen.clock, CLUSTER)
    stale = TailNote(SOURCE, TARGET, "a", "b", Offset(100), Offset(107), is_open=True)
    with pytest.raises(Refused, match="another process"):
        appender._flushed(
            replace(stale, producer_id=ProducerId(1), sequence=7),
            appending._Batch([record(107), record(108)], 10),
            rules,
        )
    assert broker.rescued() == ALL


def test_who_comes_while_another_appends_old_records_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a broker that forgot the producer, and a note that goes on / when asked / refused."""
    broker = Broker()
    with pytest.raises(Crash):
        Process(broker, dies_after=8).run()
    broker.forget()
    (key,) = broker.notes
    second = Process(broker)

    def write(_: float) -> None:
        broker.notes[key] = replace(broker.notes[key], at_ms=99)

    monkeypatch.setattr(second.clock, "sleep", write)
    with pytest.raises(Refused, match="another process"):
        second.run()


def test_what_was_appended_and_is_gone_stops_the_next_run() -> None:
    """Given appended records that the target deleted since / when going on / then it refuses."""
    broker = Broker()
    with pytest.raises(Crash):
        Process(broker, dies_after=6).run()
    broker.rows = [(n, 0, b"x", b"", []) for n in range(len(broker.rows))]
    with pytest.raises(Refused, match="of 14 records of orders-3"):
        Process(broker).run()


def test_a_record_that_the_target_refuses_goes_elsewhere_alone() -> None:
    """Given one record that is too large / when appended / then all others are, and it is kept."""
    broker = Broker(refuses=frozenset({b"v117"}))
    process = Process(broker)
    note = process.run()
    assert sorted(broker.rescued()) == [offset for offset in ALL if offset != 117]
    assert {(row.record.offset, row.why) for row in process.kept} == {
        (117, "larger than the target accepts"),
        (120, "another schema"),
    }
    assert (note.appended, note.refused) == (len(ALL) - 1, 2)


def newer_keys(process: Process) -> NewerKeys:
    return NewerKeys(
        lambda start, stop: process.records(TARGET, start, stop),
        Offset(0),
        (b"k%d" % number for number in range(10)),
        lambda headers: Origin.of(headers) is not None,
    )


def test_an_older_value_never_comes_behind_a_newer_one() -> None:
    """Given a compacted topic, one key of which others wrote since, and another one right while

    its batch is sent / when the tail is appended / then records of the first are kept elsewhere,
    and of both the newer value is the last.
    """
    broker = Broker()
    broker.others(b"k3")
    process = Process(broker, between=b"k5")
    process.run(newer_keys(process))
    last = {row[2]: row[3] for row in broker.rows}
    assert (last[b"k3"], last[b"k5"], last[b"k4"]) == (b"new", b"new", b"v124")
    reasons = {(row.record.key, row.why) for row in process.kept}
    assert reasons == {(b"k3", NEWER), (b"k5", NEWER), (b"k0", "another schema")}


def test_a_crash_before_the_newer_value_was_put_back_is_mended_by_the_next_run() -> None:
    """Given a process killed after its batch overtook another's record / when going on / mended."""
    broker = Broker()
    process = Process(broker, dies_after=4, between=b"k5")
    with pytest.raises(Crash):
        process.run(newer_keys(process))
    assert {row[2]: row[3] for row in broker.rows}[b"k5"] == b"v105"
    again = Process(broker)
    again.run(newer_keys(again))
    assert {row[2]: row[3] for row in broker.rows}[b"k5"] == b"new"
    offsets = broker.rescued()
    assert len(offsets) == len(set(offsets))


def test_a_compacted_target_takes_no_record_without_a_key() -> None:
    """Given a record without a key / when the target compacts / then it may not be appended."""
    assert newer_keys(Process(Broker())).why_not(None) == NO_KEY
