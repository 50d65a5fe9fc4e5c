"""Steps about headers, tombstones and whole fields, done on batches' bytes: one compiled loop.

No row is made, and nothing goes through Spark's JVM: a record is read once, and written once where
its batch has changed. A batch in which nothing was filtered or changed keeps its bytes, compressed
ones too. What each step means is written twice, here and in `records.spark.in_place_sql`, for
pipelines that have other steps as well; a test compares both. Fields are cut by `field_cuts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import types

from heliostat.errors import BatchError
from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    each_header,
)
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
from heliostat.records.batches.converted import OPENED_BYTES_MAX
from heliostat.records.batches.reencode import (
    VARINT_BYTES_MAX,
    varint_bytes,
    write_varint,
)
from heliostat.records.rows.field_cuts import (
    TABLES,
    FieldCuts,
    edits_of,
    new_edits,
    tables_of,
)
from heliostat.records.rows.header_changes import (
    DAMAGED,
    HEADER_COLUMNS,
    MANY_HEADERS,
    HeaderTables,
    bytes_of_headers,
    do_steps,
    read_headers,
    write_headers,
)
from heliostat.records.rows.header_steps import InPlaceStep
from heliostat.records.rows.json_cuts import (
    FAILS,
    LEFT,
    MANY,
    edited_bytes,
    write_edits,
)
from heliostat.records.rows.origin_texts import write_place
from heliostat.records.rows.record_columns import key_and_value, record_begins
from heliostat.records.rows.thinned_batch import InARow, room_for, thinned_batch
from heliostat.records.rows.to_rows import Chunk, RecordsOf, records_of

# Columns of a record: its first fields; of key and value where they begin with their sizes, where
# what is in them begins, and its bytes (-1: null); where its headers begin, and where it ends.
_SINCE, _DELTA, _KEY_AT, _VALUE_AT, _HEADERS_AT, _END, _COLUMNS = 0, 1, 2, 5, 8, 9, 10
_KEY, _VALUE = range(2)
# What `_apply` tells.
_KEPT, _BASE_TIME, _MAX_TIME, _CHANGED, _FAILED_AT, _FAILED_COLUMN, _FAILED_FROM, _FAILED_BYTES = (
    range(8)
)
_NO_ROOM, _FAILED, _MANY_EDITS = -3, -5, -6
_HEADERS = 64
"""Headers of one record for which there is room at first."""
_ROOM_KEPT_BYTES = 4 * 1024 * 1024
_RECORD_ROOM = 2 * VARINT_BYTES_MAX
"""Most by which a record's own fields can grow."""

_INT = types.int64
_INTS = types.int64[::1]
_ROWS = types.int64[:, ::1]
_OUT = types.uint8[::1]
_EDITS = types.int64[:, :, ::1]


@inlined(types.boolean(BYTES, _INT, _INT, _INTS))
def _read_record(data: Any, position: int, end: int, record: Any) -> Any:
    """Fill in where the parts of the record at `position` lie; False: it is damaged."""
    since, delta, key_at, record_end = record_begins(data, position, end)
    if record_end < 0:
        return False
    key, key_bytes, value_at, value, value_bytes, headers_at = key_and_value(
        data, key_at, record_end
    )
    if value_at < 0:
        return False
    record[_SINCE], record[_DELTA], record[_END] = since, delta, record_end
    record[_KEY_AT], record[_KEY_AT + 1], record[_KEY_AT + 2] = key_at, key, key_bytes
    record[_VALUE_AT], record[_VALUE_AT + 1], record[_VALUE_AT + 2] = value_at, value, value_bytes
    record[_HEADERS_AT] = headers_at
    return True


@inlined(_INT(BYTES, _INTS, TABLES, _EDITS, _INTS, _INTS))
def _find_edits(  # noqa: PLR0917 - compiled without keywords
    data: Any, record: Any, tables: Any, edits: Any, counts: Any, notes: Any
) -> Any:
    """Fill in what becomes of key and value.

    `counts` has how many edits there are. Returns whether there are any; or `FAILS`, `MANY`.
    """
    changed = 0
    for column in range(2):
        content, size = record[_KEY_AT + 3 * column + 1], record[_KEY_AT + 3 * column + 2]
        count = edits_of(data, content, size, column, tables, edits[column])
        if count == FAILS:
            notes[_FAILED_COLUMN], notes[_FAILED_FROM], notes[_FAILED_BYTES] = column, content, size
            return FAILS
        if count == MANY:
            return MANY
        counts[column] = count
        changed |= count != LEFT
    return changed


@inlined(_INT(_INTS, _INT, _INT, _ROWS))
def _column_bytes(record: Any, first: int, count: int, edits: Any) -> Any:
    if count == LEFT:
        return record[first + 1] + max(record[first + 2], 0) - record[first]
    size = edited_bytes(count, edits)
    return varint_bytes(size) + size


@inlined(_INT(_OUT, _INT, BYTES, _INTS, _INT, _INT, _ROWS, BYTES))
def _write_column(  # noqa: PLR0917 - compiled without keywords
    out: Any,
    position: int,
    data: Any,
    record: Any,
    first: int,
    count: int,
    edits: Any,
    constants: Any,
) -> Any:
    if count == LEFT:
        size = record[first + 1] + max(record[first + 2], 0) - record[first]
        copy_bytes(out, position, data, record[first], size)
        return position + size
    position = write_varint(out, position, edited_bytes(count, edits))
    return write_edits(out, position, data, count, edits, constants)


@inlined(
    _INT(
        *(_OUT, _INT, BYTES, _INTS, _INT, BYTES, _OUT, _ROWS, _INT, _INT),
        *(_INTS, _EDITS, BYTES),
    )
)
def _write_record(  # noqa: PLR0917 - compiled without keywords
    out: Any,
    position: int,
    data: Any,
    record: Any,
    since: int,
    table: Any,
    origin: Any,
    headers: Any,
    count: int,
    is_changed: int,
    counts: Any,
    edits: Any,
    constants: Any,
) -> Any:
    """Write a record as the steps leave it; return where it ends in `out`, or `_NO_ROOM`."""
    begin, headers_at = record[_KEY_AT], record[_HEADERS_AT]
    is_left = counts[_KEY] == LEFT and counts[_VALUE] == LEFT
    contents = headers_at - begin
    if not is_left:
        contents = np.int64(0)
        for column in range(2):
            first = _KEY_AT + 3 * column
            contents += _column_bytes(record, first, counts[column], edits[column])
    rest = bytes_of_headers(headers, count) if is_changed else record[_END] - headers_at
    size = 1 + varint_bytes(since) + varint_bytes(record[_DELTA]) + contents + rest
    if position + varint_bytes(size) + size > len(out):
        return _NO_ROOM
    position = write_varint(out, position, size)
    out[position] = 0
    position = write_varint(out, position + 1, since)
    position = write_varint(out, position, record[_DELTA])
    if is_left:
        copy_bytes(out, position, data, begin, contents)
        position += contents
    else:
        for column in range(2):
            first, edited = _KEY_AT + 3 * column, counts[column]
            position = _write_column(
                *(out, position, data, record, first, edited, edits[column], constants)
            )
    if is_changed:
        return write_headers(out, position, data, table, origin, headers, count)
    copy_bytes(out, position, data, headers_at, rest)
    return position + rest


@compiled(
    _INT(
        *(BYTES, _INT, _INT, _INT, _INT, _INT, _INT, _INT, _INT, types.boolean),
        *(_ROWS, _ROWS, BYTES, _INT, _OUT, _ROWS, _ROWS, TABLES, _EDITS, _INTS, _INTS, _OUT, _INT),
        _INTS,
    )
)
def _apply(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    start: int,
    before: int,
    base_timestamp: int,
    append_time: int,
    has_append_time: bool,
    steps: Any,
    texts: Any,
    table: Any,
    inserted: int,
    origin: Any,
    origin_places: Any,
    headers: Any,
    tables: Any,
    edits: Any,
    counts: Any,
    record: Any,
    out: Any,
    out_at: int,
    notes: Any,
) -> Any:
    """Write the records in `data[position:end]` as the steps leave them; return their end in `out`.

    Only those with offsets `[start, before)` are written. `counts` begin as `LEFT`, `notes` as
    zeros; `edits` and `record` are room.
    """
    places, constants = tables[0], tables[-1]
    has_cuts = places[_KEY, 0] | places[_VALUE, 0]
    last: Any = np.int64(-1)
    for _ in range(count):
        if not _read_record(data, position, end, record) or record[_DELTA] <= last:
            return DAMAGED
        position, last = record[_END], record[_DELTA]
        if base_offset + last < start or base_offset + last >= before:
            notes[_CHANGED] = 1
            continue
        total = read_headers(data, record[_HEADERS_AT], position, headers, inserted)
        if total < 0:
            return total
        has_value = record[_VALUE_AT + 2] >= 0
        time: Any = append_time if has_append_time else base_timestamp + record[_SINCE]
        write_place(origin, origin_places, base_offset + last, time)
        step_texts = steps, texts, table, origin_places
        total, changed = do_steps(data, has_value, headers, total, *step_texts)
        notes[_CHANGED] |= changed
        if total < 0:
            continue
        if has_cuts:
            edited = _find_edits(data, record, tables, edits, counts, notes)
            if edited == FAILS:
                notes[_FAILED_AT] = base_offset + last
                return _FAILED
            if edited == MANY:
                return _MANY_EDITS
            notes[_CHANGED] |= edited
        if not notes[_KEPT]:
            notes[_BASE_TIME] = notes[_MAX_TIME] = time
        notes[_KEPT], notes[_MAX_TIME] = notes[_KEPT] + 1, max(notes[_MAX_TIME], time)
        out_at = _write_record(
            *(out, out_at, data, record, time - notes[_BASE_TIME], table, origin, headers, total),
            *(changed, counts, edits, constants),
        )
        if out_at < 0:
            return out_at
    return out_at


class FailedRecord(NamedTuple):
    """A record that the steps can't be done to; those before it are done."""

    offset: int
    why: str


class AppliedSteps(Protocol):
    """Steps that are done to batches at once."""

    opened: Codec
    """Codec of the first compressed batch of the last chunk, see `ConvertSettings.opened`."""

    def applied(self, chunk: Chunk) -> tuple[memoryview, BatchError | FailedRecord | None]:
        """Return a chunk's batches as the steps leave them; and what is wrong after those."""
        ...


class InPlace:
    """Does steps to batches.

    Parameters
    ----------
    steps
        In order.
    cuts
        What becomes of fields in keys and values that are kept.
    """

    def __init__(self, steps: Sequence[InPlaceStep], cuts: FieldCuts | None = None) -> None:
        self._why = None if cuts is None else cuts.why
        tables, grows, self._edits = tables_of(cuts)
        self._cuts = tuple(tables)
        self._tables = HeaderTables(steps)
        self._grows = _RECORD_ROOM + grows + self._tables.inserted_bytes
        self._headers = np.empty((_HEADERS, HEADER_COLUMNS), np.int64)
        self._counts, self._record = np.full(2, LEFT, np.int64), np.zeros(_COLUMNS, np.int64)
        self._room = np.empty(0, np.uint8)
        self._open_bytes = OPENED_BYTES_MAX
        self.opened = Codec.NONE
        """Codec of the first compressed batch of the last chunk, see `ConvertSettings.opened`."""

    def applied(self, chunk: Chunk) -> tuple[memoryview, BatchError | FailedRecord | None]:
        """Return a chunk's batches as the steps leave them; and what is wrong after those.

        Each batch keeps its offsets, as `from_rows.batches_of` leaves them.
        """
        view = memoryview(chunk.data)
        out = InARow(len(view) + len(view) // 8)
        self._open_bytes, self.opened = OPENED_BYTES_MAX, Codec.NONE
        self._tables.origin.begin(chunk.source)
        for position, header in each_header(view, 0, len(view)):
            if header.base_offset >= chunk.before:
                break
            if header.is_control or not header.records_count:
                out.add(view[position : position + header.size])
                continue
            if self.opened is Codec.NONE:
                self.opened = header.codec
            try:
                parts, failed = self._batch(chunk, view[position : position + header.size], header)
            except BatchError as error:
                return out.bytes, error
            for part in parts:
                out.add(part)  # at once: it lies in room for the next one
            if failed is not None:
                return out.bytes, failed
        return out.bytes, None

    def _batch(
        self, chunk: Chunk, batch: memoryview, header: BatchHeader
    ) -> tuple[Sequence[Any], FailedRecord | None]:
        records = records_of(batch, 0, header)
        notes = np.zeros(8, np.int64)
        room, end = self._written(chunk, records, notes)
        failed = None
        if end == _FAILED:
            failed = self._failed(records, notes)
            if failed.offset <= max(header.base_offset, chunk.first):
                return [], failed
            chunk = chunk._replace(before=failed.offset)
            notes[:] = 0
            room, end = self._written(chunk, records, notes)
        if not notes[_CHANGED]:
            return [batch], None
        kept, base_timestamp, max_timestamp = notes[: _MAX_TIME + 1].tolist()
        times = base_timestamp, max_timestamp
        parts = thinned_batch(
            *(header, room[:end], kept, chunk.before, times, self._open_bytes),
            is_alone=len(batch) == len(chunk.data),
        )
        self._open_bytes -= len(parts[-1])
        return parts, failed

    def _failed(self, records: RecordsOf, notes: Any) -> FailedRecord:
        offset, column, begin, size = notes[_FAILED_AT : _FAILED_BYTES + 1].tolist()
        assert self._why is not None, "only fields fail"
        content = records.data[begin : begin + size].tobytes()
        return FailedRecord(offset, self._why("value" if column else "key", content))

    def _room_for(self, size: int) -> Any:
        """Return room for a batch, the same for each: to look for a buffer took 0.1 ms a batch."""
        if size > _ROOM_KEPT_BYTES:
            return room_for(size)
        if size > len(self._room):
            self._room = np.empty(size, np.uint8)
        return self._room

    def _written(self, chunk: Chunk, records: RecordsOf, notes: Any) -> tuple[Any, int]:
        """Return the changed records behind room for a header, and where they end, or `_FAILED`."""
        header, of_headers = records.header, self._tables
        room = (
            records.end
            - records.begin
            + header.records_count * (self._grows + of_headers.origin.bytes_max)
        )
        while True:
            out = self._room_for(HEADER_BYTES + room)
            end = _apply(
                *(records.data, records.begin, records.end, header.records_count),
                *(header.base_offset, chunk.first, chunk.before, header.base_timestamp),
                *(header.max_timestamp, header.is_log_append_time),
                *(of_headers.steps, of_headers.texts, of_headers.bytes, of_headers.inserted),
                *(of_headers.origin.bytes, of_headers.origin.places),
                *(self._headers, self._cuts, self._edits, self._counts, self._record),
                *(out, HEADER_BYTES, notes),
            )
            if end == DAMAGED:
                raise BatchError("records are damaged", base_offset=header.base_offset)
            if end >= 0 or end == _FAILED:
                return out, end
            notes[:] = 0
            if end == MANY_HEADERS:
                self._headers = np.empty((2 * len(self._headers), HEADER_COLUMNS), np.int64)
            elif end == _MANY_EDITS:
                self._edits = new_edits(2 * self._edits.shape[1])
            else:
                room *= 2  # headers have longer names now
