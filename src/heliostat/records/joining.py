"""Small batches joined into one, and batches encoded anew where their records must change.

A broker takes one batch per partition and request; one record a batch, which many producers send,
would otherwise cost one request a record. Which batches are for joining is decided here, the loop
over their records is `reencode`'s.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliostat.clusters.wire.buffers import ReusedBuffers
from heliostat.errors import BatchError
from heliostat.records.batch import (
    CODEC_BITS,
    CODECS,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    Codec,
)
from heliostat.records.codecs import TooMuch, decompress
from heliostat.records.crc import Buffer, crc32c
from heliostat.records.reencode import (
    AT,
    BATCH_FIELDS,
    BATCHES,
    FILLED,
    GROWTH_BYTES_MAX,
    MAX_TIMESTAMP,
    RECORDS,
    Problem,
    encode_records,
    join_plain,
)
from heliostat.records.varints import INT64_MIN

JOIN_RECORDS_MAX = 65_536
"""Of one joined batch: enough for 1 MiB of 16-byte records."""
_FIELDS = struct.Struct(">qi4xBIhiqq14xi")
"""Of a header: base offset, length, magic, CRC, attributes, last offset delta, base timestamp,
max timestamp, records count."""
_BITS_TAKEN = CODEC_BITS | LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT
_WORDS = {
    Problem.TOO_SHORT: "a batch is too short for its records",
    Problem.CUT: "a batch ends in the middle of a record",
    Problem.LENGTH: "a record's length is wrong",
    Problem.OFFSET: "a record's offset is wrong",
    Problem.TIMESTAMP: "a record's timestamp is wrong",
    Problem.CHECKSUM: "a batch's checksum does not fit its bytes",
    Problem.LEFT_OVER: "a batch has more bytes than its records",
}
_buffers = ReusedBuffers()


class FarApart(BatchError):
    """Two timestamps differ by more than a batch can express."""


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """What is joined, and up to what size.

    Batches of fewer than `below_bytes` are joined, to a batch of at most `size_bytes_max` (before
    compression), those that come compressed only if `compressed`.
    """

    below_bytes: int
    size_bytes_max: int
    compressed: bool


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The records of one batch as stored, decompressed."""

    body: Buffer
    count: int
    base_timestamp: int
    """What their timestamp deltas count from."""
    log_append_time: int | None
    """Timestamp (ms) that readers see for each; None: each has its own."""


@dataclass(frozen=True, slots=True)
class NewRecords:
    """Records as they stand in a new batch; timestamps in ms."""

    body: memoryview
    records: int
    base_timestamp: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class Run:
    """Several batches joined to one."""

    new: NewRecords
    batches: int
    """How many it was made of; with none `new` is empty."""
    end: int
    """Where in the data the first batch begins that is not in the run."""
    trouble: BatchError | None
    """Why the batch at `end` is not sound; None if it just is not one for joining."""


def join_run(data: Any, at: int, end: int, base_offset: int, limits: JoinLimits) -> Run:
    """Join the small batches that stand at `at` one behind the other.

    Parameters
    ----------
    data, at, end
        Bytes (array of uint8) with batches in `data[at:end]`; the last may be cut.
    base_offset
        Offset that the first must have.
    limits
        What to join.

    Returns
    -------
    Run
        Possibly of no batch: then the one at `at` is not for joining, or in `trouble`.
    """
    run = _OpenRun(data, at, end, base_offset, limits)
    while run.trouble is None:
        before = run.batches
        run.join_plain()
        run.join_one()
        if run.batches == before:
            break
    return Run(run.new_records(), run.batches, run.end, run.trouble)


def encode_anew(source: SourceRecords, start: int, stop: int) -> NewRecords:
    """Encode records `[start, stop)` of a batch for another; all are checked.

    Raises
    ------
    FarApart
        A timestamp is too far from the first.
    BatchError
        The records do not fit their header.
    """
    target = _Target(len(source.body) + GROWTH_BYTES_MAX * (source.count + 1))
    problem = target.add(source, start, stop)
    if problem is not Problem.NONE:
        raise _error(problem)
    return target.new_records()


class _Target:
    """A batch's records in the making, in at most `room_bytes`."""

    def __init__(self, room_bytes: int) -> None:
        self._buffer = _buffers.take(room_bytes)
        self.room = np.frombuffer(self._buffer, np.uint8, room_bytes)
        self.fields = np.zeros(BATCH_FIELDS, np.int64)
        self.fields[MAX_TIMESTAMP] = INT64_MIN

    def add(self, source: SourceRecords, start: int, stop: int) -> Problem:
        """Encode records behind those that are there."""
        append_time = source.log_append_time
        body = np.frombuffer(source.body, np.uint8) if len(source.body) else np.empty(0, np.uint8)
        return Problem(
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
            )
        )

    def new_records(self) -> NewRecords:
        filled, records, base, latest = self.fields[: MAX_TIMESTAMP + 1].tolist()
        return NewRecords(memoryview(self._buffer)[:filled], records, base, latest)


class _OpenRun(_Target):
    """A run in the making."""

    def __init__(self, data: Any, at: int, end: int, base_offset: int, limits: JoinLimits) -> None:
        room = limits.size_bytes_max - HEADER_BYTES
        if not limits.compressed:
            room = min(room, 3 * (end - at))  # records of 7 bytes at least grow by 14 at most
        super().__init__(room)
        self.trouble: BatchError | None = None
        self.fields[AT] = at
        self._data = data
        self._end = end
        self._base_offset = base_offset
        self._limits = limits

    @property
    def end(self) -> int:
        """Where the next batch begins."""
        return int(self.fields[AT])

    @property
    def batches(self) -> int:
        """How many are in it."""
        return int(self.fields[BATCHES])

    def join_plain(self) -> None:
        """Join uncompressed batches until another kind comes."""
        join_plain(
            self._data,
            self._end,
            self._base_offset,
            self._limits.below_bytes,
            JOIN_RECORDS_MAX,
            self.room,
            self.fields,
        )

    def join_one(self) -> None:
        """Join one batch that `join_plain` left, or say what is wrong with it, or neither."""
        at, there = self.end, int(self.fields[RECORDS])
        if self._end - at <= HEADER_BYTES:
            return
        offset, length, magic, stored, bits, last, timestamp, latest, count = _FIELDS.unpack_from(
            self._data, at
        )
        end = at + LENGTH_ENDS_AT + length
        if (
            not LENGTH_MIN < length < self._limits.below_bytes - LENGTH_ENDS_AT
            or end > self._end
            or offset != self._base_offset + there
            or magic != MAGIC
            or bits & ~_BITS_TAKEN
            or not self._takes(bits & CODEC_BITS)
            or not 0 < count == last + 1 <= JOIN_RECORDS_MAX - there
        ):
            return
        view = memoryview(self._data)
        try:
            if crc32c(view[at + CRC_FROM : end]) != stored:
                raise _error(Problem.CHECKSUM)
            room = len(self.room) - int(self.fields[FILLED])
            body = decompress(CODECS[bits & CODEC_BITS], view[at + HEADER_BYTES : end], room)
            append_time = latest if bits & LOG_APPEND_TIME_BIT else None
            problem = self.add(SourceRecords(body, count, timestamp, append_time), 0, count)
            if problem in (Problem.FAR_APART, Problem.NO_ROOM):
                return
            if problem is not Problem.NONE:
                raise _error(problem)
        except TooMuch:
            return
        except BatchError as error:
            self.trouble = error
            return
        self.fields[BATCHES] += 1
        self.fields[AT] = end

    def _takes(self, codec_bits: int) -> bool:
        is_known = codec_bits < len(CODECS)
        return is_known and (self._limits.compressed or CODECS[codec_bits] is Codec.NONE)


def _error(problem: Problem) -> BatchError:
    if problem is Problem.FAR_APART:
        return FarApart("timestamps are too far apart")
    return BatchError(_WORDS[problem])
