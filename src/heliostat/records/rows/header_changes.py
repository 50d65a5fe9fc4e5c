"""Steps about headers and tombstones, compiled by Numba: for `in_place`.

A record's headers are read into rows of places; steps change the rows, and then they are written.
Rules as in `reencode`: a number read from data is compared with the end of the data before it is
used as an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
from numba import types

from heliostat.ops.compiled import inlined
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes
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
    InsertOrigin,
    RenameHeaders,
)
from heliostat.records.rows.origin_texts import OriginTexts, with_size
from heliostat.records.rows.record_columns import sized

FILTERED, DAMAGED, MANY_HEADERS = -1, -2, -4
"""What is returned instead of a count of headers; the last: there is no room for them."""
_KEEP_WITH, _DROP_WITH, _HAS_VALUE, _DROP, _RENAME, _INSERT, _ORIGIN = range(7)
# Columns of a step: what it does, and which rows of texts are its own.
_KIND, _FIRST, _STOP = range(3)
# Columns of a text: a header's name, and a new name or a content with its size before it; of an
# origin, which row of `OriginTexts` is its content.
_TEXT_AT, _TEXT_BYTES, _NEW_AT, _NEW_BYTES = range(4)
# Columns of a record's header: its name, its content with the size before it, and which of both
# are a step's texts instead of the record's bytes; or a content is one of the origin's.
_NAME_AT, _NAME_BYTES, _CONTENT_AT, _CONTENT_BYTES, _FROM_STEP = range(5)
_NAME, _CONTENT, _OF_ORIGIN = 1, 2, 4
HEADER_COLUMNS = 5

_INT = types.int64
_INTS = types.int64[::1]
_ROWS = types.int64[:, ::1]
_OUT = types.uint8[::1]


@inlined(types.boolean(BYTES, BYTES, _INTS, _INTS))
def _is_named(data: Any, table: Any, header: Any, text: Any) -> Any:
    if header[_NAME_BYTES] != text[_TEXT_BYTES]:
        return False
    held = table if header[_FROM_STEP] & _NAME else data
    for place in range(header[_NAME_BYTES]):
        if held[header[_NAME_AT] + place] != table[text[_TEXT_AT] + place]:
            return False
    return True


@inlined(_INT(BYTES, _INT, _INT, _ROWS, _INT))
def read_headers(data: Any, position: int, end: int, headers: Any, more: int) -> Any:
    """Read a record's headers into rows, with room for `more`; return how many there are."""
    count, place = read_varint_compiled(data, position, end)
    if place < 0 or count < 0 or count > end - place:
        return DAMAGED
    if count + more > len(headers):
        return MANY_HEADERS
    for number in range(count):
        name_at, size = sized(data, place, end)
        if size < 0:
            return DAMAGED
        content_at = name_at + size
        begin, content = sized(data, content_at, end)
        if content < -1:
            return DAMAGED
        place = begin + max(content, 0)
        header = headers[number]
        header[_NAME_AT], header[_NAME_BYTES], header[_FROM_STEP] = name_at, size, 0
        header[_CONTENT_AT], header[_CONTENT_BYTES] = content_at, place - content_at
    return count if place == end else DAMAGED


@inlined(types.boolean(BYTES, BYTES, _INTS, _ROWS, _INTS))
def _is_any(data: Any, table: Any, header: Any, texts: Any, step: Any) -> Any:
    for row in range(step[_FIRST], step[_STOP]):
        if _is_named(data, table, header, texts[row]):
            return True
    return False


@inlined(types.UniTuple(_INT, 2)(BYTES, types.boolean, _ROWS, _INT, _ROWS, _ROWS, BYTES, _ROWS))
def do_steps(  # noqa: C901, PLR0912, PLR0917 - compiled without keywords
    data: Any,
    has_value: bool,
    headers: Any,
    count: int,
    steps: Any,
    texts: Any,
    table: Any,
    places: Any,
) -> Any:
    """Do all steps to a record; return how many headers it has then, and whether that changed."""
    changed = 0
    for number in range(len(steps)):
        step = steps[number]
        kind, kept = step[_KIND], 0
        if kind == _HAS_VALUE:
            if not has_value:
                return FILTERED, 1
        elif kind in (_KEEP_WITH, _DROP_WITH):
            has_name = False
            for row in range(count):
                has_name = has_name or _is_any(data, table, headers[row], texts, step)
            if has_name != (kind == _KEEP_WITH):
                return FILTERED, 1
        elif kind == _DROP:
            for row in range(count):
                if not _is_any(data, table, headers[row], texts, step):
                    for column in range(HEADER_COLUMNS):
                        headers[kept, column] = headers[row, column]
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
                for column in range(_FROM_STEP):
                    headers[count, column] = texts[text, column]
                headers[count, _FROM_STEP] = _NAME | _CONTENT
                if kind == _ORIGIN:
                    place = places[texts[text, _NEW_AT]]
                    headers[count, _CONTENT_AT], headers[count, _CONTENT_BYTES] = place[0], place[1]
                    headers[count, _FROM_STEP] = _NAME | _OF_ORIGIN
                count += 1
                changed = 1
    return count, changed


@inlined(_INT(_OUT, _INT, BYTES, BYTES, _OUT, _ROWS, _INT))
def write_headers(  # noqa: PLR0917 - compiled without keywords
    out: Any, position: int, data: Any, table: Any, origin: Any, headers: Any, count: int
) -> Any:
    """Write headers with their count, for which there is room; return where they end."""
    position = write_varint(out, position, count)
    for number in range(count):
        header = headers[number]
        size = header[_NAME_BYTES]
        position = write_varint(out, position, size)
        if header[_FROM_STEP] & _NAME:
            copy_bytes(out, position, table, header[_NAME_AT], size)
        else:
            copy_bytes(out, position, data, header[_NAME_AT], size)
        position, size = position + size, header[_CONTENT_BYTES]
        if header[_FROM_STEP] & _CONTENT:
            copy_bytes(out, position, table, header[_CONTENT_AT], size)
        elif header[_FROM_STEP] & _OF_ORIGIN:
            copy_bytes(out, position, origin, header[_CONTENT_AT], size)
        else:
            copy_bytes(out, position, data, header[_CONTENT_AT], size)
        position += size
    return position


@inlined(_INT(_ROWS, _INT))
def bytes_of_headers(headers: Any, count: int) -> Any:
    """Return how many bytes headers take, with their count."""
    size = varint_bytes(count)
    for row in range(count):
        name = headers[row, _NAME_BYTES]
        size += varint_bytes(name) + name + headers[row, _CONTENT_BYTES]
    return size


class HeaderTables:
    """Steps as the compiled functions take them.

    Parameters
    ----------
    steps
        In order.
    """

    def __init__(self, steps: Sequence[InPlaceStep]) -> None:
        self._table = bytearray()
        self._texts: list[tuple[int, int, int, int]] = []
        rows = [self._row(step) for step in steps]
        self.steps: Any = np.array(rows, np.int64).reshape(-1, 3)
        new = [
            (kind == _ORIGIN, *self._texts[n])
            for kind, *own in rows
            if kind in {_INSERT, _ORIGIN}
            for n in range(*own)
        ]
        self.inserted = len(new)
        """Headers that a record gets."""
        self.inserted_bytes = sum(
            VARINT_BYTES_MAX + name + (0 if is_origin else content)
            for is_origin, _, name, _, content in new
        )
        """Most that these take, without what is an origin's."""
        origins = [step for step in steps if isinstance(step, InsertOrigin)]
        self.origin = OriginTexts(origins)
        self.texts: Any = np.array(self._texts, np.int64).reshape(-1, 4)
        self.bytes: Any = np.frombuffer(bytes(self._table), np.uint8)

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
                self._add(*((name, with_size(text.encode())) for name, text in headers))
            case InsertOrigin(headers):
                kind = _ORIGIN
                for name, what in headers:
                    self._texts.append((len(self._table), len(name.encode()), int(what), 0))
                    self._table += name.encode()
            case _:
                assert_never(step)
        return kind, first, len(self._texts)

    def _add(self, *texts: tuple[str, bytes]) -> None:
        for name, other in texts:
            name_bytes, begin = name.encode(), len(self._table)
            self._table += name_bytes + other
            self._texts.append((begin, len(name_bytes), begin + len(name_bytes), len(other)))
