"""Small batches joined into one, and batches re-encoded where their records must change.

A broker takes one batch per partition and request; batches of one record, which many producers
send, would otherwise cost a request for each record. This module decides which batches to join;
the loop over their records is in `reencode`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliostat.clusters.wire.buffers import BUFFERS
from heliostat.errors import BatchError
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CODECS,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    Codec,
    claimed_size,
)
from heliostat.records.batches.codecs import TooMuch, decompress
from heliostat.records.batches.crc import Buffer, crc32c
from heliostat.records.batches.reencode import (
    AT,
    BATCH_FIELDS,
    BATCHES,
    FILLED,
    GROWTH_BYTES_MAX,
    MAX_TIMESTAMP,
    NEVER_JOINED_BITS,
    RECORDS,
    Flaw,
    encode_records,
    join_plain,
    join_thinned,
)
from heliostat.records.batches.varints import INT64_MIN

JOIN_RECORDS_MAX = 65_536
"""Records of one joined batch: enough for 1 MiB of 16-byte records."""
_FIELDS = struct.Struct(">qi4xBIhiqq14xi")
"""Fields of a header: base offset, length, magic, CRC, attributes, last offset delta, base
timestamp, max timestamp, records count."""
_BITS_TAKEN = CODEC_BITS | LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT | TRANSACTIONAL_BIT
_WORDS = {
    Flaw.TOO_SHORT: "a batch is too short for its records",
    Flaw.CUT: "a batch ends in the middle of a record",
    Flaw.LENGTH: "a record's length is wrong",
    Flaw.OFFSET: "a record's offset is wrong",
    Flaw.TIMESTAMP: "a record's timestamp is wrong",
    Flaw.CHECKSUM: "a batch's checksum does not match its bytes",
    Flaw.LEFT_OVER: "a batch has more bytes than its records",
}
_ATTRIBUTES_LOW_AT = 22
_BASE_OFFSET = struct.Struct(">q")
_NO_DELTAS = np.empty(0, np.int64)

PassOver = Callable[[int, int], int | None]
"""Takes where a batch begins, and the source offset at which the batch before it ended. Returns the
source offset after the batch if it holds nothing to copy, otherwise None."""


class FarApart(BatchError):
    """Two timestamps differ by more than a batch can express."""


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """What is joined, and up to what size.

    Batches of fewer than `below_bytes` are joined, to a batch of at most `size_bytes_max` (before
    compression). Compressed ones are joined only if `compressed`, or if they have lost records to
    compaction and must be re-encoded in any case; those of transactions only if `transactional`.
    If `dense`, no joined batch reaches over a hole between source offsets.
    """

    below_bytes: int
    size_bytes_max: int
    compressed: bool
    transactional: bool = False
    dense: bool = False


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The records of one batch as stored, decompressed."""

    body: Buffer
    count: int
    base_timestamp: int
    """Timestamp (ms) that their timestamp deltas count from."""
    log_append_time: int | None
    """Timestamp (ms) that readers see for each; None: each has its own."""
    is_sparse: bool = False
    """Compaction has removed some; the others keep their offsets."""


@dataclass(frozen=True, slots=True)
class NewRecords:
    """Records as encoded for a new batch; timestamps in ms."""

    body: memoryview
    records: int
    base_timestamp: int
    max_timestamp: int
    room_bytes: int
    """Size of the buffer that `body` is the beginning of, and keeps in memory."""
    places: tuple[tuple[int, int], ...] = ()
    """Where source offsets do not follow one another: (number of the record, its source offset or,
    by `encode_new`, its offset delta). The first record is always there if any is."""


@dataclass(frozen=True, slots=True)
class Run:
    """Several batches joined into one."""

    new: NewRecords
    batches: int
    """How many were joined; if none, `new` is empty."""
    end: int
    """Where in the data the first batch after the run begins."""
    next_offset: int
    """Source offset after all that was joined or passed over."""
    codec: Codec
    """Codec of those that were compressed."""
    trouble: BatchError | None
    """Why the batch at `end` is not valid; None if it merely is not to be joined."""


def join_run(  # noqa: PLR0917 - a run is all of these
    data: Any, position: int, end: int, base_offset: int, limits: JoinLimits, pass_over: PassOver
) -> Run:
    """Join consecutive small batches, beginning with the one at `position`.

    Parameters
    ----------
    data, position, end
        Bytes (array of uint8) with batches in `data[position:end]`; the last may be cut.
    base_offset
        Offset that the first must have.
    limits
        What to join.
    pass_over
        Called for each batch between others that is not to be joined.

    Returns
    -------
    Run
        Possibly of no batch: then the one at `position` is not to be joined, or `trouble` says why.
    """
    run = _OpenRun(data, position, end, base_offset, limits)
    while run.trouble is None:
        before = run.batches
        run.join_plain()
        run.join_thinned()
        run.join_one()
        if run.batches == before and not (before and run.passed(pass_over)):
            break
    return Run(run.new_records(), run.batches, run.end, run.next_offset, run.codec, run.trouble)


def encode_new(source: SourceRecords, start: int, stop: int) -> NewRecords:
    """Encode the records with offset deltas `[start, stop)` for another batch; check all records.

    A batch that has lost records to compaction may have none left in the range.

    Raises
    ------
    FarApart
        A timestamp is too far from the first.
    BatchError
        The records do not match their header.
    """
    target = _Target(len(source.body) + GROWTH_BYTES_MAX * (source.count + 1))
    problem = target.add(source, start, stop, 0)
    if problem is not Flaw.NONE:
        raise _error(problem)
    return target.new_records()


class _Target:
    """The records of a batch under construction, in at most `room_bytes`."""

    def __init__(self, room_bytes: int) -> None:
        self._buffer = BUFFERS.take(room_bytes)
        self.room = np.frombuffer(self._buffer, np.uint8, room_bytes)
        self.fields = np.zeros(BATCH_FIELDS, np.int64)
        self.fields[MAX_TIMESTAMP] = INT64_MIN
        self.places: list[tuple[int, int]] = []
        self._distance: int | None = None
        """Source offset of a record less its number in the batch, by the last entry of `places`."""

    def add(
        self,
        source: SourceRecords,
        start: int,
        stop: int,
        base_offset: int,
        *,
        is_whole: bool = False,
    ) -> Flaw:
        """Append the records in `[start, stop)`; with `is_whole`, all of them must be in it."""
        before = self.fields.copy()
        append_time = source.log_append_time
        body = np.frombuffer(source.body, np.uint8) if len(source.body) else np.empty(0, np.uint8)
        there = int(self.fields[RECORDS])
        deltas = np.empty(source.count, np.int64) if source.is_sparse else _NO_DELTAS
        problem = Flaw(
            encode_records(
                body,
                0,
                len(body),
                source.count,
                source.base_timestamp,
                append_time or 0,
                append_time is not None,
                start,
                stop,
                self.room,
                self.fields,
                deltas,
            )
        )
        taken = int(self.fields[RECORDS]) - there
        if problem is Flaw.NONE and is_whole and taken != source.count:
            self.fields[:] = before  # a record's offset is beyond its batch
            return Flaw.OFFSET
        if problem is Flaw.NONE and taken:
            if source.is_sparse:
                self._note_places(there, base_offset + deltas[:taken])
            else:
                self.note_place(there, base_offset + start - there)
        return problem

    def note_place(self, number: int, distance: int) -> None:
        """Note that from record `number` on, source offset = number in the batch + `distance`."""
        if distance != self._distance:
            self._distance = distance
            self.places.append((number, number + distance))

    def _note_places(self, first: int, sources: Any) -> None:
        """Call `note_place` for records from `first` on, given the source offset of each."""
        distances = sources - first - np.arange(len(sources))
        self.note_place(first, int(distances[0]))
        indexes = np.flatnonzero(np.diff(distances)) + 1
        self.places += zip((first + indexes).tolist(), sources[indexes].tolist(), strict=True)
        self._distance = int(distances[-1])

    def new_records(self) -> NewRecords:
        filled, records, base, latest = self.fields[: MAX_TIMESTAMP + 1].tolist()
        body = memoryview(self._buffer)[:filled]
        return NewRecords(body, records, base, latest, len(self._buffer), tuple(self.places))


class _OpenRun(_Target):
    """A run under construction."""

    def __init__(
        self, data: Any, position: int, end: int, base_offset: int, limits: JoinLimits
    ) -> None:
        room = limits.size_bytes_max - HEADER_BYTES
        if not (limits.compressed or data[position + _ATTRIBUTES_LOW_AT] & CODEC_BITS):
            # Records have at least 7 bytes and grow by at most 14.
            room = min(room, 3 * (end - position))
        super().__init__(room)
        self.trouble: BatchError | None = None
        self.codec = Codec.NONE
        self.fields[AT] = position
        self._data = data
        self._end = end
        self._base_offset = base_offset
        """Source offset that the next record would have, less its number in the new batch."""
        self._limits = limits
        self._refused_bits = NEVER_JOINED_BITS | (0 if limits.transactional else TRANSACTIONAL_BIT)

    @property
    def end(self) -> int:
        """Where the next batch begins."""
        return int(self.fields[AT])

    @property
    def batches(self) -> int:
        """How many batches are in it."""
        return int(self.fields[BATCHES])

    @property
    def next_offset(self) -> int:
        """Source offset after all that was joined or passed over."""
        return self._base_offset + int(self.fields[RECORDS])

    def passed(self, pass_over: PassOver) -> bool:
        """Pass over a batch that holds nothing to copy; return whether there was one."""
        position = self.end
        size = claimed_size(self._data, position, self._end)
        if self._limits.dense or size is None or position + size > self._end:
            return False
        try:
            next_offset = pass_over(position, self.next_offset)
        except BatchError as error:
            self.trouble = error
            return False
        if next_offset is None:
            return False
        self._base_offset = next_offset - int(self.fields[RECORDS])
        self.fields[AT] = position + size
        return True

    def join_plain(self) -> None:
        """Join uncompressed batches up to the first of another kind."""
        there = int(self.fields[RECORDS])
        join_plain(
            self._data,
            self._end,
            self._base_offset,
            self._limits.below_bytes,
            JOIN_RECORDS_MAX,
            self._refused_bits,
            self.room,
            self.fields,
            _NO_DELTAS,
        )
        if self.fields[RECORDS] > there:
            self.note_place(there, self._base_offset)

    def join_thinned(self) -> None:
        """Join uncompressed batches that have lost records to compaction, in them or before them.

        A batch with 16 of 128 records left takes 50 us in `join_one`, and 1 us here.
        """
        position, there = self.end, int(self.fields[RECORDS])
        if self._limits.dense or self._end - position <= HEADER_BYTES:
            return
        offset, *_, last, _, _, count = _FIELDS.unpack_from(self._data, position)
        if count == last + 1 and offset == self.next_offset:
            return
        sources = np.empty(JOIN_RECORDS_MAX, np.int64)
        next_offset = join_thinned(
            self._data,
            self._end,
            self.next_offset,
            self._limits.below_bytes,
            self._refused_bits,
            self.room,
            self.fields,
            sources,
        )
        taken = int(self.fields[RECORDS])
        self._base_offset = next_offset - taken
        if taken > there:
            self._note_places(there, sources[there:taken])

    def join_one(self) -> None:
        """Join one batch that `join_plain` left, or note what is wrong with it, or do neither."""
        position, there = self.end, int(self.fields[RECORDS])
        if self._end - position <= HEADER_BYTES:
            return
        offset, length, magic, stored, bits, last, timestamp, latest, count = _FIELDS.unpack_from(
            self._data, position
        )
        end = position + LENGTH_ENDS_AT + length
        is_sparse = count != last + 1
        if (
            not LENGTH_MIN < length < self._limits.below_bytes - LENGTH_ENDS_AT
            or end > self._end
            or offset < self.next_offset
            or (self._limits.dense and (is_sparse or offset > self.next_offset))
            or (offset > self.next_offset and self._contradicts(end, offset + last + 1))
            or magic != MAGIC
            or bits & ~_BITS_TAKEN
            or bits & self._refused_bits & ~CODEC_BITS
            or not self._takes(bits & CODEC_BITS, is_sparse=is_sparse)
            or not 0 < count <= last + 1
            or count > JOIN_RECORDS_MAX - there
        ):
            return
        view = memoryview(self._data)
        try:
            if crc32c(view[position + CRC_FROM : end]) != stored:
                raise _error(Flaw.CHECKSUM)
            room = len(self.room) - int(self.fields[FILLED])
            codec = CODECS[bits & CODEC_BITS]
            body = decompress(codec, view[position + HEADER_BYTES : end], room)
            append_time = latest if bits & LOG_APPEND_TIME_BIT else None
            source = SourceRecords(body, count, timestamp, append_time, is_sparse)
            problem = self.add(source, 0, last + 1, offset, is_whole=True)
            if problem in (Flaw.FAR_APART, Flaw.NO_ROOM):
                return
            if problem is not Flaw.NONE:
                raise _error(problem)
        except TooMuch:
            return
        except BatchError as error:
            self.trouble = error
            return
        self.fields[BATCHES] += 1
        self.fields[AT] = end
        self._base_offset = offset + last + 1 - int(self.fields[RECORDS])
        if self.codec is Codec.NONE:
            self.codec = codec

    def _contradicts(self, position: int, next_offset: int) -> bool:
        """Return whether the batch at `position` claims to begin before the one before it ends.

        No checksum covers base offsets.
        """
        is_whole = self._end - position >= HEADER_BYTES
        return is_whole and _BASE_OFFSET.unpack_from(self._data, position)[0] < next_offset

    def _takes(self, codec_bits: int, *, is_sparse: bool) -> bool:
        is_known = codec_bits < len(CODECS)
        is_plain = is_known and CODECS[codec_bits] is Codec.NONE
        return is_known and (self._limits.compressed or is_plain or is_sparse)


def _error(problem: Flaw) -> BatchError:
    if problem is Flaw.FAR_APART:
        return FarApart("timestamps are too far apart")
    return BatchError(_WORDS[problem])
