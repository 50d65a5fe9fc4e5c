"""One partition of one side as a stream of record batches, decoded by aiokafka's compiled codec.

Every batch's CRC is checked. Control batches and aborted transactions are left out and counted,
and offsets without a record are listed: nothing is skipped silently. Messages of formats v0 and v1
are read as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BatchError, BrokerError
from heliostat.names import TopicPartition
from heliostat.verify.old_formats import OldBatch, old_batch
from heliostat.verify.reader import FetchedPart, LogReader
from heliostat.verify.stream_values import Batch, ConsumedRecord

__all__ = ["Batch", "ConsumedRecord", "PartitionStream"]

EMPTY_ANSWERS_MAX = 3  # in a row below the end: the log has no record from here to there
HOLES_KEPT_MAX = 20  # intervals listed per partition; all are counted

# KIP-98, magic 2: base offset, length, leader epoch, magic, CRC, attributes, last offset delta,
# base timestamp, max timestamp, producer id, producer epoch, base sequence, record count.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FRAME = 12
_OLD_BYTES_MIN = 14  # CRC, magic, attributes, lengths of key and value
_CONTROL, _TRANSACTIONAL = 0x20, 0x10
_MEANING = 0x0F  # the attribute bits that matter to readers: codec and timestamp type
_CONTROL_TYPE_ABORT = 0


class PartitionStream:
    """The batches of one partition with offsets in `[start, end)`, in order.

    Control batches, and with READ_COMMITTED those of aborted transactions, are only counted;
    offsets without a record are counted and listed as holes.
    """

    def __init__(
        self,
        reader: LogReader,
        partition: TopicPartition,
        start: int,
        end: int,
        first: FetchedPart | None = None,
    ) -> None:
        self.partition = partition
        self.end = end
        self.position = start
        self.control_batches = 0
        self.aborted_batches = 0
        self.holes = 0
        self.hole_ranges: list[tuple[int, int]] = []
        self._reader = reader
        self._first = first if first is not None and first.position == start else None

    def __iter__(self) -> Iterator[Batch]:
        empty_answers = 0
        while self.position < self.end:
            fetched, self._first = self._first, None
            if fetched is None:
                fetched = self._reader.fetch_alone(self.partition, self.position)
            before = self.position
            yield from self._batches(fetched)
            if self.position > before:
                empty_answers = 0
                continue
            empty_answers += 1
            if empty_answers >= EMPTY_ANSWERS_MAX:
                if fetched.high_watermark < self.end:
                    raise BrokerError(
                        "the log now ends before the end it had when reading began",
                        kafka_code=OFFSET_OUT_OF_RANGE,
                        partition=str(self.partition),
                        position=self.position,
                        end=self.end,
                    )
                self._leave_hole(self.end)

    def _batches(self, fetched: FetchedPart) -> Iterator[Batch]:
        starts = sorted(fetched.aborted, key=lambda pair: pair[1], reverse=True)
        aborting: set[int] = set()
        for fields, data in self._frames(fetched.data):
            if isinstance(data, OldBatch):
                if data.base_offset >= self.end:
                    self._leave_hole(self.end)
                    return
                yield from self._taken(data)
                continue
            base, attributes, producer_id = fields[0], fields[5], fields[9]
            next_offset = base + fields[6] + 1
            while starts and starts[-1][1] < next_offset:
                aborting.add(starts.pop()[0])
            if next_offset <= self.position:
                continue  # a fetch may begin before its offset: batches come whole
            if base >= self.end:
                self._leave_hole(self.end)
                return
            if base > self.position:
                self._leave_hole(base)
            batch = Batch(
                base, next_offset, fields[12], (attributes & _MEANING, fields[7], fields[8]), data
            )
            if attributes & _CONTROL:
                self.control_batches += 1
                if _control_type(data) == _CONTROL_TYPE_ABORT:
                    aborting.discard(producer_id)
                self._leave_hole(next_offset)
            elif attributes & _TRANSACTIONAL and producer_id in aborting:
                self.aborted_batches += 1
                self._leave_hole(next_offset)
            else:
                yield from self._taken(batch)

    def _taken(self, batch: Batch) -> Iterator[Batch]:
        """Yield a batch, and count holes before it and in it."""
        if batch.next_offset <= self.position:
            return
        if batch.base_offset > self.position:
            self._leave_hole(batch.base_offset)
        lacking = batch.next_offset - batch.base_offset - batch.records
        if lacking:
            self.holes += lacking
            self._name_hole(batch.base_offset, batch.next_offset)
        self.position = batch.next_offset
        yield batch

    def _frames(self, data: bytes) -> Iterator[tuple[tuple[int, ...], bytes | OldBatch]]:
        """Yield header fields and bytes of batches with valid CRC; old formats come decoded."""
        at = 0
        while at + _LENGTH_FRAME <= len(data):
            (length,) = struct.unpack_from(">i", data, at + 8)
            stop = at + _LENGTH_FRAME + length
            if stop > len(data):
                return  # the last batch of an answer may be cut
            magic = data[at + 16] if length > 4 else -1  # at the same place in all formats
            if 0 <= magic < 2 and length >= _OLD_BYTES_MIN:
                yield (), old_batch(data[at:stop], magic)
                at = stop
                continue
            if magic != 2 or length < _HEADER.size - _LENGTH_FRAME:  # KIP-98
                raise BatchError(
                    "not a v2 record batch", partition=str(self.partition), magic=magic
                )
            batch = data[at:stop]
            fields = _HEADER.unpack_from(batch, 0)
            if not DefaultRecordBatch(batch).validate_crc():
                raise BatchError(
                    "CRC does not hold", partition=str(self.partition), base_offset=fields[0]
                )
            yield fields, batch
            at = stop

    def _leave_hole(self, until: int) -> None:
        """Continue at `until`; there is no record for readers before it."""
        until = max(until, self.position)
        if until > self.position:
            self.holes += until - self.position
            self._name_hole(self.position, until)
        self.position = until

    def _name_hole(self, start: int, end: int) -> None:
        if self.hole_ranges and self.hole_ranges[-1][1] == start:
            self.hole_ranges[-1] = (self.hole_ranges[-1][0], end)
        elif len(self.hole_ranges) < HOLES_KEPT_MAX:
            self.hole_ranges.append((start, end))


def _control_type(data: bytes) -> int:
    for record in DefaultRecordBatch(data):
        if record.key is not None and len(record.key) >= 4:  # version, type
            return int(struct.unpack(">h", record.key[2:4])[0])
    return -1
