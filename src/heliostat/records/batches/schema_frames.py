"""Which schema ids the records of an answer have, as far as they are not known yet.

I8  What must wait for a schema begins at `UnknownIds.upto`; all before it has known ids only.

Only the five bytes of a frame of a key or value are looked at, and two headers (`schema_places`).

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
    Codec,
    check_crc,
    read_header,
)
from heliostat.records.batches.codecs import decompress
from heliostat.records.batches.compiled_bytes import BYTES
from heliostat.records.batches.schema_places import (
    KNOWN,
    NO_ID,
    OF_KEY,
    headers_in,
    id_in_front,
    next_schema_header,
    place_of,
    record_parts,
)

ALL_OFFSETS = 0, OFFSET_MAX
IDS_MAX = 256
"""Unknown ids that are looked for; where any bytes may be in values, there could be thousands."""

_ATTRIBUTES_LOW_AT = CRC_FROM + 1
_COUNT_AT = 57
_NO_BYTES: Any = np.empty(0, np.uint8)
_INT = types.int64
_PAIR, _TRIPLE = types.UniTuple(_INT, 2), types.UniTuple(_INT, 3)
_FLAG = types.boolean
_FOUND = types.int64[::1]


class Framing(NamedTuple):
    """Where a topic's records may have schema ids."""

    keys: bool
    values: bool
    headers: bool
    """Else those in headers are no concern of whoever asks; a key or value with an id in a header
    has none in front of it all the same."""


class Known(NamedTuple):
    """Ids that need not be found: int64 of shape (n,), ascending."""

    values: Any
    """Those that values may begin with."""
    others: Any
    """Those that keys may begin with, and headers have."""


class UnknownIds(NamedTuple):
    """What `unknown_ids` has found."""

    ids: tuple[int, ...]
    """Ids that are not known, ascending. If there are `IDS_MAX` or more, there may be others."""
    upto: int
    """Where in the view the first batch with one begins. Without one, where the whole batches end:
    the view's end if that can't be told, as damage must reach `convert`."""
    first_offset: int
    """Source offset of the first record with one, -1: none."""
    in_headers: bool = False
    """Whether records up to there have ids in headers."""


@inlined(_PAIR(_FOUND, _INT, _INT, _INT, _INT))
def _noted(ids: Any, filled: int, number: int, first: int, delta: int) -> Any:
    """Add a number of the record at `delta` to the `filled` first ones, unless it is there.

    Returns how many there are, and the first record with one, which was `first` (-1: none) before.
    """
    first = delta if first < 0 else first
    for place in range(filled):
        if ids[place] == number:
            return filled, first
    if filled < len(ids):
        ids[filled] = number
        filled += 1
    return filled, first


@inlined(_TRIPLE(BYTES, _INT, _INT, _INT, KNOWN, KNOWN, _FLAG, _FLAG, _FLAG, _PAIR, _FOUND))
def _scan(  # noqa: PLR0917 - one compiled loop
    data: Any,
    position: int,
    end: int,
    count: int,
    known_values: Any,
    known_others: Any,
    keys: bool,
    values: bool,
    headers: bool,
    deltas: tuple[int, int],
    ids: Any,
) -> Any:
    """Look for unknown ids in the `count` records in `data[position:end]`.

    Only records with offset deltas in `[deltas[0], deltas[1])` are looked at. Ends at damage, and
    where `ids` has no room for more. Returns the offset delta of the first record with an unknown
    id, -1: none; how many such ids are in `ids`; and how many headers have an id.
    """
    none = np.int64(NO_ID)
    first, filled, id_headers = np.int64(-1), np.int64(0), np.int64(0)
    # Most keys have the same id as the key before, and so have values.
    key_before, value_before = none, none
    for _ in range(count):
        position, delta, key_at, key_bytes, value_at, value_bytes, place = record_parts(
            data, position, end
        )
        if position < 0 or delta < 0:
            break
        is_looked_at = deltas[0] <= delta < deltas[1]
        key = id_in_front(data, key_at, key_bytes) if keys else none
        value = id_in_front(data, value_at, value_bytes) if values else none
        left, place = headers_in(data, place, position)
        while left > 0:
            kind, _, in_header, place, left = next_schema_header(data, place, position, left)
            if kind == 0:
                break
            key, value = (none, value) if kind == OF_KEY else (key, none)
            id_headers += 1
            if headers and is_looked_at and place_of(known_others, in_header) < 0:
                filled, first = _noted(ids, filled, in_header, first, delta)
        if is_looked_at and key != key_before:
            if key == none or place_of(known_others, key) >= 0:
                key_before = key
            else:
                filled, first = _noted(ids, filled, key, first, delta)
        if is_looked_at and value != value_before:
            if value == none or place_of(known_values, value) >= 0:
                value_before = value
            else:
                filled, first = _noted(ids, filled, value, first, delta)
        if first >= 0 and filled == len(ids):
            break
    return first, filled, id_headers


@compiled(_TRIPLE(BYTES, _INT, _INT, KNOWN, KNOWN, _FLAG, _FLAG, _FLAG, _PAIR), makes_arrays=True)
def to_look_at(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    position: int,
    end: int,
    known_values: Any,
    known_others: Any,
    keys: bool,
    values: bool,
    headers: bool,
    offsets: tuple[int, int],
) -> Any:
    """Return where the first batch that is compressed or has an unknown id begins, and its size.

    Only records at source offsets in `[offsets[0], offsets[1])` are looked at. A size of 0: there
    is none, and the whole batches end there. Last comes how many headers have an id before there.
    """
    none = np.empty(0, np.int64)
    id_headers = np.int64(0)
    while position + LENGTH_ENDS_AT <= end:
        length = number_at(data, position + 8, 4)  # there in all formats
        if length <= 0:
            return end, np.int64(0), id_headers
        size = LENGTH_ENDS_AT + length
        if size > end - position:
            break
        bits = data[position + _ATTRIBUTES_LOW_AT] if length > LENGTH_MIN else np.uint8(CONTROL_BIT)
        if bits & CONTROL_BIT == 0 and data[position + MAGIC_AT] == MAGIC:
            if bits & CODEC_BITS != 0:
                return position, size, id_headers
            begin, count = position + HEADER_BYTES, number_at(data, position + _COUNT_AT, 4)
            base = number_at(data, position, 8)
            deltas = offsets[0] - base, offsets[1] - base
            first, _, more = _scan(
                data,
                begin,
                position + size,
                count,
                known_values,
                known_others,
                keys,
                values,
                headers,
                deltas,
                none,
            )
            if first >= 0:
                return position, size, id_headers
            id_headers += more
        position += size
    return position, np.int64(0), id_headers


def unknown_ids(  # noqa: PLR0917 - an answer, and what to look for
    view: memoryview,
    start: int,
    end: int,
    known_ids: Known,
    framing: Framing,
    offsets: tuple[int, int] = ALL_OFFSETS,
) -> UnknownIds:
    """Return the schema ids of an answer's records that are not among those known.

    Parameters
    ----------
    view, start, end
        The answer's batches are `view[start:end]`, and are not changed; the last may be cut.
        Messages of the formats before v2 have no ids here, nor have control batches.
    known_ids
        Which ids need not be found.
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
    position, size, id_headers = to_look_at(data, start, end, *known_ids, *framing, offsets)
    upto = first_offset = -1
    ids: list[int] = []
    in_headers = id_headers > 0
    while size and len(ids) < IDS_MAX:
        offset, new_ids, id_headers = _look(
            view, data, position, position + size, known_ids, framing, offsets
        )
        if new_ids:
            if not ids:
                upto, first_offset = position, offset
            ids += new_ids
            # Compiled code need not stop at each batch that has the same ones.
            known_ids = Known(*(_with(group, new_ids) for group in known_ids))
        in_headers |= id_headers > 0 and not ids
        position, size, id_headers = to_look_at(
            data, position + size, end, *known_ids, *framing, offsets
        )
        in_headers |= id_headers > 0 and not ids
    return UnknownIds(tuple(sorted(ids)), upto if ids else position, first_offset, in_headers)


def _with(ids: Any, new_ids: list[int]) -> Any:
    new = np.setdiff1d(np.array(new_ids, np.int64), ids)
    return np.insert(ids, np.searchsorted(ids, new), new)


def _look(  # noqa: PLR0917 - a batch, and what to look for
    view: memoryview,
    data: Any,
    position: int,
    end: int,
    known_ids: Known,
    framing: Framing,
    offsets: tuple[int, int],
) -> tuple[int, list[int], int]:
    """Look into the batch `view[position:end]`.

    Returns the offset of the first record with an unknown id, -1: none; such ids; and how many
    headers have an id.
    """
    try:
        header = read_header(view, position, end)
        assert header is not None  # it is whole
        body, begin, stop = data, position + HEADER_BYTES, end
        if header.codec is not Codec.NONE:
            unpacked = decompress(header.codec, view[begin:end])
            body = np.frombuffer(unpacked, np.uint8) if unpacked else _NO_BYTES
            begin, stop = 0, len(unpacked)
        ids = np.empty(IDS_MAX, np.int64)
        deltas = offsets[0] - header.base_offset, offsets[1] - header.base_offset
        count = header.records_count
        first, filled, id_headers = _scan(
            body, begin, stop, count, *known_ids, *framing, deltas, ids
        )
        if not filled:
            return -1, [], id_headers
        check_crc(view, position, header)
    except BatchError:
        return -1, [], 0  # `convert` reports it
    return header.base_offset + first, ids[:filled].tolist(), id_headers
