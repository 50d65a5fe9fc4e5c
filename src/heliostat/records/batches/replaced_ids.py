"""Schema ids in an answer's records, replaced by those that the same schemas have at the target.

I5  Only the four bytes of an id change: no record gets another size, place or timestamp. A batch
    gets a CRC for its new bytes only if its old one was right; else it is left to `convert`.
I6  What can't be replaced ends the answer, with the reason: no record passes with an old id.

An uncompressed batch is changed where it lies, by compiled code. A compressed one is opened, and
compressed again with its own codec. Where the frames are: `schema_frames`, which must have found
all ids known. Rules for compiled loops: see `reencode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from heliostat.clusters.wire.scan import number_at, put_number
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
    RECORD_BYTES_MIN,
    check_crc,
    read_header,
    sealed,
)
from heliostat.records.batches.codecs import compress, decompress
from heliostat.records.batches.compiled_bytes import crc32c_compiled
from heliostat.records.batches.schema_frames import KNOWN, Framing, place_of

ID_BYTES = 4
_ATTRIBUTES_LOW_AT = CRC_FROM + 1
_COUNT_AT, _CRC_AT = 57, 17
_LENGTH, _, _, _KEY, _ = range(5)
"""A record's varints; also the deltas of its timestamp and offset and, last, its value's size."""
_FIELDS = 5
_SHIFT_MAX = 63
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


class Replaced(NamedTuple):
    """An answer with the target's ids: its batches are `buffer[start:end]`."""

    buffer: bytearray | memoryview
    start: int
    end: int
    trouble: str
    """Why a batch that begins at `end` can't be changed; empty: nothing is left out."""


@inlined(_INT(_OUT, _INT, _INT, _INT, KNOWN, KNOWN, _FLAG, _FLAG))
def put_ids(  # noqa: C901, PLR0912, PLR0917 - one compiled loop
    data: Any, at: int, end: int, count: int, known: Any, targets: Any, keys: bool, values: bool
) -> Any:
    """Put ids of the target into the `count` records that fill `data[at:end]`.

    Parameters
    ----------
    data, at, end, count
        The records (uint8), not compressed.
    known, targets
        See `IdMap`. An id that is not known stays.
    keys, values
        Whether keys and values may begin with an id.

    Returns
    -------
    int
        How many ids were changed; -1: that are not `count` records, and some may be changed.
    """
    changed = np.int64(0)
    # As in `schema_frames`: most keys have the same id as the key before, and so have values.
    before, other = np.int64(-1), np.int64(-1)
    new, new_other = np.int64(-1), np.int64(-1)
    for _ in range(count):
        record_end = end
        for field in range(_FIELDS):
            bits, shift = np.uint64(0), np.uint64(0)
            while True:
                if at >= record_end or (shift == _SHIFT_MAX and data[at] > 1):
                    return np.int64(_REFUSED)
                byte = data[at]
                at += 1
                bits |= np.uint64(byte & 127) << shift
                shift += np.uint64(7)
                if byte < 128:
                    break
            number: Any = np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))
            if field == _LENGTH:
                if number < RECORD_BYTES_MIN - 1 or number > end - at:
                    return np.int64(_REFUSED)
                record_end = at + number
                at += 1  # its attributes
            if field < _KEY:
                continue
            if number > record_end - at:
                return np.int64(_REFUSED)
            before, other = other, before
            new, new_other = new_other, new
            is_looked_at = keys if field == _KEY else values
            if is_looked_at and number >= FRAME_BYTES and data[at] == 0:
                schema_id = np.int64(0)
                for place in range(at + 1, at + FRAME_BYTES):
                    schema_id = schema_id << 8 | np.int64(data[place])
                if schema_id != before:
                    found = place_of(known, schema_id)
                    before, new = schema_id, targets[found] if found >= 0 else schema_id
                if new != schema_id:
                    put_number(data, at + 1, ID_BYTES, new)
                    changed += 1
            at += max(number, np.int64(0))
        at = record_end
    return changed if at == end else np.int64(_REFUSED)


@compiled(_PAIR(_OUT, _INT, _INT, KNOWN, KNOWN, _FLAG, _FLAG))
def _replace_plain(  # noqa: PLR0917 - compiled without keywords
    data: Any, at: int, end: int, known: Any, targets: Any, keys: bool, values: bool
) -> Any:
    """Replace ids batch by batch, up to one that is compressed, old, or has no valid records.

    Returns where that begins, and its size; -1: its records are not valid. A size of 0: there is
    none, and the whole batches, or those before damage, end there.
    """
    while at + MAGIC_AT < end:
        length = number_at(data, at + 8, 4)
        magic = data[at + MAGIC_AT]
        if length < LENGTH_MIN and magic == MAGIC:
            break
        size = LENGTH_ENDS_AT + length
        if length <= MAGIC_AT - LENGTH_ENDS_AT or magic > MAGIC or size > end - at:
            break
        if magic != MAGIC:
            return at, size
        bits, count = data[at + _ATTRIBUTES_LOW_AT], number_at(data, at + _COUNT_AT, 4)
        if bits & CONTROL_BIT == 0 and count != 0:
            if bits & CODEC_BITS != 0:
                return at, size
            crc = np.int64(crc32c_compiled(data, at + CRC_FROM, at + size))
            if crc == number_at(data, at + _CRC_AT, 4) & 0xFFFFFFFF:
                begin, stop = at + HEADER_BYTES, at + size
                found = put_ids(data, begin, stop, count, known, targets, keys, values)
                if found < 0:
                    return at, np.int64(_REFUSED)
                if found:
                    crc = np.int64(crc32c_compiled(data, at + CRC_FROM, at + size))
                    put_number(data, at + _CRC_AT, 4, crc)
        at += size
    return at, np.int64(0)


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
    at, trouble = start, ""
    while True:
        at, size = _replace_plain(data, at, end, *ids, *framing)
        if size == 0:
            break
        if size > 0 and view[at + MAGIC_AT] != MAGIC:
            trouble = OLD_FORMAT
        elif size > 0:
            try:
                new = _packed_again(view, at, at + size, ids, framing)
            except BatchError as error:
                trouble = error.text
            else:
                if new is not None:
                    packed.append((at, at + size, new))
                at += size
                continue
        base = int.from_bytes(view[at : at + 8], "big")
        end, trouble = at, f"batch at source offset {base}: {trouble or NOT_READABLE}"
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
    view: memoryview, at: int, end: int, ids: IdMap, framing: Framing
) -> bytes | None:
    """Return the compressed batch `view[at:end]` with the target's ids.

    None: it has none that change, or is damaged, as `convert` or the target will find.

    Raises
    ------
    BatchError
        It is not damaged, and its records can't be read.
    """
    try:
        header = read_header(view, at, end)
        assert header is not None  # it is whole
        check_crc(view, at, header)
    except BatchError:
        return None
    body = bytearray(decompress(header.codec, view[at + HEADER_BYTES : end]))
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
