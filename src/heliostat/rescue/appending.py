"""Appends the tail of a partition to the topic that was its mirror: each record once; no socket.

The target has other writers now, so its log's end is no position. A batch is sent as an idempotent
producer does: its sequence counts what this tail has appended, so a batch that is sent again, or
that lands late, is appended once (KIP-98). Before the first batch a note is durable that names the
producer and the target's log end.

Who goes on after a crash finds its own records behind that end, by their header. As long as the
broker remembers the producer, its last sequence says how many there must be, and whatever may still
land has a sequence that is taken. A broker forgets producers of old records: then one waits until
nothing can land, and sees whether somebody else appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from heliostat.clock import Clock
from heliostat.clusters.kafka_codes import MESSAGE_TOO_LARGE
from heliostat.errors import BrokerError, ConnectionLost, Refused, Verdict
from heliostat.exporting.exported import ExportedRecord
from heliostat.exporting.origin import Origin
from heliostat.names import ClusterId, Offset, ProducerId, TopicPartition
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.encode import NewRecord, encode_batch
from heliostat.rescue.newer_keys import NewerKeys
from heliostat.rescue.notes import TailNote
from heliostat.verify.stream import ConsumedRecord

BATCH_BYTES, BATCH_RECORDS = 256 << 10, 1_000
NOTE_EVERY_S = 5.0
"""Between two notes; so much is read again after a crash."""
LANDS_WITHIN_S = 15.0
"""Longer than a request takes, and than it takes to write two notes."""
PATIENCE_S, PAUSE_S = 60.0, 0.2
DUPLICATE_SEQUENCE = 46
SEQUENCE_LOST = frozenset({45, 47, 59, 90})
"""OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED."""
REFUSALS = {
    MESSAGE_TOO_LARGE: "larger than the target accepts",
    18: "larger than the target accepts",
    32: "its timestamp is refused by the target",
    87: "refused by the target",
}
"""Errors by which a broker refuses records for what they are: RECORD_LIST_TOO_LARGE,
INVALID_TIMESTAMP, INVALID_RECORD."""
SEQUENCE_MAX = (1 << 31) - 1


class TargetLog(Protocol):
    """The topic that was the mirror, as the appender needs it."""

    def new_producer(self) -> ProducerId:
        """Return a new producer id."""
        ...

    def last_sequence(self, partition: TopicPartition, producer: ProducerId) -> int | None:
        """Return its last sequence there; None: the broker knows none."""
        ...

    def end(self, partition: TopicPartition) -> Offset:
        """Return the log's end, with records that are not replicated yet."""
        ...

    def records(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> Iterable[ConsumedRecord]:
        """Yield all records with offsets in `[start, stop)`."""
        ...

    def append(self, partition: TopicPartition, batch: bytes) -> Offset | BrokerError:
        """Append a batch; return its base offset, or why not."""
        ...


class NoteBook(Protocol):
    """Where notes are durable."""

    def of(self, wanted: TailNote) -> TailNote:
        """Return the note about the same tail, or else the one that is given."""
        ...

    def write(self, note: TailNote, at_ms: int) -> TailNote:
        """Write a note; return it as it is now."""
        ...


class RefusedRecord(NamedTuple):
    """A record that is not appended, and why."""

    record: ExportedRecord
    why: str


Judge = Callable[[ExportedRecord], str]
"""Returns why a record may not be appended; empty: it may."""
Keep = Callable[[list[RefusedRecord]], None]
"""Keeps refused records elsewhere; they are durable when it returns."""
TailFrom = Callable[[Offset], Iterator[ExportedRecord]]
"""Yields the records of a tail from a source offset on."""


@dataclass(frozen=True, slots=True)
class TailRules:
    """What is not appended, and what becomes of it."""

    judge: Judge
    keep: Keep
    newer: NewerKeys | None = None
    """Keys that others wrote at the target since; None: the target does not compact."""
    is_late: Callable[[], bool] = lambda: False
    """Whether to stop after a batch; whoever comes again goes on."""


@dataclass(slots=True)
class _Batch:
    records: list[ExportedRecord] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= BATCH_BYTES or len(self.records) >= BATCH_RECORDS

    def add(self, record: ExportedRecord) -> None:
        self.records.append(record)
        self.size += record.size


class TailAppender:
    """Appends tails of one link's partitions, one after the other.

    Parameters
    ----------
    log, notes, clock
        The target, where notes are durable, and time.
    cluster
        The source's id, for headers.
    """

    def __init__(self, log: TargetLog, notes: NoteBook, clock: Clock, cluster: ClusterId) -> None:
        self._log = log
        self._notes = notes
        self._clock = clock
        self._cluster = cluster
        self._producer: ProducerId | None = None
        self._noted_s = 0.0

    def append(self, wanted: TailNote, end: Offset, tail: TailFrom, rules: TailRules) -> TailNote:
        """Append a partition's tail, and go on where somebody was stopped; return its last note.

        It is open still if there was no time for all of it.

        Parameters
        ----------
        wanted
            The note of a tail that nobody has begun.
        end
            Source offset at which the tail ends.
        tail
            Its records.
        rules
            What of it is not appended.

        Raises
        ------
        Refused
            Another process appends, or what was appended before can't be found again.
        ConnectionLost, BrokerError
            The target does not answer or refuses; whoever comes again goes on.
        """
        note = replace(self._notes.of(wanted), by=wanted.by)
        if note.next >= end and not note.is_open:
            return note
        note = self._gone_on(note) if note.is_open else self._begun(note)
        if rules.newer is not None:
            self._mend(note, rules.newer)
        batch = _Batch()
        for record in tail(note.next):
            if why := self._why_not(record, rules):
                note = self._flushed(note, batch, rules)
                rules.keep([RefusedRecord(record, why)])
                note = replace(note, refused=note.refused + 1, next=Offset(record.offset + 1))
                continue
            batch.add(record)
            if batch.is_full:
                note = self._flushed(note, batch, rules)
                if rules.is_late():
                    return self._noted(note)
        note = self._flushed(note, batch, rules)
        return self._noted(replace(note, next=end, is_open=False))

    def _why_not(self, record: ExportedRecord, rules: TailRules) -> str:
        if rules.newer is not None and (why := rules.newer.why_not(record.key)):
            return why
        return rules.judge(record)

    def _begun(self, note: TailNote) -> TailNote:
        if self._producer is None:
            self._producer = self._log.new_producer()
        look_from = self._log.end(note.target)
        return self._noted(
            replace(note, producer_id=self._producer, sequence=0, look_from=look_from, is_open=True)
        )

    def _gone_on(self, note: TailNote) -> TailNote:
        """Return where a tail goes on whose appending was cut short."""
        assert note.producer_id is not None
        last = self._log.last_sequence(note.target, note.producer_id)
        if last is None:
            self._wait_for_others(note)
        counted, following, own_end = self._own_records(note)
        if last is not None and counted < last + 1 - note.sequence:
            raise Refused(
                f"of {last + 1 - note.sequence} records of {note.source} that were appended to "
                f"{note.target} from offset {note.look_from} on, {counted} are there",
                hint="the target has deleted or compacted them since: export the tail, compare, "
                "and drop what is left",
            )
        moved = replace(note, appended=note.appended + counted, next=following, look_from=own_end)
        if last is None:
            return self._begun(moved)
        return self._noted(replace(moved, sequence=note.sequence + counted))

    def _own_records(self, note: TailNote) -> tuple[int, Offset, Offset]:
        """Return how many of the tail's records lie where the note does not count them.

        With the source offset behind the last of them, and the target offset.
        """
        counted, following, own_end = 0, note.next, note.look_from
        end = self._log.end(note.target)
        for record in self._log.records(note.target, note.look_from, end):
            origin = Origin.of(record[4])
            if origin is None or (origin.cluster, origin.partition) != (self._cluster, note.source):
                continue
            if origin.offset < note.next:
                continue  # of an earlier time
            counted, following = counted + 1, max(following, Offset(origin.offset + 1))
            own_end = Offset(record[0] + 1)
        return counted, following, own_end

    def _wait_for_others(self, note: TailNote) -> None:
        self._clock.sleep(LANDS_WITHIN_S)
        if self._notes.of(note).at_ms != note.at_ms:
            raise _is_another(note)

    def _flushed(self, note: TailNote, batch: _Batch, rules: TailRules) -> TailNote:
        """Append what is collected; return the note with it counted."""
        waiting, batch.records, batch.size = batch.records, [], 0
        while waiting:
            if rules.newer is not None:
                waiting, note = self._without_newer(note, waiting, rules)
                if not waiting:
                    break
            some, note = self._appended(note, waiting, rules)
            waiting = waiting[some:]
            if rules.newer is not None:
                self._mend(note, rules.newer)
        if self._clock.monotonic_s() - self._noted_s >= NOTE_EVERY_S:
            note = self._noted(note)
        return note

    def _without_newer(
        self, note: TailNote, records: list[ExportedRecord], rules: TailRules
    ) -> tuple[list[ExportedRecord], TailNote]:
        """Keep aside whose keys others have written since the records were judged."""
        assert rules.newer is not None
        rules.newer.read_to(self._log.end(note.target))
        refused = [
            RefusedRecord(record, why)
            for record in records
            if (why := rules.newer.why_not(record.key))
        ]
        if not refused:
            return records, note
        rules.keep(refused)
        kept = {row.record.offset for row in refused}
        return (
            [record for record in records if record.offset not in kept],
            replace(note, refused=note.refused + len(refused)),
        )

    def _appended(
        self, note: TailNote, records: list[ExportedRecord], rules: TailRules
    ) -> tuple[int, TailNote]:
        """Append as many of the first records as the target takes at once; return how many.

        A single one that it refuses for what it is goes elsewhere.
        """
        some = len(records)
        while True:  # ends: a single record is appended or refused
            answer = self._sent(note, records[:some])
            if not isinstance(answer, BrokerError):
                landed = answer if answer >= 0 else note.look_from
                return some, replace(
                    note,
                    appended=note.appended + some,
                    sequence=note.sequence + some,
                    next=Offset(records[some - 1].offset + 1),
                    look_from=max(note.look_from, landed),
                )
            if some == 1:
                rules.keep([RefusedRecord(records[0], REFUSALS[answer.kafka_code])])
                return 1, replace(
                    note, refused=note.refused + 1, next=Offset(records[0].offset + 1)
                )
            some = -(-some // 8)

    def _sent(self, note: TailNote, records: list[ExportedRecord]) -> Offset | BrokerError:
        """Send a batch until it is appended, or refused for what its records are."""
        if note.sequence + len(records) > SEQUENCE_MAX:
            raise Refused(f"the tail of {note.source} has more records than one producer may write")
        assert note.producer_id is not None
        batch = encode_batch(
            [self._rescued(record) for record in records],
            codec=Codec.LZ4,
            producer_id=note.producer_id,
            sequence=note.sequence,
        )
        until_s = self._clock.monotonic_s() + PATIENCE_S
        while True:  # ends with an answer, or when patience does
            answer = self._log.append(note.target, batch)
            if not isinstance(answer, BrokerError) or answer.kafka_code in REFUSALS:
                return answer
            if answer.kafka_code == DUPLICATE_SEQUENCE:
                return Offset(-1)
            if answer.kafka_code in SEQUENCE_LOST:
                raise _is_another(note) from answer
            if answer.kafka.verdict is not Verdict.RETRY:
                raise answer
            if self._clock.monotonic_s() >= until_s:
                text = f"{note.target} takes no records: {answer.text}"
                raise ConnectionLost(text, hint="ask again: it goes on") from answer
            if self._clock.monotonic_s() - self._noted_s >= NOTE_EVERY_S:
                self._noted(note)
            self._clock.sleep(PAUSE_S)

    def _mend(self, note: TailNote, newer: NewerKeys) -> None:
        """Append again what others wrote between our look at a key and our append of it.

        Else the older value would be the key's last one.
        """
        while True:  # ends: each time fewer records can have come in between
            newer.read_to(self._log.end(note.target))
            overtaken = newer.overtaken()
            if not overtaken:
                return
            for offset in overtaken:
                for record in self._log.records(note.target, offset, Offset(offset + 1)):
                    _, timestamp_ms, key, value, headers = record
                    batch = encode_batch([NewRecord(key, value, timestamp_ms, tuple(headers))])
                    answer = self._log.append(note.target, batch)
                    if isinstance(answer, BrokerError):
                        raise answer

    def _rescued(self, record: ExportedRecord) -> NewRecord:
        origin = Origin(self._cluster, record.partition, record.offset)
        headers = (*record.headers, origin.header)
        return NewRecord(record.key, record.value, record.timestamp_ms, headers)

    def _noted(self, note: TailNote) -> TailNote:
        self._noted_s = self._clock.monotonic_s()
        return self._notes.write(note, self._clock.wall_ms())


def _is_another(note: TailNote) -> Refused:
    return Refused(
        f"another process appends the tail of {note.source} to {note.target}",
        hint="wait until it is done, and ask again: nothing is appended twice",
    )
