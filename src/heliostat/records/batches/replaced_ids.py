"""Schema ids in an answer's records, replaced by those that the same schemas have at the target.

I5  Only the four bytes of an id change, or the sixteen of a GUID: no record gets another size,
    place or timestamp. A batch gets a CRC for its new bytes only if its old one was right; else it
    is left to `convert`.
I6  What can't be replaced ends the answer, with the reason: no record passes with an old id.

An uncompressed batch is changed where it lies, by compiled code. A compressed one is opened, and
compressed again with its own codec. `schema_frames` must have found all ids known; where they are
is said in `schema_places`. Rules for compiled loops: see `reencode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.clusters.wire.scan import number_at, put_number
from heliostat.errors import BatchError
from heliostat.framed_ids import GUID_BYTES
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
    check_crc,
    read_header,
    sealed,
)
from heliostat.records.batches.codecs import compress, decompress
from heliostat.records.batches.compiled_bytes import BYTES, copy_bytes, crc32c_compiled
from heliostat.records.batches.schema_frames import Framing
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

ID_BYTES = 4
_ATTRIBUTES_LOW_AT = CRC_FROM + 1
_COUNT_AT, _CRC_AT = 57, 17
_REFUSED = -1
_INT = types.int64
_FLAG = types.boolean
_OUT = types.uint8[::1]
_PAIR = types.UniTuple(_INT, 2)
NOT_READABLE = "its records can't be read, though its checksum is right"
OLD_FORMAT = (
    "it is in a message format of Kafka before 0.11, in which schema ids are not replaced: take a "
    "strategy that keeps ids"
)


class IdMap(NamedTuple):
    """Ids of the source and what they are at the target: int64 of shape (n,), both."""

    known: Any
    """Ascending."""
    targets: Any
    """Of a GUID: itself where the target has the same, or else the place of the target's."""
    guids: Any
    """The target's GUIDs that are others: uint8 of shape (16 n,)."""


class Replaced(NamedTuple):
    """An answer with the target's ids: its batches are `buffer[start:end]`."""

    buffer: bytearray | memoryview
    start: int
    end: int
    trouble: str
    """Why a batch that begins at `end` can't be changed; empty: nothing is left out."""


@inlined(_INT(KNOWN, KNOWN, _INT))
def _target_of(ids: Any, targets: Any, number: int) -> Any:
    """Return what an id or GUID is at the target, see `IdMap`; one that is not known stays."""
    place = place_of(ids, number)
    return targets[place] if place >= 0 else number


@inlined(_INT(_OUT, _INT, _INT, KNOWN, KNOWN, BYTES))
def _put_in_header(  # noqa: PLR0917 - compiled without keywords
    data: Any, position: int, number: int, ids: Any, targets: Any, guids: Any
) -> Any:
    """Put the target's id or GUID into a header's content.

    Returns 1 if that changes; -1: there is no such GUID.
    """
    new = _target_of(ids, targets, number)
    if new == number:
        return np.int64(0)
    if number >= 0:
        put_number(data, position + 1, ID_BYTES, new)
    elif 0 <= new < len(guids) // GUID_BYTES:
        copy_bytes(data, position + 1, guids, new * GUID_BYTES, GUID_BYTES)
    else:
        return np.int64(_REFUSED)
    return np.int64(1)


@inlined(_INT(_OUT, _INT, _INT, _INT, KNOWN, KNOWN, BYTES, _FLAG, _FLAG, _FLAG))
def put_ids(  # noqa: PLR0917 - one compiled loop
    data: Any,
    position: int,
    end: int,
    count: int,
    ids: Any,
    targets: Any,
    guids: Any,
    keys: bool,
    values: bool,
    headers: bool,
) -> Any:
    """Put ids of the target into the `count` records that fill `data[position:end]`.

    Parameters
    ----------
    data, position, end, count
        The records (uint8), not compressed.
    ids, targets, guids
        See `IdMap`. An id that is not known stays.
    keys, values, headers
        See `Framing`.

    Returns
    -------
    int
        How many ids were changed; -1: that are not `count` records, or a GUID has to change and is
        not among `guids`; and some may be changed.
    """
    none: Any = np.int64(NO_ID)
    changed: Any = np.int64(0)
    # As in `schema_frames`: most keys have the same id as the key before, and so have values.
    key_before, key_new, value_before, value_new = none, none, none, none
    for _ in range(count):
        position, _, key_at, key_bytes, value_at, value_bytes, place = record_parts(
            data, position, end
        )
        if position < 0:
            return np.int64(_REFUSED)
        key = id_in_front(data, key_at, key_bytes) if keys else none
        value = id_in_front(data, value_at, value_bytes) if values else none
        left, place = headers_in(data, place, position)
        while left > 0:
            kind, content, in_header, place, left = next_schema_header(data, place, position, left)
            if kind == 0:
                break
            key, value = (none, value) if kind == OF_KEY else (key, none)
            if headers:
                done = _put_in_header(data, content, in_header, ids, targets, guids)
                if done < 0:
                    return np.int64(_REFUSED)
                changed += done
        if key != key_before:
            key_before, key_new = key, _target_of(ids, targets, key)
        if value != value_before:
            value_before, value_new = value, _target_of(ids, targets, value)
        if key_new != key:
            put_number(data, key_at + 1, ID_BYTES, key_new)
            changed += 1
        if value_new != value:
            put_number(data, value_at + 1, ID_BYTES, value_new)
            changed += 1
    return changed if position == end else np.int64(_REFUSED)


@compiled(_PAIR(_OUT, _INT, _INT, KNOWN, KNOWN, BYTES, _FLAG, _FLAG, _FLAG))
def _replace_plain(  # noqa: PLR0917 - compiled without keywords
    data: Any,
    position: int,
    end: int,
    ids: Any,
    targets: Any,
    guids: Any,
    keys: bool,
    values: bool,
    headers: bool,
) -> Any:
    """Replace ids batch by batch, up to one that is compressed, old, or has no valid records.

    Returns where that begins, and its size; -1: its records are not valid. A size of 0: there is
    none, and the whole batches, or those before damage, end there.
    """
    while position + MAGIC_AT < end:
        length = number_at(data, position + 8, 4)
        magic = data[position + MAGIC_AT]
        if length < LENGTH_MIN and magic == MAGIC:
            break
        size = LENGTH_ENDS_AT + length
        if length <= MAGIC_AT - LENGTH_ENDS_AT or magic > MAGIC or size > end - position:
            break
        if magic != MAGIC:
            return position, size
        bits, count = data[position + _ATTRIBUTES_LOW_AT], number_at(data, position + _COUNT_AT, 4)
        if bits & CONTROL_BIT == 0 and count != 0:
            if bits & CODEC_BITS != 0:
                return position, size
            crc = np.int64(crc32c_compiled(data, position + CRC_FROM, position + size))
            if crc == number_at(data, position + _CRC_AT, 4) & 0xFFFFFFFF:
                begin, stop = position + HEADER_BYTES, position + size
                replaced_count = put_ids(
                    data, begin, stop, count, ids, targets, guids, keys, values, headers
                )
                if replaced_count < 0:
                    return position, np.int64(_REFUSED)
                if replaced_count:
                    crc = np.int64(crc32c_compiled(data, position + CRC_FROM, position + size))
                    put_number(data, position + _CRC_AT, 4, crc)
        position += size
    return position, np.int64(0)


def replace_ids(
    buffer: bytearray | memoryview, start: int, end: int, ids: IdMap, framing: Framing
) -> Replaced:
    """Put the target's ids into an answer's records.

    Parameters
    ----------
    buffer, start, end
        The answer's batches are `buffer[start:end]`, and may be changed; the last may be cut.
    ids, framing
        What becomes of which ids, and where they are.

    Returns
    -------
    Replaced
        The same buffer, or a new one if compressed batches have changed. Damage never raises.
    """
    view = memoryview(buffer)
    data = np.frombuffer(view, np.uint8)
    packed: list[tuple[int, int, bytes]] = []
    position, trouble = start, ""
    while True:
        position, size = _replace_plain(data, position, end, *ids, *framing)
        if size == 0:
            break
        if size > 0 and view[position + MAGIC_AT] != MAGIC:
            trouble = OLD_FORMAT
        elif size > 0:
            try:
                new = _packed_again(view, position, position + size, ids, framing)
            except BatchError as error:
                trouble = error.text
            else:
                if new is not None:
                    packed.append((position, position + size, new))
                position += size
                continue
        base = int.from_bytes(view[position : position + 8], "big")
        end, trouble = position, f"batch at source offset {base}: {trouble or NOT_READABLE}"
        break
    if not packed:
        return Replaced(buffer, start, end, trouble)
    parts: list[bytes | memoryview] = []
    done = start
    for first, upto, new in packed:
        parts += (view[done:first], new)
        done = upto
    joined = bytearray().join((*parts, view[done:end]))
    return Replaced(joined, 0, len(joined), trouble)


def _packed_again(
    view: memoryview, position: int, end: int, ids: IdMap, framing: Framing
) -> bytes | None:
    """Return the compressed batch `view[position:end]` with the target's ids.

    None: it has none that change, or is damaged, as `convert` or the target will find.

    Raises
    ------
    BatchError
        It is not damaged, and its records can't be read.
    """
    try:
        header = read_header(view, position, end)
        assert header is not None  # it is whole
        check_crc(view, position, header)
    except BatchError:
        return None
    body = bytearray(decompress(header.codec, view[position + HEADER_BYTES : end]))
    data, count = np.frombuffer(body, np.uint8), header.records_count
    changed = put_ids(data, 0, len(body), count, *ids, *framing)
    if changed < 0:
        raise BatchError(NOT_READABLE)
    if not changed:
        return None
    new: bytes | bytearray = compress(header.codec, body)
    if len(new) >= len(body):
        new, header = body, header._replace(attributes=header.attributes & ~CODEC_BITS)
    return sealed(header, new) + new
