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

from heliostat.errors import TransformFailed
from heliostat.records.batches.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    each_header,
    sealed,
)
from heliostat.records.batches.codecs import compress
from heliostat.records.rows import record_columns as columns
from heliostat.records.rows.row_names import CHANGEABLE
from heliostat.records.rows.to_rows import US_PER_MS, Chunk, rows_of


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
        Rows were multiplied or reordered, are of no record of the chunk, or have no timestamp.
    """
    found = _merged(chunk, back, changed)
    rows = _Rows(found)
    rows.check(chunk)
    out = bytearray()
    view = memoryview(chunk.data)
    first = 0
    for at, header in each_header(view, 0, len(view)):
        if header.base_offset >= chunk.before:
            break
        if header.is_control or not header.records_count:
            out += view[at : at + header.size]
        else:
            stop = int(np.searchsorted(rows.offsets, header.next_offset))
            out += rows.batch(header, first, stop, min(header.next_offset, chunk.before))
            first = stop
    return out


def _merged(
    chunk: Chunk, back: Sequence[pa.RecordBatch], changed: Sequence[str]
) -> dict[str, pa.Array]:
    """Return all columns of the rows that came back: what was not changed is still here."""
    given = rows_of(chunk, [name for name in CHANGEABLE if name not in changed])
    table = pa.Table.from_batches(back) if back else None
    offsets = np.empty(0, np.int64)
    if table is not None:
        offsets = _one(table.column("offset")).to_numpy(zero_copy_only=False)
    _check_order(chunk, offsets)
    known = given.column("offset").to_numpy()
    places = np.searchsorted(known, offsets)
    inside = places < len(known)
    inside[inside] = known[places[inside]] == offsets[inside]
    if not inside.all():
        raise _unknown(chunk, int(offsets[int(np.argmin(inside))]))
    kept = given if len(offsets) == len(known) else given.take(pa.array(places))
    found = {name: kept.column(name) for name in CHANGEABLE if name not in changed}
    for name in changed:
        found[name] = kept.column(name) if table is None else _one(table.column(name))
    return {**found, "offset": pa.array(offsets)}


def _check_order(chunk: Chunk, offsets: Any) -> None:
    wrong = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(wrong):
        at = int(offsets[int(wrong[0]) + 1])
        raise TransformFailed("rows came back out of order or more than once", **_place(chunk, at))


class _Bytes(NamedTuple):
    """A column of byte strings: where each ends, whether it is there, and all of them."""

    ends: Any
    has: Any
    data: Any

    @classmethod
    def of(cls, array: pa.Array) -> _Bytes:
        count = len(array)
        _, ends, data = array.buffers()
        found = np.frombuffer(ends, np.int32)[array.offset : array.offset + count + 1]
        has = np.ones(count, np.uint8)
        if array.null_count:
            has = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        return cls(found, has, np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))


class _Rows:
    """All rows of a chunk that came back, as columns."""

    def __init__(self, found: dict[str, pa.Array]) -> None:
        self.offsets = found["offset"].to_numpy(zero_copy_only=False)
        self.count = len(self.offsets)
        self._timestamps = found["timestamp"]
        self._keys, self._values = _Bytes.of(found["key"]), _Bytes.of(found["value"])
        lists = found["headers"]
        pairs = lists.values
        self._nulls = lists.null_count
        self._headers_ends = np.frombuffer(lists.buffers()[1], np.int32)[
            lists.offset : lists.offset + self.count + 1
        ]
        self._names, self._contents = _Bytes.of(pairs.field(0)), _Bytes.of(pairs.field(1))
        self._times: Any = np.empty(0, np.int64)

    def check(self, chunk: Chunk) -> None:
        """Compare them with the chunk they came from."""
        if self._timestamps.null_count or self._nulls or not self._names.has.all():
            row = self._first_null()
            raise TransformFailed(
                "a row came back without a timestamp, or headers or a header's key are null",
                **_place(chunk, int(self.offsets[row])),
            )
        times = self._timestamps.cast(pa.int64()).to_numpy(zero_copy_only=False)
        self._times = np.floor_divide(times, US_PER_MS)

    def _first_null(self) -> int:
        times = self._timestamps.is_null().to_numpy(zero_copy_only=False)
        return int(np.argmax(times)) if times.any() else 0

    def batch(self, header: BatchHeader, first: int, stop: int, next_offset: int) -> bytes:
        """Return rows `[first, stop)` as a batch in the place of one of the source's."""
        if first == stop:
            return _batch(header, b"", 0, next_offset, (header.max_timestamp,) * 2, Codec.NONE)
        base_timestamp = int(self._times[first])
        names = int(self._headers_ends[stop] - self._headers_ends[first])
        room = (
            (stop - first) * columns.RECORD_ROOM
            + names * columns.HEADER_ROOM
            + _span(self._keys.ends, first, stop)
            + _span(self._values.ends, first, stop)
            + _span(self._names.ends, *self._headers_ends[[first, stop]])
            + _span(self._contents.ends, *self._headers_ends[[first, stop]])
        )
        out = np.empty(room, np.uint8)
        filled = columns.encode(
            *(first, stop, header.base_offset, base_timestamp, self.offsets, self._times),
            *(*self._keys, *self._values, self._headers_ends),
            *(self._names.ends, self._names.data, *self._contents, out),
        )
        body = compress(header.codec, out[:filled].tobytes())
        times = base_timestamp, int(self._times[first:stop].max())
        return _batch(header, body, stop - first, next_offset, times, header.codec)


def _batch(  # noqa: PLR0917 - the fields that differ
    like: BatchHeader,
    body: bytes,
    records: int,
    next_offset: int,
    times: tuple[int, int],
    codec: Codec,
) -> bytes:
    """Return a batch with this body, compressed already, and the offsets and producer of `like`."""
    base_timestamp, max_timestamp = times
    fields = like._replace(
        attributes=like.attributes & TRANSACTIONAL_BIT | codec.value,
        last_offset_delta=next_offset - 1 - like.base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=records,
    )
    return sealed(fields, body) + body


def _span(ends: Any, first: int, stop: int) -> int:
    return int(ends[stop] - ends[first])


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks)


def _unknown(chunk: Chunk, offset: int) -> TransformFailed:
    return TransformFailed(
        "a row came back with an offset that no record has", **_place(chunk, offset)
    )


def _place(chunk: Chunk, offset: int) -> dict[str, Any]:
    return {"topic": chunk.source.topic, "partition": chunk.source.partition, "offset": offset}
