"""Record batches of one chunk as an Arrow batch of rows: no Python object for a record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from heliostat.errors import BatchError
from heliostat.names import TopicPartition
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    OFFSET_MAX,
    BatchHeader,
    Codec,
    check_crc,
    each_header,
)
from heliostat.records.batches.codecs import decompress
from heliostat.records.rows import record_columns as columns
from heliostat.records.rows.layout import HEADER, HEADERS, SCHEMA, TIMESTAMP

US_PER_MS = 1000
ALL = frozenset(SCHEMA.names)
_BITS = {"key": columns.KEYS, "value": columns.VALUES, "headers": columns.HEADER_LISTS}
_TOTALS = (
    ("key", columns.KEY_BYTES),
    ("value", columns.VALUE_BYTES),
    ("headers", columns.HEADERS),
    ("headers", columns.NAME_BYTES),
    ("headers", columns.CONTENT_BYTES),
)
"""Columns, and what `measure` has counted for them."""


class Chunk(NamedTuple):
    """Whole, valid batches of one partition that go through a pipeline together."""

    number: int
    source: TopicPartition
    data: bytes | memoryview
    first: int = 0
    """Records before this offset are left out: they were copied before ..."""
    before: int = OFFSET_MAX
    """... and so are those from this offset on: a pipeline fails at that one."""
    pipeline: str = ""
    """The one that they go through, where some share a lane."""


class RecordsOf(NamedTuple):
    """The records of one batch, decompressed."""

    header: BatchHeader
    data: Any
    begin: int
    end: int


def whole_batches(view: memoryview, start: int, end: int) -> tuple[int, BatchError | None]:
    """Return where the whole, valid batches of an answer end, and what is wrong after them.

    Parameters
    ----------
    view, start, end
        The answer's batches are `view[start:end]`; the last may be cut, which is no error.
    """
    whole = start
    try:
        for position, header in each_header(view, start, end):
            check_crc(view, position, header)
            whole = position + header.size
    except BatchError as error:
        return whole, error
    return whole, None


def rows_of(chunk: Chunk, wanted: Collection[str] = ALL) -> pa.RecordBatch:
    """Return a row for each record of a chunk, in order; those of markers are none.

    Parameters
    ----------
    chunk
        The batches.
    wanted
        Names of columns; others are null, but for partition and offset.

    Raises
    ------
    BatchError
        A batch is damaged.
    """
    batches = list(_each(chunk))
    totals = np.zeros(columns.TOTALS, np.int64)
    for records in batches:
        count = records.header.records_count
        if not columns.measure(records.data, records.begin, records.end, count, totals):
            raise BatchError("records are damaged", base_offset=records.header.base_offset)
    room = _Room(totals, wanted)
    for records in batches:
        room.take(records, chunk.first, chunk.before)
    return room.rows(chunk.source)


def _each(chunk: Chunk) -> Iterator[RecordsOf]:
    view = memoryview(chunk.data)
    for position, header in each_header(view, 0, len(view)):
        if header.records_count and not header.is_control:
            yield records_of(view, position, header)


def records_of(view: memoryview, position: int, header: BatchHeader) -> RecordsOf:
    """Return the records of the batch at `position`."""
    begin, stop = position + HEADER_BYTES, position + header.size
    data: Any = view
    if header.codec is not Codec.NONE:
        data = decompress(header.codec, view[begin:stop])
        begin, stop = 0, len(data)
    return RecordsOf(header, np.frombuffer(data, np.uint8), begin, stop)


class _Room:
    """Columns with room for all records of a chunk."""

    def __init__(self, totals: Any, wanted: Collection[str]) -> None:
        bits = {name: bit * (name in wanted) for name, bit in _BITS.items()}
        self._wanted, self._bits = wanted, sum(bits.values())
        for name, total in _TOTALS:
            totals[total] *= bool(bits[name])
        rows, headers = int(totals[columns.ROWS]), int(totals[columns.HEADERS])
        self._at = np.zeros(columns.TOTALS, np.int64)
        self._offsets, self._times = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._kinds = np.empty(rows, np.int32)
        self._keys = _Bytes(rows, int(totals[columns.KEY_BYTES]))
        self._values = _Bytes(rows, int(totals[columns.VALUE_BYTES]))
        self._headers_ends = np.zeros(rows + 1, np.int32)
        self._names = _Bytes(headers, int(totals[columns.NAME_BYTES]))
        self._contents = _Bytes(headers, int(totals[columns.CONTENT_BYTES]))

    def take(self, records: RecordsOf, start: int, before: int) -> None:
        header = records.header
        first = int(self._at[columns.ROWS])
        is_whole = columns.fill(
            *(records.data, records.begin, records.end, header.records_count),
            *(header.base_offset, header.base_timestamp, header.max_timestamp),
            *(header.is_log_append_time, start, before, self._bits),
            *(self._at, self._offsets, self._times),
            *(self._keys.ends, self._keys.has, self._keys.data),
            *(self._values.ends, self._values.has, self._values.data),
            *(self._headers_ends, self._names.ends, self._names.has, self._names.data),
            *(self._contents.ends, self._contents.has, self._contents.data),
        )
        if not is_whole:
            raise BatchError("offsets are out of order", base_offset=header.base_offset)
        self._kinds[first : int(self._at[columns.ROWS])] = int(header.is_log_append_time)

    def rows(self, source: TopicPartition) -> pa.RecordBatch:
        rows, headers = int(self._at[columns.ROWS]), int(self._at[columns.HEADERS])
        pairs = pa.Array.from_buffers(
            HEADER,
            headers,
            [None],
            children=[
                self._names.array(headers, pa.string()),
                self._contents.array(headers, pa.binary()),
            ],
        )
        lists = pa.Array.from_buffers(
            HEADERS, rows, [None, pa.py_buffer(self._headers_ends)], children=[pairs]
        )
        made: dict[str, Callable[[], pa.Array]] = {
            "topic": lambda: _repeated(source.topic.encode(), rows),
            "timestamp": lambda: _numbers(self._times[:rows] * US_PER_MS, TIMESTAMP),
            "timestamp_type": lambda: _numbers(self._kinds[:rows], pa.int32()),
            "key": lambda: self._keys.array(rows, pa.binary()),
            "value": lambda: self._values.array(rows, pa.binary()),
            "headers": lambda: lists,
        }
        arrays = {
            field.name: made[field.name]()
            if field.name in self._wanted
            else pa.nulls(rows, field.type)
            for field in SCHEMA
            if field.name in made
        }
        arrays["partition"] = _numbers(np.full(rows, source.partition, np.int32), pa.int32())
        arrays["offset"] = _numbers(self._offsets[:rows], pa.int64())
        return pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def _numbers(numbers: Any, kind: pa.DataType) -> pa.Array:
    """Return numbers as an Arrow array: what makes one of Python's values would load pandas."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _repeated(text: bytes, count: int) -> pa.Array:
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


class _Bytes:
    """A column of byte strings, each of which may be null."""

    def __init__(self, rows: int, size: int) -> None:
        self.ends = np.zeros(rows + 1, np.int32)
        self.has = np.ones(rows, np.uint8)
        self.data = np.empty(size, np.uint8)

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        """Return it as an Arrow array of its first `rows` rows."""
        has = self.has[:rows]
        valid = None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))
        return pa.Array.from_buffers(
            kind, rows, [valid, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        )
