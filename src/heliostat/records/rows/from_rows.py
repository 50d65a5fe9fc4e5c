"""Rows that came through a pipeline, as the batches that the source would have had instead.

Each batch keeps its offsets: where a record was filtered out there is a hole, as compaction leaves
one. So everything behind this, offset maps included, sees a source that was thinned, not another
kind of copying. A batch without records stays as an empty one: its offsets are passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from heliostat.errors import BatchError, TransformFailed
from heliostat.records.batches.batch import HEADER_BYTES, BatchHeader, each_header
from heliostat.records.batches.converted import OPENED_BYTES_MAX
from heliostat.records.rows import record_columns as columns
from heliostat.records.rows import splice
from heliostat.records.rows.row_names import CHANGEABLE
from heliostat.records.rows.row_times import WHY_NOT_TAKEN, not_taken, times_ms
from heliostat.records.rows.thinned_batch import room_for, thinned_batch
from heliostat.records.rows.to_rows import Chunk, RecordsOf, records_of, rows_of
from heliostat.records.rows.wrong_rows import (
    NO_HEADERS,
    NO_PLACE,
    NO_TIMESTAMP,
    OTHER_PARTITION,
    OUT_OF_ORDER,
    UNKNOWN_OFFSET,
    wrong_row,
)

_BITS = {
    "timestamp": splice.TIMES,
    "key": columns.KEYS,
    "value": columns.VALUES,
    "headers": columns.HEADER_LISTS,
}
_NO_BYTES = np.empty(0, np.uint8)
_NO_ENDS = np.zeros(1, np.int32)


def batches_of(
    chunk: Chunk, back: Sequence[pa.RecordBatch], changed: Sequence[str] = CHANGEABLE
) -> bytearray:
    """Return a chunk's batches with the records that came back for it.

    Parameters
    ----------
    chunk
        What went into the pipeline.
    back
        Rows as they came back, with the columns partition, offset, and those changed.
    changed
        Columns that the pipeline may have changed; others are as they were.

    Raises
    ------
    TransformFailed
        Rows are not what they may be, see `wrong_rows`.
    BatchError
        A batch is damaged.
    """
    try:
        return _batches_of(chunk, back, changed)
    except TransformFailed:
        # Only now: nobody else needs the offsets of the records that went in.
        given = rows_of(chunk, ()).column("offset").to_numpy()
        columns = ["partition", "offset", *changed]
        error = wrong_row(chunk.source, given, pa.Table.from_batches(back).select(columns))
        assert error is not None, "what is quick finds no more"
        raise error from None


def _batches_of(chunk: Chunk, back: Sequence[pa.RecordBatch], changed: Sequence[str]) -> bytearray:
    rows = _Rows(chunk, back, changed)
    view = memoryview(chunk.data)
    headers = [
        (position, header)
        for position, header in each_header(view, 0, len(view))
        if header.base_offset < chunk.before
    ]
    # The first row behind each batch, so that each gets room for its own.
    stops = np.searchsorted(rows.offsets, [header.next_offset for _, header in headers])
    out: list[Any] = []
    for (position, header), stop in zip(headers, stops.tolist(), strict=True):
        if header.is_control or not header.records_count:
            out.append(view[position : position + header.size])
        else:
            out += rows.batch(chunk, position, header, stop)
    if rows.next_row != rows.count:
        raise TransformFailed(UNKNOWN_OFFSET)
    return bytearray().join(out)


class _Bytes(NamedTuple):
    """A column of byte strings: where each ends, whether it is there, and all of them."""

    ends: Any = _NO_ENDS
    has: Any = _NO_BYTES
    data: Any = _NO_BYTES

    @classmethod
    def of(cls, array: pa.Array) -> _Bytes:
        count = len(array)
        _, ends, data = array.buffers()
        bounds = np.frombuffer(ends, np.int32)[array.offset : array.offset + count + 1]
        has = np.ones(count, np.uint8)
        if array.null_count:
            has = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        return cls(bounds, has, np.frombuffer(data, np.uint8) if data else _NO_BYTES)


class _Rows:
    """All rows of a chunk that came back, as columns: offsets, and those that were changed."""

    def __init__(
        self, chunk: Chunk, back: Sequence[pa.RecordBatch], changed: Sequence[str]
    ) -> None:
        """Take rows; raises a plain `TransformFailed` at what is wrong."""
        self._told = np.zeros(3, np.int64)
        self._open_bytes = OPENED_BYTES_MAX
        self._changed = sum(_BITS[name] for name in changed)
        self.offsets = self._times = np.empty(0, np.int64)
        self._keys = self._values = self._names = self._contents = _Bytes()
        self._headers_ends = _NO_ENDS
        if back:
            table = pa.Table.from_batches(back)
            self._check_places(chunk, table)
            self.offsets = _one(table.column("offset")).to_numpy()
            if (self.offsets[1:] <= self.offsets[:-1]).any():
                raise TransformFailed(OUT_OF_ORDER)
            self._take({name: _one(table.column(name)) for name in changed})
        self.count = len(self.offsets)

    @property
    def next_row(self) -> int:
        """The first row that is in no batch yet."""
        return int(self._told[splice.NEXT_ROW])

    @staticmethod
    def _check_places(chunk: Chunk, table: pa.Table) -> None:
        partitions = table.column("partition")
        if table.column("offset").null_count or partitions.null_count:
            raise TransformFailed(NO_PLACE)
        if (partitions.to_numpy() != chunk.source.partition).any():
            raise TransformFailed(OTHER_PARTITION)

    def _take(self, arrays: dict[str, pa.Array]) -> None:
        if (timestamps := arrays.get("timestamp")) is not None:
            if timestamps.null_count:
                raise TransformFailed(NO_TIMESTAMP)
            self._times = times_ms(timestamps)
            if len(not_taken(self._times)):
                raise TransformFailed(WHY_NOT_TAKEN)
        if (keys := arrays.get("key")) is not None:
            self._keys = _Bytes.of(keys)
        if (values := arrays.get("value")) is not None:
            self._values = _Bytes.of(values)
        if (lists := arrays.get("headers")) is not None:
            if lists.null_count or lists.flatten().field(0).null_count:
                raise TransformFailed(NO_HEADERS)
            ends = np.frombuffer(lists.buffers()[1], np.int32)
            self._headers_ends = ends[lists.offset : lists.offset + len(lists) + 1]
            self._names = _Bytes.of(lists.values.field(0))
            self._contents = _Bytes.of(lists.values.field(1))

    def batch(self, chunk: Chunk, position: int, header: BatchHeader, stop: int) -> Sequence[Any]:
        """Return the rows before `stop` as a batch in place of the source's one at `position`."""
        view, first = memoryview(chunk.data), self.next_row
        if not self._changed and self._are_all(chunk, header, first, stop):
            self._told[splice.NEXT_ROW] = stop
            return [view[position : position + header.size]]
        records = records_of(view, position, header)
        room = room_for(HEADER_BYTES + self._room(records, first, stop))
        end = splice.splice(
            *(records.data, records.begin, records.end, header.records_count),
            *(header.base_offset, chunk.first, chunk.before, header.base_timestamp),
            *(header.max_timestamp, header.is_log_append_time, self._changed),
            *(self.offsets, self._times, tuple(self._keys), tuple(self._values)),
            *(self._headers_ends, tuple(self._names), tuple(self._contents)),
            *(room, HEADER_BYTES, self._told),
        )
        if end == splice.DAMAGED:
            raise BatchError("records are damaged", base_offset=header.base_offset)
        if end == splice.UNKNOWN:
            raise TransformFailed(UNKNOWN_OFFSET)
        times = int(self._told[splice.BASE_TIME]), int(self._told[splice.MAX_TIME])
        count = self.next_row - first
        parts = thinned_batch(
            *(header, room[:end], count, chunk.before, times, self._open_bytes),
            is_alone=header.size == len(view),
        )
        self._open_bytes -= len(parts[-1])
        return parts

    def _are_all(self, chunk: Chunk, header: BatchHeader, first: int, stop: int) -> bool:
        """Return whether rows `[first, stop)` are all records of a batch without holes.

        Rows ascend, so they are if they are as many, from its first offset on.
        """
        begin, end = header.base_offset, header.next_offset
        return (
            stop - first == header.records_count == end - begin
            and chunk.first <= begin == self.offsets[first]
            and end <= chunk.before
        )

    def _room(self, records: RecordsOf, first: int, stop: int) -> int:
        """Return how many bytes the records take at most."""
        room = records.end - records.begin + (stop - first) * splice.RECORD_ROOM
        if self._changed & columns.KEYS:
            room += _span(self._keys.ends, first, stop)
        if self._changed & columns.VALUES:
            room += _span(self._values.ends, first, stop)
        if self._changed & columns.HEADER_LISTS:
            begin, end = self._headers_ends[[first, stop]].tolist()
            room += (end - begin) * splice.HEADER_ROOM
            room += _span(self._names.ends, begin, end) + _span(self._contents.ends, begin, end)
        return room


def _span(ends: Any, first: int, stop: int) -> int:
    return int(ends[stop] - ends[first])


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks)
