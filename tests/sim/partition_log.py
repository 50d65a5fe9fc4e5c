"""A small model of one partition's log: Kafka's sequence rules, transactions, cleaning, truncation.

`tests/kafka/test_log_contract.py` and `test_log_cleaning_contract.py` check it on a real broker, so
that the simulation cannot lie.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sim.log_batches import (
    ABORT,
    COMMIT,
    HEADER,
    Fields,
    Kept,
    at_offset,
    control_kind,
    fields_of,
    is_crc_valid,
    is_whole,
    marker,
    records_of,
    with_holes,
)

__all__ = ["HEADER", "MODULUS", "PartitionLog", "StoredBatch"]

MODULUS = 2**31
REMEMBERED_BATCHES = 5

NONE, OUT_OF_RANGE, CORRUPT, OUT_OF_ORDER, STALE_EPOCH = 0, 1, 2, 45, 47
COORDINATOR_FENCED, INVALID_RECORD = 52, 87


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """`data` is as it was sent, at base offset 0; with holes where a cleaner was at work."""

    base_offset: int
    next_offset: int
    data: bytes
    leader_epoch: int = 0

    @property
    def count(self) -> int:
        """Records in it, or that were in it before it was cleaned."""
        return self.next_offset - self.base_offset


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction in the index of aborted ones: from its first record to its marker."""

    producer_id: int
    first: int
    last: int


@dataclass(slots=True)
class Producer:
    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    """First sequence, last sequence, base offset."""
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """-1 of one that wrote only markers: its first sequence is 0, as of a new epoch."""
        return self.batches[-1][1] if self.batches else -1


class PartitionLog:
    """One replica, everything replicated at once."""

    def __init__(self, identity: int = 0) -> None:
        self.identity = identity
        """The topic's id: another one after it was recreated."""
        self.leader_epoch = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        """Leader epochs and where they begin; one that brought nothing is left out."""
        self.batches: list[StoredBatch] = []
        self.start = 0
        self.end = 0
        self.producers: dict[int, Producer] = {}
        self.open: dict[int, int] = {}
        """First offset of each open transaction, by producer id."""
        self.aborted: list[Aborted] = []
        self.changes = 0
        """Counted: what was read of it is true until the next one."""
        self.was_known = False
        """Whether the last append was answered as a duplicate, with an append time."""

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: what readers of committed records may read up to."""
        return min(self.open.values()) if self.open else self.end

    # -- appending -----------------------------------------------------------------------------

    def append(self, data: bytes) -> tuple[int, int]:
        """Append a batch; return error code and base offset, and set `was_known`.

        Who may write transactions, and how far ahead of the clock timestamps may be, is not
        looked at.
        """
        self.was_known = False
        code = _refusal(data)
        if code:
            return code, -1
        fields = fields_of(data)
        if fields.producer_id >= 0:
            answer = self._check_sequence(fields)
            if answer is not None:
                return answer
        base = self.end
        self._take(data, fields)
        return NONE, base

    def end_transaction(
        self,
        pid: int,
        epoch: int,
        timestamp_ms: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
    ) -> int:
        """Append a marker, also where no transaction is open (`WriteTxnMarkers`); an error code."""
        known = self.producers.get(pid)
        if known is not None and epoch < known.epoch:
            return STALE_EPOCH
        if known is not None and coordinator_epoch < known.coordinator_epoch:
            return COORDINATOR_FENCED
        data = marker(pid, epoch, timestamp_ms, COMMIT if commit else ABORT)
        self._take(data, fields_of(data))
        self.producers[pid].coordinator_epoch = coordinator_epoch
        return NONE

    def _take(self, data: bytes, fields: Fields) -> None:
        self.changes += 1
        base = self.end
        batch = StoredBatch(base, base + fields.last_delta + 1, data, self.leader_epoch)
        self.batches.append(batch)
        self.end = batch.next_offset
        self._learn(batch, fields)

    def _learn(self, batch: StoredBatch, fields: Fields) -> None:
        """What a broker remembers of producers and transactions, from a batch of the log."""
        pid, base = fields.producer_id, batch.base_offset
        if pid < 0:
            return
        known = self.producers.get(pid)
        if known is None or known.epoch != fields.epoch:
            known = self.producers[pid] = Producer(fields.epoch)
        known.last_timestamp_ms = fields.max_timestamp
        if fields.is_control:
            first = self.open.pop(pid, None)
            if first is not None and control_kind(batch.data) == ABORT:
                self.aborted.append(Aborted(pid, first, base))
            return
        known.batches.append(
            (fields.sequence, (fields.sequence + fields.last_delta) % MODULUS, base)
        )
        if fields.is_transactional:
            self.open.setdefault(pid, base)

    def _check_sequence(self, fields: Fields) -> tuple[int, int] | None:
        known = self.producers.get(fields.producer_id)
        if known is None:
            return None  # unknown producer: any first sequence is taken
        if fields.epoch < known.epoch:
            return STALE_EPOCH, -1
        if fields.epoch > known.epoch:
            return None if fields.sequence == 0 else (OUT_OF_ORDER, -1)
        last = (fields.sequence + fields.last_delta) % MODULUS
        for first, end, base in known.batches:
            if (first, end) == (fields.sequence, last):
                self.was_known = True
                return NONE, base
        if fields.sequence != (known.last_sequence + 1) % MODULUS:
            return OUT_OF_ORDER, -1
        return None

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """The sweep: producers are forgotten by the timestamp of their last batch."""
        self.producers = {
            pid: producer
            for pid, producer in self.producers.items()
            if now_ms - producer.last_timestamp_ms < expiration_ms or pid in self.open
        }

    # -- what makes holes ----------------------------------------------------------------------

    def delete_before(self, offset: int) -> int:
        """DeleteRecords; an error code. What lies below the start already is no error."""
        if not 0 <= offset <= self.end:
            return OUT_OF_RANGE
        self.changes += 1
        self.start = max(self.start, offset)
        known = [epoch for epoch, begin in self.epochs if begin <= self.start]
        behind = [each for each in self.epochs if each[1] > self.start]
        self.epochs = [(known[-1], self.start), *behind]
        return NONE

    def lead(self, epoch: int) -> None:
        """A leader begins its epoch where the log ends (`LeaderEpochFileCache.assign`)."""
        self.leader_epoch = epoch
        self.epochs = [each for each in self.epochs if each[1] < self.end and each[0] < epoch]
        self.epochs.append((epoch, self.end))

    def truncate(self, end: int) -> None:
        """Truncate to a new leader's end: whole batches are removed, and the epoch increases."""
        self.changes += 1
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.end = max(self.start, self.batches[-1].next_offset if self.batches else 0)
        self.epochs = [each for each in self.epochs if each[1] < self.end] or self.epochs[:1]
        self.lead(self.leader_epoch + 1)
        self.producers, self.open, self.aborted = {}, {}, []
        for batch in self.batches:
            self._learn(batch, fields_of(batch.data))

    def clean(
        self,
        upto: int,
        *,
        drops_tombstones: bool = False,
        drops_markers: bool = False,
        horizon_ms: int | None = None,
    ) -> None:
        """Compact what lies before an offset, as the cleaner does with closed segments.

        Of each key the newest record before `upto` stays, of aborted transactions none, nor what
        has no key. Batches keep their offsets; an empty one stays where it is the last of its
        producer, so that the sequence is not forgotten (`Cleaner.cleanInto`). A marker, and the
        index entry of an aborted transaction, go only when nothing of the transaction was left
        before this run (`CleanedTransactionMetadata`).
        """
        self.changes += 1
        upto = min(upto, self.last_stable_offset)
        newest = {
            record.key: batch.base_offset + record.delta
            for batch in self.visible(upto)
            for record in records_of(batch.data)
        }
        last_of = {fields_of(batch.data).producer_id: batch for batch in self.batches}
        kept: list[StoredBatch] = []
        with_data: set[int] = set()
        for batch in self.batches:
            if batch.next_offset > upto:
                kept.append(batch)
                continue
            fields, records = fields_of(batch.data), records_of(batch.data)
            if fields.is_control:
                needed = fields.producer_id in with_data
                with_data.discard(fields.producer_id)
                if not needed:
                    self.aborted = [a for a in self.aborted if a.last != batch.base_offset]
                stays = () if drops_markers and not needed else records
            elif self._is_aborted(fields, batch):
                stays = ()
            else:
                stays = tuple(
                    record
                    for record in records
                    if record.key is not None
                    and newest[record.key] == batch.base_offset + record.delta
                    and not (drops_tombstones and record.value is None)
                )
            if fields.is_transactional and not fields.is_control:
                with_data.add(fields.producer_id)
            is_last = last_of[fields.producer_id] is batch and fields.producer_id >= 0
            if stays == records and (horizon_ms is None or not stays):
                kept.append(batch)
            elif stays or is_last:
                data = with_holes(batch.data, stays, horizon_ms if stays else None)
                kept.append(replace(batch, data=data))
        self.batches = kept

    def visible(self, upto: int) -> Iterator[StoredBatch]:
        """Batches before an offset, without markers and aborted ones."""
        for batch in self.batches:
            if batch.next_offset > upto:
                break
            fields = fields_of(batch.data)
            if not (fields.is_control or self._is_aborted(fields, batch)):
                yield batch

    def _is_aborted(self, fields: Fields, batch: StoredBatch) -> bool:
        return fields.is_transactional and any(
            each.producer_id == fields.producer_id and each.first <= batch.base_offset <= each.last
            for each in self.aborted
        )

    # -- reading -------------------------------------------------------------------------------

    def read(
        self, offset: int, bytes_max: int, *, committed: bool = False, is_cut: bool = False
    ) -> bytes:
        """Whole batches from the one that holds `offset` on; at least one if there is any.

        With `is_cut` also the beginning of the batch that reaches beyond `bytes_max`.
        """
        out: list[bytes] = []
        size = 0
        stop = self.last_stable_offset if committed else self.end
        for batch in self.batches:
            if batch.next_offset <= offset:
                continue
            if batch.base_offset >= stop:
                break
            if out and size + len(batch.data) > bytes_max:
                out += [at_offset(batch.data, batch.base_offset, batch.leader_epoch)] * is_cut
                break
            stored = at_offset(batch.data, batch.base_offset, batch.leader_epoch)
            out.append(stored)
            size += len(stored)
        return b"".join(out)

    def aborted_from(self, offset: int, stop: int) -> list[tuple[int, int]]:
        """Aborted transactions that reach into `[offset, stop)`: producer id and first offset."""
        return [
            (each.producer_id, each.first)
            for each in self.aborted
            if each.last >= offset and each.first < stop
        ]

    def committed(self) -> list[tuple[int, Kept]]:
        """Records that readers of committed ones see, with their offsets."""
        return [
            (batch.base_offset + record.delta, record)
            for batch in self.visible(self.last_stable_offset)
            for record in records_of(batch.data)
            if batch.base_offset + record.delta >= self.start
        ]


def _refusal(data: bytes) -> int:
    """Why bytes are not even looked at as the next batch of a log; an error code, or 0."""
    if not is_whole(data):
        return INVALID_RECORD
    if not is_crc_valid(data):
        return CORRUPT
    fields = fields_of(data)
    is_begun = struct.unpack_from(">q", data, 0)[0] == 0
    is_dense = fields.count == fields.last_delta + 1 and fields.count >= 1
    has_sequence = fields.producer_id < 0 or fields.sequence >= 0
    is_sound = is_begun and is_dense and has_sequence and not fields.is_control
    return NONE if is_sound else INVALID_RECORD
