"""Steps about headers and tombstones, done on batches' bytes: one loop compiled by Numba.

No row is made, and nothing goes through Spark's JVM: a record is read once, and written once where
its batch has changed. A batch in which nothing was filtered or changed keeps its bytes, compressed
ones too. What each step means is written twice, here and in `records.spark.in_place_sql`, for
pipelines that have other steps as well; a test compares both.

Rules as in `reencode`: a number read from data is compared with the end of the data before it is
used as an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
from numba import types

from heliostat.errors import BatchError
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    BatchHeader,
    each_header,
)
from heliostat.records.batches.compiled_bytes import BYTES, compiled, copy_bytes
from heliostat.records.batches.reencode import (
    VARINT_BYTES_MAX,
    read_varint_compiled,
    varint_bytes,
    write_varint,
)
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InPlaceStep,
    InsertHeaders,
    RenameHeaders,
)
from heliostat.records.rows.record_columns import key_and_value, record_begins, sized
from heliostat.records.rows.thinned_batch import thinned_batch
from heliostat.records.rows.to_rows import Chunk, RecordsOf, records_of

_KEEP_WITH, _DROP_WITH, _HAS_VALUE, _DROP, _RENAME, _INSERT = range(6)
# Columns of a step: what it does, and which rows of texts are its own.
_KIND, _FIRST, _STOP = range(3)
# Columns of a text: a header's name, and a new name or a content with its size before it.
_TEXT_AT, _TEXT_BYTES, _NEW_AT, _NEW_BYTES = range(4)
# Columns of a record's header: its name, its content with the size before it, and which of both
# are a step's texts instead of the record's bytes.
_NAME_AT, _NAME_BYTES, _CONTENT_AT, _CONTENT_BYTES, _FROM_STEP = range(5)
_NAME, _CONTENT = 1, 2
# What `_apply` tells.
_KEPT, _BASE_TIME, _MAX_TIME, _CHANGED = range(4)
_FILTERED, _DAMAGED, _NO_ROOM, _MANY_HEADERS = -1, -2, -3, -4
_HEADERS = 64
"""Headers of one record for which there is room at first."""
_RECORD_ROOM = 2 * VARINT_BYTES_MAX
"""Most by which a record's own fields can grow."""

_INT = types.int64
_INTS = types.int64[::1]
_ROWS = types.int64[:, ::1]
_OUT = types.uint8[::1]


@compiled(types.boolean(BYTES, BYTES, _INTS, _INTS))
def _is_named(data: Any, table: Any, header: Any, text: Any) -> Any:
    if header[_NAME_BYTES] != text[_TEXT_BYTES]:
        return False
    held = table if header[_FROM_STEP] & _NAME else data
    for place in range(header[_NAME_BYTES]):
        if held[header[_NAME_AT] + place] != table[text[_TEXT_AT] + place]:
            return False
    return True


@compiled(_INT(BYTES, _INT, _INT, _ROWS, _INT))
def _read_headers(data: Any, at: int, end: int, headers: Any, more: int) -> Any:
    """Read a record's headers into rows, with room for `more`; return how many there are."""
    count, place = read_varint_compiled(data, at, end)
    if place < 0 or count < 0 or count > end - place:
        return _DAMAGED
    if count + more > len(headers):
        return _MANY_HEADERS
    for number in range(count):
        name_at, size = sized(data, place, end)
        if size < 0:
            return _DAMAGED
        content_at = name_at + size
        begin, content = sized(data, content_at, end)
        if content < -1:
            return _DAMAGED
        place = begin + max(content, 0)
        header = headers[number]
        header[_NAME_AT], header[_NAME_BYTES], header[_FROM_STEP] = name_at, size, 0
        header[_CONTENT_AT], header[_CONTENT_BYTES] = content_at, place - content_at
    return count if place == end else _DAMAGED


@compiled(types.boolean(BYTES, BYTES, _INTS, _ROWS, _INTS))
def _is_any(data: Any, table: Any, header: Any, texts: Any, step: Any) -> Any:
    for row in range(step[_FIRST], step[_STOP]):
        if _is_named(data, table, header, texts[row]):
            return True
    return False


@compiled(types.UniTuple(_INT, 2)(BYTES, types.boolean, _ROWS, _INT, _ROWS, _ROWS, BYTES))
def _do_steps(  # noqa: C901, PLR0912, PLR0917 - compiled without keywords
    data: Any, has_value: bool, headers: Any, count: int, steps: Any, texts: Any, table: Any
) -> Any:
    """Do all steps to a record; return how many headers it has then, and whether that changed."""
    changed = 0
    for number in range(len(steps)):
        step = steps[number]
        kind, kept = step[_KIND], 0
        if kind == _HAS_VALUE:
            if not has_value:
                return _FILTERED, 1
        elif kind in (_KEEP_WITH, _DROP_WITH):
            found = False
            for row in range(count):
                found = found or _is_any(data, table, headers[row], texts, step)
            if found != (kind == _KEEP_WITH):
                return _FILTERED, 1
        elif kind == _DROP:
            for row in range(count):
                if not _is_any(data, table, headers[row], texts, step):
                    headers[kept] = headers[row]
                    kept += 1
            changed |= kept != count
            count = kept
        elif kind == _RENAME:
            for row in range(count):
                for text in range(step[_FIRST], step[_STOP]):
                    if _is_named(data, table, headers[row], texts[text]):
                        headers[row, _NAME_AT] = texts[text, _NEW_AT]
                        headers[row, _NAME_BYTES] = texts[text, _NEW_BYTES]
                        headers[row, _FROM_STEP] |= _NAME
                        changed = 1
                        break
        else:
            for text in range(step[_FIRST], step[_STOP]):
                headers[count, :_FROM_STEP] = texts[text]
                headers[count, _FROM_STEP] = _NAME | _CONTENT
                count += 1
                changed = 1
    return count, changed


@compiled(_INT(_OUT, _INT, BYTES, BYTES, _ROWS, _INT))
def _write_headers(  # noqa: PLR0917 - compiled without keywords
    out: Any, at: int, data: Any, table: Any, headers: Any, count: int
) -> Any:
    at = write_varint(out, at, count)
    for number in range(count):
        header = headers[number]
        size = header[_NAME_BYTES]
        at = write_varint(out, at, size)
        if header[_FROM_STEP] & _NAME:
            copy_bytes(out, at, table, header[_NAME_AT], size)
        else:
            copy_bytes(out, at, data, header[_NAME_AT], size)
        at, size = at + size, header[_CONTENT_BYTES]
        if header[_FROM_STEP] & _CONTENT:
            copy_bytes(out, at, table, header[_CONTENT_AT], size)
        else:
            copy_bytes(out, at, data, header[_CONTENT_AT], size)
        at += size
    return at


@compiled(_INT(_ROWS, _INT))
def _bytes_of_headers(headers: Any, count: int) -> Any:
    size = varint_bytes(count)
    for row in range(count):
        name = headers[row, _NAME_BYTES]
        size += varint_bytes(name) + name + headers[row, _CONTENT_BYTES]
    return size


@compiled(
    _INT(
        *(BYTES, _INT, _INT, _INT, _INT, _INT, _INT, _INT, _INT, types.boolean),
        *(_ROWS, _ROWS, BYTES, _INT, _ROWS, _OUT, _INT, _INTS),
    )
)
def _apply(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    at: int,
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
    headers: Any,
    out: Any,
    out_at: int,
    told: Any,
) -> Any:
    """Write the records in `data[at:end]` as the steps leave them; return where they end in `out`.

    Only those with offsets `[start, before)` are written. `told` begins as zeros.
    """
    last: Any = np.int64(-1)
    for _ in range(count):
        since, delta, key_at, at = record_begins(data, at, end)
        if at < 0 or delta <= last:
            return _DAMAGED
        last = delta
        if base_offset + delta < start or base_offset + delta >= before:
            told[_CHANGED] = 1
            continue
        value_at, value, headers_at = key_and_value(data, key_at, at)
        if value_at < 0:
            return _DAMAGED
        found = _read_headers(data, headers_at, at, headers, inserted)
        if found < 0:
            return found
        found, changed = _do_steps(data, value >= 0, headers, found, steps, texts, table)
        told[_CHANGED] |= changed
        if found < 0:
            continue

        time: Any = append_time if has_append_time else base_timestamp + since
        if not told[_KEPT]:
            told[_BASE_TIME] = told[_MAX_TIME] = time
        told[_KEPT], told[_MAX_TIME] = told[_KEPT] + 1, max(told[_MAX_TIME], time)
        since = time - told[_BASE_TIME]
        size = 1 + varint_bytes(since) + varint_bytes(delta) + headers_at - key_at
        size += _bytes_of_headers(headers, found) if changed else at - headers_at
        if out_at + varint_bytes(size) + size > len(out):
            return _NO_ROOM
        out_at = write_varint(out, out_at, size)
        out[out_at] = 0
        out_at = write_varint(out, out_at + 1, since)
        out_at = write_varint(out, out_at, delta)
        copy_bytes(out, out_at, data, key_at, (headers_at if changed else at) - key_at)
        out_at += (headers_at if changed else at) - key_at
        if changed:
            out_at = _write_headers(out, out_at, data, table, headers, found)
    return out_at


class InPlace:
    """Does steps to batches.

    Parameters
    ----------
    steps
        In order.
    """

    def __init__(self, steps: Sequence[InPlaceStep]) -> None:
        self._table = bytearray()
        self._texts: list[tuple[int, int, int, int]] = []
        rows = [self._row(step) for step in steps]
        self._steps = np.array(rows, np.int64).reshape(-1, 3)
        new = [self._texts[n] for kind, *own in rows if kind == _INSERT for n in range(*own)]
        self._inserted = len(new)
        self._grows = _RECORD_ROOM + sum(
            VARINT_BYTES_MAX + name + content for _, name, _, content in new
        )
        self._of_steps = np.array(self._texts, np.int64).reshape(-1, 4)
        self._bytes = np.frombuffer(bytes(self._table), np.uint8)
        self._headers = np.empty((_HEADERS, 5), np.int64)

    def _row(self, step: InPlaceStep) -> tuple[int, int, int]:
        first = len(self._texts)
        match step:
            case HasHeader(name, is_kept):
                kind = _KEEP_WITH if is_kept else _DROP_WITH
                self._add((name, b""))
            case HasValue():
                kind = _HAS_VALUE
            case DropHeaders(names):
                kind = _DROP
                self._add(*((name, b"") for name in names))
            case RenameHeaders(pairs):
                kind = _RENAME
                self._add(*((old, new.encode()) for old, new in pairs))
            case InsertHeaders(headers):
                kind = _INSERT
                self._add(*((name, _with_size(text.encode())) for name, text in headers))
            case _:
                assert_never(step)
        return kind, first, len(self._texts)

    def _add(self, *texts: tuple[str, bytes]) -> None:
        for name, other in texts:
            known, at = name.encode(), len(self._table)
            self._table += known + other
            self._texts.append((at, len(known), at + len(known), len(other)))

    def applied(self, chunk: Chunk) -> tuple[bytearray, BatchError | None]:
        """Return a chunk's batches as the steps leave them; and what is wrong after those.

        Each batch keeps its offsets, as `from_rows.batches_of` leaves them.
        """
        view = memoryview(chunk.data)
        out: list[Any] = []
        for at, header in each_header(view, 0, len(view)):
            if header.base_offset >= chunk.before:
                break
            if header.is_control or not header.records_count:
                out.append(view[at : at + header.size])
                continue
            try:
                out += self._batch(chunk, at, header)
            except BatchError as error:
                return bytearray().join(out), error
        return bytearray().join(out), None

    def _batch(self, chunk: Chunk, at: int, header: BatchHeader) -> Sequence[Any]:
        view = memoryview(chunk.data)
        records = records_of(view, at, header)
        told = np.zeros(4, np.int64)
        room, end = self._written(chunk, records, told)
        if not told[_CHANGED]:
            return [view[at : at + header.size]]
        kept, base_timestamp, max_timestamp, _ = told.tolist()
        times = base_timestamp, max_timestamp
        return thinned_batch(header, room[:end], kept, chunk.before, times)

    def _written(self, chunk: Chunk, records: RecordsOf, told: Any) -> tuple[Any, int]:
        """Return the changed records behind room for a header, and where they end."""
        header = records.header
        room = records.end - records.begin + header.records_count * self._grows
        while True:
            out = np.empty(HEADER_BYTES + room, np.uint8)
            end = _apply(
                *(records.data, records.begin, records.end, header.records_count),
                *(header.base_offset, chunk.first, chunk.before, header.base_timestamp),
                *(header.max_timestamp, header.is_log_append_time),
                *(self._steps, self._of_steps, self._bytes, self._inserted, self._headers),
                *(out, HEADER_BYTES, told),
            )
            if end == _DAMAGED:
                raise BatchError("records are damaged", base_offset=header.base_offset)
            if end >= 0:
                return out, end
            told[:] = 0
            if end == _MANY_HEADERS:
                self._headers = np.empty((2 * len(self._headers), 5), np.int64)
            else:
                room *= 2  # headers have longer names now


def _with_size(content: bytes) -> bytes:
    out = np.empty(VARINT_BYTES_MAX, np.uint8)
    return out[: write_varint(out, 0, len(content))].tobytes() + content
