"""Which schema ids the records of an answer have, as far as they are not known yet.

I8  What must wait for a schema begins at `UnknownIds.upto`; all before it has known ids only.

Only the five bytes of a frame (`heliostat.framed_ids`) of a key or value are looked at.

What is damaged is left to `convert`, which reports it: such records have no ids here, and a batch
that seems to have unknown ones must have the right CRC, or a flipped bit would be waited for.
Rules for compiled loops: see `reencode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.clusters.wire.scan import number_at
from heliostat.errors import BatchError
from heliostat.framed_ids import FRAME_BYTES
from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    MAGIC,
    MAGIC_AT,
    OFFSET_MAX,
    RECORD_BYTES_MIN,
    Codec,
    check_crc,
    read_header,
)
from heliostat.records.batches.codecs import decompress
from heliostat.records.batches.compiled_bytes import BYTES

ALL_OFFSETS = 0, OFFSET_MAX
IDS_MAX = 256
"""Unknown ids that are looked for; where any bytes may be in values, there could be thousands."""
KNOWN = types.Array(types.int64, 1, "C", readonly=True)
"""Numba's type of known ids, ascending."""

_ATTRIBUTES_LOW_AT = CRC_FROM + 1
_COUNT_AT = 57
_LENGTH, _, _DELTA, _KEY, _ = range(5)
"""A record's varints; also the delta of its timestamp and, last, the size of its value."""
_FIELDS = 5
_SHIFT_MAX = 63
"""Of a varint's tenth byte, only one bit is left for a 64-bit number."""
_NO_BYTES: Any = np.empty(0, np.uint8)
_INT = types.int64
_PAIR = types.UniTuple(_INT, 2)
_FLAG = types.boolean
_FOUND = types.int64[::1]


class Framing(NamedTuple):
    """What of a topic's records may begin with a schema id."""

    keys: bool
    values: bool


class UnknownIds(NamedTuple):
    """What `unknown_ids` has found."""

    ids: tuple[int, ...]
    """Ids that are not known, ascending. If there are `IDS_MAX` or more, there may be others."""
    upto: int
    """Where in the view the first batch with one begins. Without one, where the whole batches end:
    the view's end if that can't be told, as damage must reach `convert`."""
    first_offset: int
    """Source offset of the first record with one, -1: none."""


@inlined(_INT(KNOWN, _INT))
def place_of(ids: Any, number: int) -> Any:
    """Return where a number is among ascending ids; -1: nowhere."""
    low, high = np.int64(0), np.int64(len(ids))
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(ids) and ids[low] == number else np.int64(-1)


@inlined(_INT(_FOUND, _INT, _INT))
def _added(found: Any, filled: int, number: int) -> Any:
    """Add a number to the `filled` first ones, unless it is there; return how many there are."""
    for place in range(filled):
        if found[place] == number:
            return filled
    if filled < len(found):
        found[filled] = number
        filled += 1
    return filled


@inlined(_PAIR(BYTES, _INT, _INT, _INT, KNOWN, _FLAG, _FLAG, _PAIR, _FOUND))
def _scan(  # noqa: C901, PLR0912, PLR0917 - one compiled loop
    data: Any,
    at: int,
    end: int,
    count: int,
    known: Any,
    keys: bool,
    values: bool,
    deltas: tuple[int, int],
    found: Any,
) -> Any:
    """Look for unknown ids in the `count` records in `data[at:end]`.

    Only records with offset deltas in `[deltas[0], deltas[1])` are looked at. Ends at damage, and
    where `found` has no room for more. Returns the offset delta of the first record with an unknown
    id, -1: none; and how many such ids are in `found`.

    Varints are read in the loop: by calls of functions that take the array, as
    `read_varint_compiled` does, a record took 105 ns instead of 15.
    """
    first, filled, delta = np.int64(-1), np.int64(0), np.int64(0)
    # Most keys have the same id as the key before, and so have values: these two take turns.
    before, other = np.int64(-1), np.int64(-1)
    for _ in range(count):
        record_end = end
        for field in range(_FIELDS):
            bits, shift = np.uint64(0), np.uint64(0)
            while True:
                if at >= record_end or (shift == _SHIFT_MAX and data[at] > 1):
                    return first, filled
                byte = data[at]
                at += 1
                bits |= np.uint64(byte & 127) << shift
                shift += np.uint64(7)
                if byte < 128:
                    break
            number: Any = np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))
            if field == _LENGTH:
                if number < RECORD_BYTES_MIN - 1 or number > end - at:
                    return first, filled
                record_end = at + number
                at += 1  # its attributes
            elif field == _DELTA:
                delta = number
            if field < _KEY:
                continue
            if number > record_end - at or delta < 0:
                return first, filled
            before, other = other, before
            is_looked_at = (keys if field == _KEY else values) and deltas[0] <= delta < deltas[1]
            if is_looked_at and number >= FRAME_BYTES and data[at] == 0 and data[at + 1] < 128:
                schema_id = np.int64(0)
                for place in range(at + 1, at + FRAME_BYTES):
                    schema_id = schema_id << 8 | np.int64(data[place])
                if schema_id != before and place_of(known, schema_id) >= 0:
                    before = schema_id
                elif schema_id != before:
                    filled = _added(found, filled, schema_id)
                    first = delta if first < 0 else first
                    if filled == len(found):
                        return first, filled
            at += max(number, np.int64(0))
        at = record_end
    return first, filled


@compiled(_PAIR(BYTES, _INT, _INT, KNOWN, _FLAG, _FLAG, _PAIR), makes_arrays=True)
def to_look_at(  # noqa: PLR0917 - compiled without keywords
    data: Any, at: int, end: int, known: Any, keys: bool, values: bool, offsets: tuple[int, int]
) -> Any:
    """Return where the first batch that is compressed or has an unknown id begins, and its size.

    Only records at source offsets in `[offsets[0], offsets[1])` are looked at. A size of 0: there
    is none, and the whole batches end there.
    """
    none = np.empty(0, np.int64)
    while at + LENGTH_ENDS_AT <= end:
        length = number_at(data, at + 8, 4)  # there in all formats
        if length <= 0:
            return end, np.int64(0)
        size = LENGTH_ENDS_AT + length
        if size > end - at:
            break
        bits = data[at + _ATTRIBUTES_LOW_AT] if length > LENGTH_MIN else np.uint8(CONTROL_BIT)
        if bits & CONTROL_BIT == 0 and data[at + MAGIC_AT] == MAGIC:
            if bits & CODEC_BITS != 0:
                return at, size
            begin, count = at + HEADER_BYTES, number_at(data, at + _COUNT_AT, 4)
            base = number_at(data, at, 8)
            deltas = offsets[0] - base, offsets[1] - base
            first, _ = _scan(data, begin, at + size, count, known, keys, values, deltas, none)
            if first >= 0:
                return at, size
        at += size
    return at, np.int64(0)


def unknown_ids(  # noqa: PLR0917 - an answer, and what to look for
    view: memoryview,
    start: int,
    end: int,
    known: Any,
    framing: Framing,
    offsets: tuple[int, int] = ALL_OFFSETS,
) -> UnknownIds:
    """Return the schema ids of an answer's records that are not among those known.

    Parameters
    ----------
    view, start, end
        The answer's batches are `view[start:end]`, and are not changed; the last may be cut.
        Messages of the formats before v2 have no ids here, nor have control batches.
    known
        Ids, int64 of shape (n,), ascending.
    framing
        Where to look for ids.
    offsets
        Only records at source offsets in `[offsets[0], offsets[1])` are looked at.

    Returns
    -------
    UnknownIds
        Damage never raises.
    """
    data = np.frombuffer(view, np.uint8) if end > start else _NO_BYTES
    at, size = to_look_at(data, start, end, known, *framing, offsets)
    upto = first_offset = -1
    ids: list[int] = []
    while size and len(ids) < IDS_MAX:
        offset, found = _look(view, data, at, at + size, known, framing, offsets)
        if found:
            if not ids:
                upto, first_offset = at, offset
            ids += found
            # Compiled code need not stop at each batch that has the same ones.
            known = np.insert(known, np.searchsorted(known, sorted(found)), sorted(found))
        at, size = to_look_at(data, at + size, end, known, *framing, offsets)
    return UnknownIds(tuple(sorted(ids)), upto if ids else at, first_offset)


def _look(  # noqa: PLR0917 - a batch, and what to look for
    view: memoryview,
    data: Any,
    at: int,
    end: int,
    known: Any,
    framing: Framing,
    offsets: tuple[int, int],
) -> tuple[int, list[int]]:
    """Return the unknown ids of the batch `view[at:end]`, and the offset of the first; -1: none."""
    try:
        header = read_header(view, at, end)
        assert header is not None  # it is whole
        body, begin, stop = data, at + HEADER_BYTES, end
        if header.codec is not Codec.NONE:
            unpacked = decompress(header.codec, view[begin:end])
            body = np.frombuffer(unpacked, np.uint8) if unpacked else _NO_BYTES
            begin, stop = 0, len(unpacked)
        found = np.empty(IDS_MAX, np.int64)
        deltas = offsets[0] - header.base_offset, offsets[1] - header.base_offset
        count = header.records_count
        first, filled = _scan(body, begin, stop, count, known, *framing, deltas, found)
        if not filled:
            return -1, []
        check_crc(view, at, header)
    except BatchError:
        return -1, []  # `convert` reports it
    return header.base_offset + first, found[:filled].tolist()
