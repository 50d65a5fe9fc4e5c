"""Small batches joined into one: records change their first varints, the rest stays opaque bytes.

A record is `length, attributes, timestamp delta, offset delta, key, value, headers`. In a joined
batch it has another place and another base timestamp: so two deltas change, and with their size
the length. A broker takes one batch per partition and request; one record a batch, which many
producers send, would otherwise cost one request a record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache

from heliostat.errors import BatchError
from heliostat.records.batch import (
    CODEC_BITS,
    CODECS,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    RECORD_BYTES_MIN,
)
from heliostat.records.codecs import TooMuch, decompress
from heliostat.records.crc import crc32c
from heliostat.records.varints import (
    INT64_MAX,
    INT64_MIN,
    LAST,
    MORE,
    PAIR_BITS,
    PAIR_MASK,
    read_varint,
    varint,
)

JOIN_RECORDS_MAX = 65_536
"""Of one joined batch: bounds the tables below; enough for 1 MiB of 16-byte records."""
JOIN_BELOW_BYTES_MAX = 256 * 1024
"""Larger batches gain nothing by joining; bounds the tables below."""
GROWTH_BYTES_MAX = 12
"""A record's timestamp delta may grow from 1 byte to 10, its offset delta from 1 to 3, its length
by 1."""
_FIELDS = struct.Struct(">qi4xBIhiqq14xi")
"""Of a header: base offset, length, magic, CRC, attributes, last offset delta, base timestamp,
max timestamp, records count."""
_MORE_OR_NEGATIVE = 0x81
"""Bits of a varint's first byte: more bytes follow, or the number is negative."""
_QUICK_LENGTH_MAX = PAIR_MASK >> 1
"""Largest record whose length has two bytes."""
_ONE_PAIR = 1 << PAIR_BITS - 1
_TWO_PAIRS = 1 << 2 * PAIR_BITS
"""Zigzag numbers below take two look-ups at most: timestamp deltas up to 37 h."""
_CODECS_NONE = frozenset(
    {0, LOG_APPEND_TIME_BIT, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT}
)
_CODECS_ALL = frozenset(bits | codec.value for bits in _CODECS_NONE for codec in CODECS)


class FarApart(BatchError):
    """Two timestamps differ by more than a batch can express."""


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """What is joined, and up to what size.

    Batches of fewer than `below_bytes` are joined, to a batch of at most `size_bytes_max` (before
    compression), those that come compressed only if `compressed`.
    """

    below_bytes: int
    size_bytes_max: int
    compressed: bool


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The records of one batch as stored, decompressed."""

    body: bytes
    count: int
    base_timestamp: int
    """What their timestamp deltas count from."""
    log_append_time: int | None
    """Timestamp (ms) that readers see for each; None: each has its own."""


@dataclass(slots=True)
class Run:
    """Records of one or more batches, encoded anew for one batch."""

    base_offset: int
    end: int
    """Where in the data the first batch begins that is not in the run."""
    room: int
    """Bytes that more records may have."""
    parts: list[bytes] = field(default_factory=list)
    batches: int = 0
    """How many it was made of."""
    records: int = 0
    base_timestamp: int = 0
    max_timestamp: int = INT64_MIN
    trouble: BatchError | None = None
    """Why the batch at `end` is not sound; None if it just is not one for joining."""


def join_run(data: bytes, at: int, base_offset: int, limits: JoinLimits) -> Run:
    """Join the small batches that stand at `at` one behind the other.

    Parameters
    ----------
    data, at
        Batches from `at` on; the last may be cut.
    base_offset
        Offset that the first must have.
    limits
        What to join.

    Returns
    -------
    Run
        Possibly of no batch: then the one at `at` is not for joining, or in `trouble`.
    """
    run = Run(base_offset, at, room=limits.size_bytes_max - HEADER_BYTES)
    below = min(limits.below_bytes, JOIN_BELOW_BYTES_MAX)
    joinable = _CODECS_ALL if limits.compressed else _CODECS_NONE
    while run.trouble is None and run.records < JOIN_RECORDS_MAX:
        before = run.batches
        _join_singles(run, data, below)
        _join_any(run, data, below, joinable)
        if run.batches == before:
            break
    return run


def _join_singles(  # noqa: C901, PLR0912 - flat for speed, see below
    run: Run, data: bytes, below_bytes: int
) -> None:
    """Join plain batches of one record until another kind comes.

    Its loop is flat on purpose: every call or object more costs a tenth of its speed, which is
    that of the whole copy where producers send one record a batch.
    """
    parts, unpack, crc, begins = run.parts, _FIELDS.unpack_from, crc32c, data.startswith
    lengths, offsets, singles = _record_lengths(below_bytes), _offset_deltas(), _SINGLES
    at, room, records, base_offset = run.end, run.room, run.records, run.base_offset
    base, max_timestamp = run.base_timestamp, run.max_timestamp
    data_end, headers_end = len(data), len(data) - HEADER_BYTES
    length_end = below_bytes - LENGTH_ENDS_AT
    while at < headers_end and records < JOIN_RECORDS_MAX:
        offset, length, magic, stored, bits, last, timestamp, latest, count = unpack(data, at)
        if (
            not LENGTH_MIN < length < length_end
            or length > room
            or offset != base_offset + records
            or magic != MAGIC
            or count != 1
            or last
        ):
            break
        if bits:
            if bits not in _CODECS_NONE:
                break
            if bits & LOG_APPEND_TIME_BIT:
                timestamp = latest
        next_at = at + LENGTH_ENDS_AT + length
        known = singles.get(length) or _single(length)
        if next_at > data_end or not begins(known[0], at + HEADER_BYTES):
            break
        if crc(data[at + CRC_FROM : next_at]) != stored:
            break
        if not records:
            base = timestamp
        zigzag = timestamp - base << 1
        if 0 <= zigzag <= PAIR_MASK:
            delta = LAST[zigzag]
        elif 0 <= zigzag < _TWO_PAIRS:
            delta = MORE[zigzag & PAIR_MASK] + LAST[zigzag >> PAIR_BITS]
        elif INT64_MIN <= timestamp - base <= INT64_MAX:
            delta = varint(timestamp - base)
        else:
            break
        if timestamp > max_timestamp:  # noqa: PLR1730 - a call of max() costs 4 % of the loop
            max_timestamp = timestamp
        place = offsets[records]
        record_length = lengths[known[2] + len(delta) + len(place)]
        parts += (record_length, delta, place, data[at + known[1] : next_at])
        records += 1
        room -= length
        at = next_at
    run.batches += records - run.records
    run.end, run.room, run.records = at, room, records
    run.base_timestamp, run.max_timestamp = base, max_timestamp


def _join_any(run: Run, data: bytes, below_bytes: int, joinable: frozenset[int]) -> None:
    """Join one batch of any number of records and any codec, if it is for joining."""
    at = run.end
    if len(data) - at <= HEADER_BYTES:
        return
    offset, length, magic, stored, bits, last, timestamp, latest, count = _FIELDS.unpack_from(
        data, at
    )
    end = at + LENGTH_ENDS_AT + length
    if (
        not LENGTH_MIN < length < below_bytes - LENGTH_ENDS_AT
        or end > len(data)
        or offset != run.base_offset + run.records
        or magic != MAGIC
        or bits not in joinable
        or not 0 < count == last + 1 <= JOIN_RECORDS_MAX - run.records
    ):
        return
    mark = len(run.parts)
    try:
        if crc32c(data[at + CRC_FROM : end]) != stored:
            raise BatchError("a batch's checksum does not fit its bytes")  # noqa: TRY301 - one exit
        body = decompress(CODECS[bits & CODEC_BITS], data[at + HEADER_BYTES : end], run.room)
        used = len(body) + count * GROWTH_BYTES_MAX
        if used > run.room:
            return
        records = SourceRecords(
            body, count, timestamp, latest if bits & LOG_APPEND_TIME_BIT else None
        )
        new_base = run.base_timestamp if run.batches else None
        base = timestamp if new_base is None else new_base
        max_timestamp = latest
        if bits or not _encode_quick(records, run.parts, run.records, base):
            del run.parts[mark:]
            base, max_timestamp = encode_anew(
                records, run.parts, first_delta=run.records, new_base=new_base
            )
    except (TooMuch, FarApart):
        del run.parts[mark:]
        return
    except BatchError as error:
        del run.parts[mark:]
        run.trouble = error
        return
    run.base_timestamp, run.max_timestamp = base, max(run.max_timestamp, max_timestamp)
    run.batches += 1
    run.records += count
    run.room -= used
    run.end = end


def _encode_quick(
    source: SourceRecords, parts: list[bytes], first_delta: int, new_base: int
) -> bool:
    """Encode the common kind of records; False, with `parts` in disorder, at any other.

    Common are records of less than 8 KiB that follow the base timestamp within 8 s. Twice as fast
    as `encode_anew`, which judges whatever is not common, damage included.
    """
    body, count = source.body, source.count
    lengths, offsets = _record_lengths(_QUICK_LENGTH_MAX), _offset_deltas()
    shift = source.base_timestamp - new_base
    at, end = 0, len(body)
    if count * RECORD_BYTES_MIN > end:
        return False
    for index in range(count):
        if at > end - RECORD_BYTES_MIN:
            return False
        length = body[at]
        if length & _MORE_OR_NEGATIVE:
            length = length & 127 | body[at + 1] << 7
            if length & 1 or length > PAIR_MASK:
                return False
            at += 1
        begin = at + 1
        at = begin + (length >> 1)
        since = body[begin + 1]
        delta_at = begin + 2
        if since & _MORE_OR_NEGATIVE:
            since = since & 127 | body[delta_at] << 7
            if since > PAIR_MASK:
                return False
            delta_at += 1
        since = (since >> 1) + shift if not since & 1 else -1
        old = offsets[index]
        rest_at = delta_at + len(old)
        if (
            body[begin]
            or at > end
            or not 0 <= since < _ONE_PAIR
            or at < rest_at + 3
            or body[delta_at:rest_at] != old
        ):
            return False
        stamp, place = LAST[since << 1], offsets[first_delta + index]
        parts += (
            lengths[1 + len(stamp) + len(place) + at - rest_at],
            stamp,
            place,
            body[rest_at:at],
        )
    return at == end


def encode_anew(
    source: SourceRecords,
    parts: list[bytes],
    *,
    first_delta: int = 0,
    new_base: int | None = None,
    start: int = 0,
    stop: int | None = None,
) -> tuple[int, int]:
    """Encode records for another batch; key, value and headers are not looked at.

    Parameters
    ----------
    source
        Where they come from.
    parts
        Where the encoded pieces go, in order.
    first_delta
        Offset delta of the first record in the new batch.
    new_base
        Base timestamp of the new batch; None takes the first record's.
    start, stop
        Which of the records are wanted, `[start, stop)`; all are checked.

    Returns
    -------
    tuple[int, int]
        Base and maximum timestamp (ms) of the new batch as far as these records say.

    Raises
    ------
    FarApart
        A timestamp is too far from the base.
    BatchError
        The records do not fit their header. `parts` may hold some of them then.
    """
    end = len(source.body)
    if source.count * RECORD_BYTES_MIN > end:
        raise BatchError("a batch is too short for its records", records=source.count)
    wanted = range(start, source.count if stop is None else stop)
    try:
        at, base, max_timestamp = _encode_wanted(source, parts, wanted, first_delta, new_base)
    except IndexError:
        raise BatchError("a batch ends in the middle of a record") from None
    if at != end:
        raise BatchError("a batch has more bytes than its records", left=end - at)
    return base, max_timestamp


def _encode_wanted(  # noqa: C901, PLR0912 - flat for speed: this is for each record
    source: SourceRecords,
    parts: list[bytes],
    wanted: range,
    first_delta: int,
    new_base: int | None,
) -> tuple[int, int, int]:
    """Encode; returns where the last record ends, and base and maximum timestamp."""
    body, base_timestamp, log_append_time = (
        source.body,
        source.base_timestamp,
        source.log_append_time,
    )
    at, end, max_timestamp = 0, len(body), INT64_MIN
    moved = first_delta - wanted.start
    for index in range(source.count):
        length, begin = body[at] >> 1, at + 1
        if body[at] & _MORE_OR_NEGATIVE:
            length, begin = read_varint(body, at)
        at = begin + length
        if length < RECORD_BYTES_MIN - 1 or at > end:
            raise BatchError("a record's length is wrong", record=index, length=length)
        timestamp, delta_at = body[begin + 1] >> 1, begin + 2
        if body[begin + 1] & _MORE_OR_NEGATIVE:
            timestamp, delta_at = read_varint(body, begin + 1)
        delta, rest_at = body[delta_at] >> 1, delta_at + 1
        if body[delta_at] & _MORE_OR_NEGATIVE:
            delta, rest_at = read_varint(body, delta_at)
        if delta != index or rest_at > at:
            raise BatchError("a record's offset is wrong", record=index, delta=delta)
        if index not in wanted:
            continue
        timestamp += base_timestamp
        if log_append_time is not None:
            timestamp = log_append_time
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise BatchError("a record's timestamp is wrong", record=index)
        if new_base is None:
            new_base = timestamp
        if timestamp > max_timestamp:  # noqa: PLR1730 - quicker than a call of max()
            max_timestamp = timestamp
        since_base = timestamp - new_base
        if 0 <= since_base < _ONE_PAIR:
            head = body[begin : begin + 1] + LAST[since_base << 1]
        elif INT64_MIN <= since_base <= INT64_MAX:
            head = body[begin : begin + 1] + varint(since_base)
        else:
            raise FarApart("timestamps are too far apart", record=index)
        head += varint(moved + index)
        parts += (varint(len(head) + at - rest_at), head, body[rest_at:at])
    return at, base_timestamp if new_base is None else new_base, max_timestamp


_NEVER = b"\xff" * 16
"""Begins no record: a varint has ten bytes at most."""
_SINGLES: dict[int, tuple[bytes, int, int]] = {}


def _single(length: int) -> tuple[bytes, int, int]:
    """How the one record of a plain batch must begin, by the batch's length field.

    Returns
    -------
    tuple[bytes, int, int]
        Length, attributes 0, timestamp delta 0, offset delta 0; how many bytes of the batch that
        and the header are; the record's length without the two deltas.
    """
    body = length - LENGTH_MIN
    found = (_NEVER, 0, 0)
    for varint_bytes in (1, 2, 3):
        record = body - varint_bytes
        encoded = varint(record)
        if len(encoded) == varint_bytes and record >= RECORD_BYTES_MIN - 1:
            found = (encoded + bytes(3), HEADER_BYTES + varint_bytes + 3, record - 2)
    _SINGLES[length] = found
    return found


@cache
def _record_lengths(below_bytes: int) -> tuple[bytes, ...]:
    """A record's length, and the attributes 0 that follow."""
    return tuple(varint(length) + b"\0" for length in range(below_bytes + GROWTH_BYTES_MAX))


@cache
def _offset_deltas() -> tuple[bytes, ...]:
    return tuple(varint(delta) for delta in range(JOIN_RECORDS_MAX))
